import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError
from lacuner.heads import SPAN_HEADS, BiaffineConfig
from lacuner.heads.biaffine import BiaffineHead
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans, enumerate_spans

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=3).filter(any)


def random_words(lengths: list[int], size: int) -> EncodedWords:
    shape = (len(lengths), max(lengths), size)
    return EncodedWords(torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64))


def random_head(size: int, hidden: int, labels: int) -> BiaffineHead:
    """With biases that are not zero, too."""
    head = BiaffineConfig(hidden=hidden).build(size, labels).double()
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_()
    return head


def layer(linear: torch.nn.Linear, word: Tensor) -> list[float]:
    """``relu(W h + b)``, number by number."""
    rows = zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
    return [max(0.0, sum(w * h for w, h in zip(row, word.tolist(), strict=True)) + bias) for row, bias in rows]


def slow_logit(head: BiaffineHead, a: list[float], b: list[float], label: int) -> float:
    """``a_iᵀ U b_j + w_a·a_i + w_b·b_j + bias`` of one label."""
    size = len(a)
    weights, biases = head.form.weight.view(-1, size + 1, size)[label], head.form.bias.view(-1, size + 1)[label]
    u, w_b = weights[:size].tolist(), weights[size].tolist()
    w_a, bias = biases[:size].tolist(), biases[size].item()
    total = bias
    for p in range(size):
        total += w_a[p] * a[p] + w_b[p] * b[p]
        for q in range(size):
            total += a[p] * u[p][q] * b[q]
    return total


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), LENGTHS, st.integers(0, 10**6))
def test_the_split_head_is_the_biaffine_form_of_the_paper(
    size: int, hidden: int, labels: int, lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    head, words = random_head(size, hidden, labels).eval(), random_words(lengths, size)
    spans = enumerate_spans(torch.tensor(lengths))
    projected = head.project(words)
    scores = head(projected, spans, hidden=True)
    assert scores.logits.shape == (len(spans), labels)
    assert head.represent(projected, spans).equal(scores.hidden)
    for index in range(len(spans)):
        row, start, end = int(spans.row[index]), int(spans.start[index]), int(spans.end[index])
        a, b = layer(head.begin, words.first[row, start]), layer(head.end, words.last[row, end - 1])
        assert scores.logits[index].tolist() == pytest.approx([slow_logit(head, a, b, n) for n in range(labels)])
        assert scores.hidden[index].tolist() == pytest.approx(a + b)


def test_a_span_depends_on_its_first_and_last_word_and_on_their_order() -> None:
    torch.manual_seed(0)
    head, words = random_head(4, 5, 3).eval(), random_words([6], 4)
    one, other = Spans.of([(0, 1, 4)]), Spans.of([(0, 3, 4)])
    before = head(head.project(words), one).logits
    words.first[0, 2], words.last[0, 2] = 9.0, 9.0
    assert head(head.project(words), one).logits.equal(before), "the word between says nothing"
    assert not head(head.project(words), other).logits.equal(before)
    swapped = EncodedWords(words.first[:, [0, 3, 2, 1, 4, 5]], words.last[:, [0, 3, 2, 1, 4, 5]])
    assert not head(head.project(swapped), one).logits.equal(before)


def test_every_weight_and_every_word_of_a_span_learns() -> None:
    torch.manual_seed(0)
    head = BiaffineConfig(hidden=8, dropout=0.0).build(4, 3)
    words = EncodedWords(*(torch.randn(1, 3, 4).requires_grad_() for _ in range(2)))
    head(head.project(words), Spans.of([(0, 0, 2)])).logits.square().sum().backward()
    for name, weight in head.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.any(), name
    assert words.first.grad[0].any(-1).tolist() == [True, False, False]
    assert words.last.grad[0].any(-1).tolist() == [False, True, False]


def test_a_fresh_head_prefers_no_label_strongly() -> None:
    torch.manual_seed(0)
    head = BiaffineConfig().build(200, 5).eval()
    words = EncodedWords(torch.randn(1, 30, 200), torch.randn(1, 30, 200))
    logits = head(head.project(words), enumerate_spans(torch.tensor([30]))).logits
    assert 0.01 < logits.std() < 3


def test_the_representation_of_a_dropped_word_is_what_was_scored() -> None:
    torch.manual_seed(0)
    head = BiaffineConfig(hidden=20, dropout=0.5).build(4, 3).train()
    words = EncodedWords(torch.randn(1, 5, 4), torch.randn(1, 5, 4))
    spans = enumerate_spans(torch.tensor([5]))
    projected = head.project(words)
    assert head.represent(projected, spans).equal(head(projected, spans, hidden=True).hidden)


def test_the_head_is_told_by_its_name() -> None:
    assert build_part("head", "biaffine", SPAN_HEADS) == BiaffineConfig()
    with pytest.raises(ConfigError, match=r"head\.hidden"):
        build_part("head", {"name": "biaffine", "hidden": 0}, SPAN_HEADS)
