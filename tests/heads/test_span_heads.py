import math
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.encoders.words import EncodedWords
from lacuner.heads import SPAN_HEADS, BiaffineConfig, ProductConfig, SpanHead, SpanHeadConfig, SpanScores, WidthConfig
from lacuner.supervision.spans import Spans, enumerate_spans

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 7), st.integers(1, 5))  # of words, of hidden layers, labels
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=3)
HEADS = (
    ProductConfig(hidden=6, dropout=0.0),
    WidthConfig(hidden=6, width_size=3, dropout=0.0),
    BiaffineConfig(hidden=6, dropout=0.0),
)
WITH_DROPOUT = tuple(config.model_copy(update={"dropout": 0.4}) for config in HEADS)


def random_words(lengths: list[int], size: int) -> EncodedWords:
    shape = (len(lengths), max(lengths), size)
    return EncodedWords(torch.randn(shape), torch.randn(shape))


def product_by_hand(head: SpanHead, words: EncodedWords, row: int, start: int, last: int) -> tuple[Tensor, Tensor]:
    i, j = words.first[row, start], words.first[row, last]
    features = torch.cat([i, j, i - j, i * j])
    hidden = torch.tanh(head.layer.weight @ features + head.layer.bias)
    return head.classifier.weight @ hidden + head.classifier.bias, hidden


def width_by_hand(head: SpanHead, words: EncodedWords, row: int, start: int, last: int) -> tuple[Tensor, Tensor]:
    width = head.widths.weight[min(last - start, len(head.widths.weight) - 1)]
    features = torch.cat([words.first[row, start], words.last[row, last], width])
    hidden = torch.relu(head.layer.weight @ features + head.layer.bias)
    hidden = torch.relu(head.second.weight @ hidden + head.second.bias)
    return head.classifier.weight @ hidden + head.classifier.bias, hidden


def assert_equals_loop(head: SpanHead, by_hand: object, words: EncodedWords, spans: Spans, labels: int) -> None:
    scores = head.eval()(head.project(words), spans, hidden=True)
    assert scores.logits.shape == (len(spans), labels)
    for index in range(len(spans)):
        logits, hidden = by_hand(head, words, int(spans.row[index]), int(spans.start[index]), int(spans.end[index]) - 1)
        torch.testing.assert_close(scores.logits[index], logits, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(scores.hidden[index], hidden, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=50)
@given(SIZES, LENGTHS, st.integers(0, 99))
def test_the_split_product_head_is_the_concatenated_one(
    sizes: tuple[int, int, int], lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    size, hidden, labels = sizes
    head = ProductConfig(hidden=hidden).build(size, labels)
    spans = enumerate_spans(torch.tensor(lengths))
    assert_equals_loop(head, product_by_hand, random_words(lengths, size), spans, labels)


@settings(deadline=None, max_examples=50)
@given(SIZES, LENGTHS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.integers(0, 99))
def test_the_split_width_head_is_the_concatenated_one(
    sizes: tuple[int, int, int], lengths: list[int], max_width: int, width_size: int, seed: int
) -> None:
    torch.manual_seed(seed)
    size, hidden, labels = sizes
    head = WidthConfig(hidden=hidden, width_size=width_size, max_span_width=max_width).build(size, labels)
    spans = enumerate_spans(torch.tensor(lengths), max_width)
    assert_equals_loop(head, width_by_hand, random_words(lengths, size), spans, labels)


def test_without_a_bound_very_wide_spans_share_a_width() -> None:
    torch.manual_seed(0)
    head = WidthConfig(hidden=5, width_size=3, max_span_width=None).build(4, 2)
    words = random_words([200], 4)
    spans = Spans.of([(0, 0, 1), (0, 3, 67), (0, 3, 68), (0, 0, 200)])
    assert_equals_loop(head, width_by_hand, words, spans, 2)


def test_every_head_is_tested_here() -> None:
    assert {config.name for config in HEADS} == set(SPAN_HEADS)


@pytest.mark.parametrize("config", HEADS)
def test_no_spans_have_no_scores(config: SpanHeadConfig) -> None:
    head = config.build(4, 3)
    projected = head.project(random_words([2], 4))
    scores = head(projected, Spans.of([]), hidden=True)
    assert scores.logits.shape == (0, 3)
    one = Spans.of([(0, 0, 1)])
    assert scores.hidden.shape == (0, head(projected, one, hidden=True).hidden.shape[1])
    assert head.represent(projected, Spans.of([])).shape == (0, head.represent(projected, one).shape[1])


@settings(deadline=None, max_examples=30)
@given(SIZES, LENGTHS, st.sampled_from([None, 1, 4]), st.booleans(), st.integers(0, 99))
def test_what_a_head_looks_at_is_the_concatenation_that_the_papers_print(
    sizes: tuple[int, int, int], lengths: list[int], max_width: int | None, training: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    size, hidden, labels = sizes
    words, spans = random_words(lengths, size), enumerate_spans(torch.tensor(lengths), max_width)
    product = ProductConfig(hidden=hidden).build(size, labels).train(training)
    width = WidthConfig(hidden=hidden, width_size=2, max_span_width=max_width).build(size, labels).train(training)
    products = product.represent(product.project(words), spans)
    widths = width.represent(width.project(words), spans)
    assert products.shape == (len(spans), 4 * size)
    assert widths.shape == (len(spans), 2 * size + 2)
    for index in range(len(spans)):
        row, start, last = int(spans.row[index]), int(spans.start[index]), int(spans.end[index]) - 1
        i, j = words.first[row, start], words.first[row, last]
        assert products[index].equal(torch.cat([i, j, i - j, i * j]))
        f = width.widths.weight[last - start]
        assert widths[index].equal(torch.cat([i, words.last[row, last], f]))


@settings(deadline=None, max_examples=30)
@given(SIZES, LENGTHS, st.integers(0, 99))
def test_scores_are_made_of_nothing_else(sizes: tuple[int, int, int], lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    size, hidden, labels = sizes
    words, spans = random_words(lengths, size), enumerate_spans(torch.tensor(lengths))
    head = ProductConfig(hidden=hidden).build(size, labels).eval()
    projected = head.project(words)
    logits = head.classifier(torch.tanh(head.layer(head.represent(projected, spans))))
    torch.testing.assert_close(head.combine(projected, spans).logits, logits, rtol=1e-5, atol=1e-5)
    head = WidthConfig(hidden=hidden, max_span_width=None).build(size, labels).eval()
    projected = head.project(words)
    logits = head.classifier(torch.relu(head.second(torch.relu(head.layer(head.represent(projected, spans))))))
    torch.testing.assert_close(head.combine(projected, spans).logits, logits, rtol=1e-5, atol=1e-5)


def test_representations_of_very_wide_spans_share_a_width() -> None:
    torch.manual_seed(0)
    head = WidthConfig(hidden=5, width_size=3, max_span_width=None).build(4, 2)
    found = head.represent(head.project(random_words([200], 4)), Spans.of([(0, 3, 66), (0, 3, 67), (0, 0, 200)]))
    assert found[:, -3:].equal(head.widths.weight[[62, 63, 63]])


@pytest.mark.parametrize("config", WITH_DROPOUT)
def test_dropout_changes_scores_in_training_only(config: SpanHeadConfig) -> None:
    torch.manual_seed(0)
    head, words, spans = config.build(8, 3), random_words([4], 8), enumerate_spans(torch.tensor([4]))
    assert not score(head, words, spans).logits.equal(score(head, words, spans).logits)
    head.eval()
    assert score(head, words, spans).logits.equal(score(head, words, spans).logits)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("config", WITH_DROPOUT)
def test_a_score_without_gradient_drops_nothing_and_leaves_no_trace(config: SpanHeadConfig, training: bool) -> None:
    torch.manual_seed(0)
    head, words, spans = config.build(8, 3).train(training), random_words([4], 8), enumerate_spans(torch.tensor([4]))
    projected = head.project(words)
    before = torch.get_rng_state()
    found = head.score_no_grad(projected, spans, hidden=True)
    assert torch.get_rng_state().equal(before)
    assert all(module.training is training for module in head.modules())
    assert not found.logits.requires_grad
    assert not found.hidden.requires_grad
    expected = head.eval().combine(projected, spans)
    assert found.logits.equal(expected.logits)
    assert found.hidden.equal(expected.hidden)


def test_a_score_without_gradient_that_fails_leaves_training_on() -> None:
    head = HEADS[0].build(4, 3).train()
    with pytest.raises(IndexError):
        head.score_no_grad(head.project(random_words([2], 4)), Spans.of([(0, 0, 9)]))
    assert head.training


def score(head: SpanHead, words: EncodedWords, spans: Spans) -> SpanScores:
    return head(head.project(words), spans, hidden=True)


def gradients(head: SpanHead, words: EncodedWords, scores: SpanScores) -> list[Tensor]:
    weights = torch.linspace(-1, 1, scores.logits.numel()).view_as(scores.logits)
    total = (scores.logits * weights).sum() + scores.hidden.square().sum()
    return list(torch.autograd.grad(total, [*head.parameters(), *words], allow_unused=True))


def assert_all_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", HEADS)
@pytest.mark.parametrize("chunk", [1, 7, 45, 46])
def test_scoring_in_chunks_gives_the_same_scores_and_gradients(
    config: SpanHeadConfig, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    head, spans = config.build(5, 3), enumerate_spans(torch.tensor([9, 1]))
    assert len(spans) == 46
    words = EncodedWords(*(vectors.requires_grad_() for vectors in random_words([9, 1], 5)))
    whole = score(head, words, spans)
    expected = gradients(head, words, whole)
    monkeypatch.setattr("lacuner.heads.scores.CHUNK", chunk)
    chunked = score(head, words, spans)
    torch.testing.assert_close(chunked.logits, whole.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(chunked.hidden, whole.hidden, rtol=1e-5, atol=1e-5)
    assert_all_close(gradients(head, words, chunked), expected)
    with torch.no_grad():
        torch.testing.assert_close(score(head, words, spans).logits, whole.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", WITH_DROPOUT)
def test_chunks_that_are_computed_again_drop_the_same_elements(
    config: SpanHeadConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, spans = config.build(8, 3), enumerate_spans(torch.tensor([9]))
    words = EncodedWords(*(vectors.requires_grad_() for vectors in random_words([9], 8)))
    torch.manual_seed(5)
    projected = head.project(words)
    kept = [head.combine(projected, spans[begin : begin + 10]) for begin in range(0, len(spans), 10)]
    expected = SpanScores(torch.cat([part.logits for part in kept]), torch.cat([part.hidden for part in kept]))
    monkeypatch.setattr("lacuner.heads.scores.CHUNK", 10)
    torch.manual_seed(5)
    found = score(head, words, spans)
    torch.testing.assert_close(found.logits, expected.logits)
    assert_all_close(gradients(head, words, found), gradients(head, words, expected))


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("chunk", [7, 1000])
@pytest.mark.parametrize("config", HEADS)
def test_hidden_layers_are_kept_only_for_those_who_ask(
    config: SpanHeadConfig, chunk: int, gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    for name in ("CHUNK", "SEARCH_CHUNK"):
        monkeypatch.setattr(f"lacuner.heads.scores.{name}", chunk)
    head, spans = config.build(5, 3), enumerate_spans(torch.tensor([9]))
    combined = watch_hidden_layers(head)
    with torch.set_grad_enabled(gradient):
        projected = head.project(random_words([9], 5))
        scores = head(projected, spans)
    assert scores.hidden is None
    assert len(combined) == math.ceil(len(spans) / chunk)
    alive = [layer for layer in combined if layer() is not None]
    assert len(alive) <= 1, "the layer of the last chunk may still be on its way out"
    assert len(head(projected, spans, hidden=True).hidden) == len(spans)
    assert head.score_no_grad(projected, spans).hidden is None


def watch_hidden_layers(head: SpanHead) -> list[weakref.ref[Tensor]]:
    """The hidden layers that the head computes from now on, as long as somebody else keeps them."""
    combine, computed = head.combine, []

    def watched(projected: object, spans: Spans) -> SpanScores:
        scores = combine(projected, spans)
        computed.append(weakref.ref(scores.hidden))
        return scores

    head.combine = watched
    return computed


@pytest.mark.parametrize("config", HEADS)
def test_everything_that_a_span_head_holds_moves_with_it(config: SpanHeadConfig) -> None:
    head = config.build(5, 3).to("meta")
    for held in (vars(head), head._parameters, head._buffers):
        assert [key for key, value in held.items() if isinstance(value, Tensor) and not value.is_meta] == []
    words = torch.empty(2, 4, 5, device="meta")
    spans = Spans(*(torch.empty(7, dtype=torch.long, device="meta") for _ in range(3)))
    scores = head(head.project(EncodedWords(words, words)), spans, hidden=True)
    assert scores.logits.is_meta
    assert scores.logits.shape == (7, 3)
    assert scores.hidden.is_meta


LONG_SENTENCE = """
import torch
from torch import nn

from lacuner.corpus import Entity, Sentence
from lacuner.encoders.words import EncodedWords
from lacuner.supervision.spans import build_targets
from lacuner.heads import ProductConfig
from lacuner.methods.parts import Step
from lacuner.methods.registry import registry


class RandomWords(nn.Module):
    size = 400

    def __init__(self):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(1, 500, self.size))

    def forward(self, inputs):
        return EncodedWords(self.vectors, self.vectors)


def peak():
    # Not getrusage: Linux hands the peak of the process that started this one on to it.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))


before = peak()
method = registry().method("full").model_copy(update={"head": ProductConfig(max_span_width=None)})
model = method.build_model(RandomWords(), ("O", "PER", "LOC", "ORG", "MISC"))
targets = build_targets([Sentence(("word",) * 500, (Entity(0, 2, "PER"),))], model.labels)
loss = method.training_loss(model, None, targets, Step(0, 1, torch.Generator()))
loss.backward()
assert model.encoder.vectors.grad.isfinite().all()
print(peak(), peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_training_on_all_spans_of_500_words_stays_below_2_gigabytes() -> None:
    done = subprocess.run([sys.executable, "-c", LONG_SENTENCE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak, for_the_spans = map(int, done.stdout.split())  # in kilobytes
    assert peak < 2 * 1024**2
    assert for_the_spans < 1024**2, "the hidden layers of all spans are kept, or their features built at once"
