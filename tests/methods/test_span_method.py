"""What training asks of span-level methods: :class:`lacuner.methods.method.SpanMethod`."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.heads import SPAN_HEADS, ProductConfig, SpanHeadConfig, WidthConfig
from lacuner.methods.full import METHODS as FULL
from lacuner.methods.full import All
from lacuner.methods.method import SpanMethod
from lacuner.methods.nrces import Fraction
from lacuner.methods.parts import Contrast, Negatives, SamplingContext, SpanLoss, State, Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.top_neg import TopSimilar
from lacuner.methods.uniform import METHODS as UNIFORM
from lacuner.methods.uniform import Uniform
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans
from tiny_models import BATCHES, HEADS, LABELS, MIXED, TINY, WORDS, batch_loss, encoded, places, tiny_model

SPAN_METHODS = [method for method in registry().methods.values() if isinstance(method, SpanMethod)]


class Nothing(Negatives):
    """``nothing``: only what is known is trained on."""

    name: Literal["nothing"] = "nothing"

    def sample(self, context: SamplingContext) -> Tensor:
        return torch.zeros(len(context.unknown), dtype=torch.bool)


def choices(kind: str) -> Mapping[str, Any]:
    return registry().choices(kind, SpanMethod)


def built(
    method: SpanMethod, head: SpanHeadConfig = HEADS[0], labels: Sequence[str] = LABELS, **changes: Any
) -> tuple[SpanMethod, SpanModel]:
    """The method with other parts, and a model of it."""
    method = method.model_copy(update={"head": head, **changes})
    return method, tiny_model(method, labels)


def probabilities_alone(model: SpanModel, sentence: Sentence, start: int, end: int) -> dict[str, float]:
    """Probabilities of the labels of one span, its sentence alone in the batch."""
    with torch.no_grad():
        scores = model.scorer(encoded(model, [sentence]))(Spans.of([(0, start, end)]))
    return dict(zip(model.labels, scores.logits.softmax(-1)[0].tolist(), strict=True))


def slow_loss(model: SpanModel, sentences: Sequence[Sentence], train_on_unknown: bool) -> float:
    """The sum over spans of ``-log p``, for each word of the batch; ``p``: probability of all labels that a span may have.

    An unknown span, if it is trained on, is taken as no entity of any label that was looked for.
    """
    costs, names = [], model.labels[1:]
    max_width = model.max_span_width
    for sentence in sentences:
        for start in range(len(sentence)):
            for end in range(start + 1, len(sentence) + 1):
                if max_width is not None and end - start > max_width:
                    continue
                possible = sentence.possible_labels(start, end, names)
                if possible == frozenset(model.labels):
                    if not train_on_unknown:
                        continue
                    possible -= sentence.looked_for(names)
                probabilities = probabilities_alone(model, sentence, start, end)
                costs.append(-math.log(sum(probabilities[label] for label in possible)))
    return sum(costs) / sum(map(len, sentences)) if costs else 0.0


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_full_is_the_sum_over_all_spans_of_what_possible_labels_says_for_each_word(
    sentences: list[Sentence], head: SpanHeadConfig
) -> None:
    method, model = built(FULL[0], head)
    loss = batch_loss(method, model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=True), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_what_is_known_is_always_in_the_loss(sentences: list[Sentence], head: SpanHeadConfig) -> None:
    method, model = built(UNIFORM[0], head, negatives=Nothing())
    loss = batch_loss(method, model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=False), abs=1e-5)


@pytest.mark.parametrize("reduction", ["sum", "mean", "words"])
def test_a_batch_in_which_nothing_is_trained_on_costs_nothing(reduction: str) -> None:
    loss = UNIFORM[0].loss.model_copy(update={"reduction": reduction})
    method, model = built(UNIFORM[0], negatives=Nothing(), loss=loss)
    cost = batch_loss(method, model, [Sentence(("Ada", "left"))])
    cost.backward()
    assert cost.item() == 0.0, "and not the mean of no numbers"


@settings(deadline=None, max_examples=40)
@given(BATCHES)
def test_with_enough_draws_uniform_is_full(sentences: list[Sentence]) -> None:
    uniform, full = built(UNIFORM[0], negatives=Uniform(ratio=100.0)), built(FULL[0])
    assert batch_loss(*uniform, sentences).item() == pytest.approx(batch_loss(*full, sentences).item(), abs=1e-5)


def test_uniform_trains_on_a_few_spans_that_change_with_the_generator() -> None:
    sentence = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))
    method, model = built(UNIFORM[0], negatives=Uniform(ratio=0.25))
    certain = -math.log(probabilities_alone(model, sentence, 0, 1)["PER"])
    with_one_negative = [
        (certain - math.log(probabilities_alone(model, sentence, start, end)["O"])) / 4
        for start in range(4)
        for end in range(start + 1, 5)
        if (start, end) != (0, 1)
    ]
    losses = [batch_loss(method, model, [sentence], seed=seed).item() for seed in range(10)]
    assert all(min(abs(loss - possible) for possible in with_one_negative) < 1e-5 for loss in losses)
    assert len(set(losses)) > 1


@pytest.mark.parametrize("method", SPAN_METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("sentences", "labels"),
    [
        ([Sentence(WORDS), Sentence(("to",))], LABELS),
        ([Sentence(WORDS, complete=True)], LABELS),
        ([Sentence(("Ada",))], LABELS),
        ([Sentence(("Ada",), (Entity(0, 1, "PER"),))], LABELS),
        ([Sentence(("Ada",), (Entity(0, 1, "PER"),), complete=True)], ("O", "PER")),
        ([Sentence(WORDS, (Entity(0, 6, "PER"),))], ("O", "PER")),
        ([Sentence(WORDS, complete=True, annotated_labels=frozenset())], LABELS),
    ],
    ids=["no positive", "trusted", "one word", "all known", "one label", "wide", "nothing looked for"],
)
def test_odd_batches_have_a_finite_loss_and_finite_gradients(
    method: SpanMethod, head: SpanHeadConfig, sentences: list[Sentence], labels: tuple[str, ...]
) -> None:
    method, model = built(method, head, labels)
    loss = batch_loss(method, model.train(), sentences)
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is None or weight.grad.isfinite().all(), name


@pytest.mark.parametrize("head", HEADS)
def test_a_batch_that_teaches_nothing_costs_nothing(head: SpanHeadConfig) -> None:
    method, model = built(UNIFORM[0], head, negatives=Nothing())
    loss = batch_loss(method, model, [Sentence(WORDS)])
    loss.backward()
    assert loss.item() == 0


class Recorded(Contrast):
    """``recorded``: keeps what it was given, and costs 5."""

    name: Literal["recorded"] = "recorded"
    given: ClassVar[list[tuple[Tensor, Tensor]]] = []

    def __call__(self, hidden: Tensor, label: Tensor, step: Step, state: State) -> Tensor:
        self.given.append((hidden, label))
        return hidden.sum() * 0 + 5.0


def test_a_contrast_is_given_the_spans_with_one_possible_label_and_takes_its_part() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),), complete=True),
        Sentence(("Turin", "to"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG")), (Span(0, 2),)),
        Sentence(("Turin",), complete=True, annotated_labels=frozenset({"PER"})),
    ]
    Recorded.given.clear()
    method, contrasted = built(UNIFORM[0], negatives=Nothing(), contrast=Recorded(weight=0.25))
    plain = built(UNIFORM[0], negatives=Nothing())
    loss = batch_loss(method, contrasted, sentences)
    assert loss.item() == pytest.approx(0.75 * batch_loss(*plain, sentences).item() + 0.25 * 5.0, abs=1e-5)
    ((hidden, label),) = Recorded.given
    known = {(0, 0, 1): 1, (0, 0, 2): 0, (0, 1, 2): 0, (1, 0, 2): 0}
    assert sorted(label.tolist()) == sorted(known.values())
    expected = contrasted.scorer(encoded(contrasted, sentences), hidden=True)(Spans.of(known)).hidden
    assert hidden[label == 1].shape == (1, 6)
    torch.testing.assert_close(hidden[label == 1], expected[:1])
    torch.testing.assert_close(hidden[label == 0].sum(0), expected[1:].sum(0))


def test_training_teaches_what_is_annotated() -> None:
    sentences = [
        Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True),
        Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC")), complete=True),
    ]
    method, model = built(FULL[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        batch_loss(method, model.train(), sentences).backward()
        optimizer.step()
    model.eval()
    assert model.entities(encoded(model, sentences)) == [list(sentence.entities) for sentence in sentences]


class Noted(SpanLoss):
    """``noted``: keeps what it was given."""

    name: Literal["noted"] = "noted"
    given: ClassVar[list[tuple[Tensor, Tensor, Tensor]]] = []

    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        self.given.append((logits.detach(), possible, sampled))
        return logits.sum(-1)


@settings(deadline=None, max_examples=30)
@given(BATCHES, st.sampled_from(HEADS), st.sampled_from(sorted(choices("negatives"))))
def test_negatives_that_were_drawn_are_told_from_known_ones(
    sentences: list[Sentence], head: SpanHeadConfig, negatives: str
) -> None:
    Noted.given.clear()
    method, model = built(FULL[0], head, negatives=choices("negatives")[negatives](), loss=Noted())
    watched: list[Spans] = []
    batch_loss(method, model, sentences, watch=watched.append)
    (spans,) = watched
    drawn = places(spans)
    assert len(drawn) == len(set(drawn))
    for row, start, end in drawn:
        assert sentences[row].possible_labels(start, end, LABELS[1:]) == frozenset(LABELS), "it was unknown"
    known = sum(
        sentence.possible_labels(start, end, LABELS[1:]) != frozenset(LABELS)
        for sentence in sentences
        for start in range(len(sentence))
        for end in range(start + 1, min(len(sentence), start + (head.max_span_width or 99)) + 1)
    )
    if not known and not drawn:
        assert not Noted.given
        return
    ((logits, possible, sampled),) = Noted.given
    assert sampled.sum() == len(drawn)
    assert (~sampled).sum() == known
    assert possible[sampled][:, 0].all()
    torch.testing.assert_close(
        logits[sampled], model.scorer(encoded(model, sentences))(spans).logits, rtol=1e-4, atol=1e-5
    )


def test_the_negatives_of_complete_sentences_are_neither_sampled_nor_watched() -> None:
    Noted.given.clear()
    gaps = Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),))
    trusted = Sentence(("to", "Turin"), (Entity(1, 2, "LOC"),), complete=True)
    watched: list[Spans] = []
    batch_loss(*built(FULL[0], loss=Noted()), [gaps, trusted], watch=watched.append)
    assert [places(spans) for spans in watched] == [[(0, 0, 2), (0, 1, 2)]]
    ((_, possible, sampled),) = Noted.given
    described = sorted(zip(possible.int().argmax(-1).tolist(), sampled.tolist(), strict=True))
    assert described == [(0, False), (0, False), (0, True), (0, True), (1, False), (2, False)]


class Peeping(Negatives):
    """``peeping``: looks at everything that it may look at, and draws everything."""

    name: Literal["peeping"] = "peeping"
    seen: ClassVar[list[Tensor]] = []

    def sample(self, context: SamplingContext) -> Tensor:
        scores = context.score(context.unknown, hidden=True)
        self.seen[:] = [*scores, context.represent(context.unknown)]
        return torch.arange(len(context.unknown))


@pytest.mark.parametrize("head", HEADS)
def test_looking_at_spans_before_drawing_changes_neither_loss_nor_gradients(head: SpanHeadConfig) -> None:
    plain = built(FULL[0], head.model_copy(update={"dropout": 0.5}))
    peeping = built(FULL[0], head.model_copy(update={"dropout": 0.5}), negatives=Peeping())
    costs = []
    for method, model in (plain, peeping):
        torch.manual_seed(7)
        costs.append(batch_loss(method, model.train(), MIXED))
        costs[-1].backward()
    assert costs[0].equal(costs[1])
    assert not any(tensor.requires_grad for tensor in Peeping.seen[:2])
    for (name, weight), other in zip(plain[1].named_parameters(), peeping[1].parameters(), strict=True):
        assert (weight.grad is None) == (other.grad is None), name
        assert weight.grad is None or weight.grad.equal(other.grad), name


def test_who_draws_nothing_is_watched_drawing_nothing() -> None:
    watched: list[Spans] = []
    batch_loss(*built(FULL[0], negatives=Nothing()), [Sentence(WORDS)], watch=watched.append)
    assert [len(spans) for spans in watched] == [0]


def test_every_head_has_a_tiny_one() -> None:
    assert set(TINY) == set(SPAN_HEADS)


@pytest.mark.parametrize("contrast", [None, *choices("contrast")])
@pytest.mark.parametrize("loss", choices("loss"))
@pytest.mark.parametrize("negatives", choices("negatives"))
@pytest.mark.parametrize("head", SPAN_HEADS)
def test_any_parts_can_be_trained_together(head: str, negatives: str, loss: str, contrast: str | None) -> None:
    parts = {kind: choices(kind) for kind in ("negatives", "loss", "contrast")}
    chosen = {
        "negatives": parts["negatives"][negatives](),
        "loss": parts["loss"][loss](),
        "contrast": None if contrast is None else parts["contrast"][contrast](),
    }
    method, model = built(FULL[0], TINY[head], **chosen)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for sentences in (MIXED, MIXED[1:2], [Sentence(WORDS)], MIXED):
        optimizer.zero_grad()
        cost = batch_loss(method, model.train(), sentences)
        cost.backward()
        assert cost.isfinite()
        for name, weight in model.named_parameters():
            assert weight.grad is None or weight.grad.isfinite().all(), name
        optimizer.step()
    for name, weight in model.head.named_parameters():
        assert not weight.equal(before[f"head.{name}"]), name


def of_widths(*widths: int) -> Corpus:
    return Corpus(tuple(Sentence(("w",) * 30, (Entity(0, width, "PER"),)) for width in widths))


@pytest.mark.parametrize(
    ("bound", "quantile", "widths", "expected"),
    [
        (8, 1.0, [1, 12, 3], 12),
        (8, 0.5, [1, 9, 12, 20], 9),
        (8, 0.99, [1, 2, 3], 8),
        (8, None, [1, 12, 3], 8),
        (None, 1.0, [1, 12, 3], None),
        (8, 1.0, [], 8),
    ],
)
def test_the_greatest_width_is_a_quantile_of_what_is_annotated_but_never_less_than_it_was(
    bound: int | None, quantile: float | None, widths: list[int], expected: int | None
) -> None:
    method = FULL[0].model_copy(update={"head": WidthConfig(max_span_width=bound)})
    fitted = method.for_data(TrainingData(of_widths(*widths), None), quantile)
    assert fitted.head.max_span_width == expected
    assert fitted.model_copy(update={"head": method.head}) == method


def slow_prior(corpus: Corpus, sampled: Callable[[int, int], int], max_width: int | None) -> float:
    """The log of ``L`` times negatives for each positive, counted span by span."""
    positives = negatives = 0
    for sentence in corpus:
        length = len(sentence)
        spans = {
            (start, end)
            for start in range(length)
            for end in range(start + 1, length + 1)
            if max_width is None or end - start <= max_width
        }
        annotated = spans & {(entity.start, entity.end) for entity in sentence.entities}
        positives += len(annotated)
        others = len(spans - annotated)
        negatives += others if sentence.complete else sampled(others, length)
    return math.log(len(corpus.labels) * negatives / positives)


@pytest.mark.parametrize("max_width", [2, None])
@pytest.mark.parametrize(
    ("negatives", "sampled"),
    [
        (All(), lambda unknown, words: unknown),
        (Uniform(ratio=0.5), lambda unknown, words: min(unknown, math.ceil(words / 2))),
        (Fraction(fraction=0.5), lambda unknown, words: math.ceil(unknown / 2)),
        (TopSimilar(fraction=0.5), lambda unknown, words: unknown / 2),
    ],
    ids=["all", "uniform", "fraction", "top-similar"],
)
def test_a_model_expects_as_many_entities_as_training_is_going_to_show_it(
    negatives: Negatives, sampled: Callable[[int, int], int], max_width: int | None
) -> None:
    corpus = Corpus(
        (
            Sentence(WORDS, (Entity(0, 1, "PER"), Entity(0, 1, "LOC"), Entity(0, 3, "ORG"))),
            Sentence(("to", "Turin"), (Entity(1, 2, "LOC"),), complete=True),
            Sentence(("to",)),
        )
    )
    head = WidthConfig(max_span_width=max_width, outside_bias="prior")
    method = FULL[0].model_copy(update={"head": head, "negatives": negatives})
    fitted = method.for_data(TrainingData(corpus, None))
    expected = slow_prior(corpus, sampled, max_width)
    assert fitted.head.outside_bias == pytest.approx(expected)
    labels = ("O", *corpus.labels)
    plain, shifted = (tiny_model(one, labels) for one in (method, fitted))
    shifted.load_state_dict(plain.state_dict())
    spans = Spans.of([(0, 0, 1), (1, 0, 2)])
    one, other = (model.eval().scorer(encoded(model, corpus))(spans) for model in (plain, shifted))
    moved = torch.tensor([expected, *[0.0] * (len(labels) - 1)]).expand(2, -1)
    torch.testing.assert_close(other.logits - one.logits, moved, rtol=1e-5, atol=1e-5)


def test_a_bias_that_was_given_stays_what_it_is() -> None:
    method = FULL[0].model_copy(update={"head": WidthConfig(outside_bias=1.5)})
    assert method.for_data(TrainingData(of_widths(1, 2), None)).head == WidthConfig(outside_bias=1.5)


def test_where_nothing_is_annotated_there_is_no_prior_to_start_from() -> None:
    method = FULL[0].model_copy(update={"head": WidthConfig(outside_bias="prior")})
    assert method.for_data(TrainingData(Corpus((Sentence(("to",)),)), None)).head.outside_bias == 0


def test_entities_that_are_too_wide_are_counted() -> None:
    method = FULL[0].model_copy(update={"head": WidthConfig(max_span_width=3)})
    assert method.unlearnable(of_widths(1, 3)) is None
    assert method.unlearnable(of_widths(1, 4, 9)) == (
        "2 of 3 entities have more than 3 words and cannot be found (--set head.max_span_width=9 finds all)."
    )
    assert method.model_copy(update={"head": ProductConfig()}).unlearnable(of_widths(1, 30)) is None
