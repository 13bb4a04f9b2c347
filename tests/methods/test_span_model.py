import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Entity, Sentence, Span
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.encoding.spans import Spans, build_targets
from lacuner.encoding.vocabulary import Vocabulary
from lacuner.heads import ProductConfig, SpanScores, WidthConfig
from lacuner.methods.composition import Contrast, Inference, Method, Step
from lacuner.methods.full import METHODS as FULL
from lacuner.methods.negative_sampling import METHODS as UNIFORM
from lacuner.methods.negative_sampling import Uniform
from lacuner.methods.span_model import SpanModel

LABELS = ("O", "PER", "LOC", "ORG")
WORDS = ("Ada", "moved", "to", "Turin", ",", "Piedmont")
HEADS = (
    ProductConfig(hidden=6, dropout=0.0),
    ProductConfig(hidden=6, dropout=0.0, max_span_width=2),
    WidthConfig(hidden=6, width_size=3, dropout=0.0, max_span_width=3),
)


def span_model(
    method: Method, head: ProductConfig | WidthConfig = HEADS[0], labels: Sequence[str] = LABELS, **changes: Any
) -> SpanModel:
    torch.manual_seed(0)
    config = RecurrentConfig(
        word_size=5, character_size=4, character_filters=3, hidden=4, dropout=0.0, unknown_share=0.0
    )
    encoder = RecurrentEncoder.create(config, Vocabulary.build([WORDS]), None)
    return SpanModel(encoder, method.model_copy(update={"head": head, **changes}), labels)


def batch_loss(model: SpanModel, sentences: Sequence[Sentence], seed: int = 0) -> Tensor:
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    return model(inputs, build_targets(sentences, model.labels), Step(0, 1, torch.Generator().manual_seed(seed)))


def probabilities_alone(model: SpanModel, sentence: Sentence, start: int, end: int) -> dict[str, float]:
    """Probabilities of the labels of one span, its sentence alone in the batch."""
    with torch.no_grad():
        scores = model.scorer(model.encoder.index.collate([sentence.tokens]))(Spans.of([(0, start, end)]))
    return dict(zip(model.labels, scores.logits.softmax(-1)[0].tolist(), strict=True))


def slow_loss(model: SpanModel, sentences: Sequence[Sentence], train_on_unknown: bool) -> float:
    """The mean of ``-log p`` over spans, where ``p`` is the probability of all labels that a span may have.

    An unknown span, if it is trained on, is taken as no entity of any label that was looked for.
    """
    costs, names = [], model.labels[1:]
    widest = model.method.head.max_span_width
    for sentence in sentences:
        for start in range(len(sentence)):
            for end in range(start + 1, len(sentence) + 1):
                if widest is not None and end - start > widest:
                    continue
                possible = sentence.possible_labels(start, end, names)
                if possible == frozenset(model.labels):
                    if not train_on_unknown:
                        continue
                    possible -= sentence.looked_for(names)
                probabilities = probabilities_alone(model, sentence, start, end)
                costs.append(-math.log(sum(probabilities[label] for label in possible)))
    return sum(costs) / len(costs) if costs else 0.0


@st.composite
def annotated_sentences(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(st.sampled_from([*WORDS, "Genoa"]), min_size=1, max_size=5))
    length = len(tokens)
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    places = draw(st.lists(st.sampled_from(every), max_size=3))
    rejected = [Span(*place) for place in draw(st.lists(st.sampled_from(every), max_size=3)) if place not in places]
    return Sentence(
        tuple(tokens),
        tuple(Entity(start, end, draw(st.sampled_from(LABELS[1:]))) for start, end in places),
        tuple(rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.none() | st.frozensets(st.sampled_from(LABELS[1:]))),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1))),
    )


BATCHES = st.lists(annotated_sentences(), min_size=1, max_size=3)


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_full_is_the_mean_over_all_spans_of_what_possible_labels_says(
    sentences: list[Sentence], head: ProductConfig | WidthConfig
) -> None:
    model = span_model(FULL[0], head)
    loss = batch_loss(model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=True), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_what_is_known_is_always_in_the_loss(sentences: list[Sentence], head: ProductConfig | WidthConfig) -> None:
    model = span_model(UNIFORM[0], head, negatives=Uniform(ratio=0.0))
    loss = batch_loss(model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=False), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(BATCHES)
def test_with_enough_draws_uniform_is_full(sentences: list[Sentence]) -> None:
    uniform, full = span_model(UNIFORM[0], negatives=Uniform(ratio=100.0)), span_model(FULL[0])
    assert batch_loss(uniform, sentences).item() == pytest.approx(batch_loss(full, sentences).item(), abs=1e-5)


def test_uniform_trains_on_a_few_spans_that_change_with_the_generator() -> None:
    sentence = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))
    model = span_model(UNIFORM[0], negatives=Uniform(ratio=0.25))
    certain = -math.log(probabilities_alone(model, sentence, 0, 1)["PER"])
    with_one_negative = [
        (certain - math.log(probabilities_alone(model, sentence, start, end)["O"])) / 2
        for start in range(4)
        for end in range(start + 1, 5)
        if (start, end) != (0, 1)
    ]
    losses = [batch_loss(model, [sentence], seed).item() for seed in range(10)]
    assert all(min(abs(loss - possible) for possible in with_one_negative) < 1e-5 for loss in losses)
    assert len(set(losses)) > 1


@pytest.mark.parametrize("method", [FULL[0], UNIFORM[0]], ids=["full", "uniform"])
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
    method: Method, head: ProductConfig | WidthConfig, sentences: list[Sentence], labels: tuple[str, ...]
) -> None:
    model = span_model(method, head, labels).train()
    loss = batch_loss(model, sentences)
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is None or weight.grad.isfinite().all(), name


@pytest.mark.parametrize("head", HEADS)
def test_a_batch_that_teaches_nothing_costs_nothing(head: ProductConfig | WidthConfig) -> None:
    model = span_model(UNIFORM[0], head, negatives=Uniform(ratio=0.0))
    loss = batch_loss(model, [Sentence(WORDS)])
    loss.backward()
    assert loss.item() == 0


class Recorded(Contrast):
    """``recorded``: keeps what it was given, and costs 5."""

    name: Literal["recorded"] = "recorded"
    given: ClassVar[list[tuple[Tensor, Tensor]]] = []

    def __call__(self, hidden: Tensor, label: Tensor) -> Tensor:
        self.given.append((hidden, label))
        return hidden.sum() * 0 + 5.0


class Remembered(Inference):
    """``remembered``: says of every span what was seen most, and how many spans were seen."""

    name: Literal["remembered"] = "remembered"

    def remember(self, spans: Iterable[tuple[Tensor, Tensor]], labels: int) -> dict[str, Tensor]:
        numbers = torch.cat([label for _, label in spans])
        return {"counts": torch.bincount(numbers, minlength=labels)}

    def probabilities(self, scores: SpanScores, memory: Mapping[str, Tensor]) -> Tensor:
        shares = memory["counts"] / memory["counts"].sum()
        return shares.expand(len(scores.logits), -1)


def test_a_contrast_is_given_the_spans_with_one_possible_label_and_takes_its_share() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),), complete=True),
        Sentence(("Turin", "to"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG")), (Span(0, 2),)),
        Sentence(("Turin",), complete=True, annotated_labels=frozenset({"PER"})),
    ]
    Recorded.given.clear()
    contrasted = span_model(UNIFORM[0], negatives=Uniform(ratio=0.0), contrast=Recorded(weight=0.25))
    plain = span_model(UNIFORM[0], negatives=Uniform(ratio=0.0))
    loss = batch_loss(contrasted, sentences)
    assert loss.item() == pytest.approx(0.75 * batch_loss(plain, sentences).item() + 0.25 * 5.0, abs=1e-5)
    ((hidden, label),) = Recorded.given
    known = {(0, 0, 1): 1, (0, 0, 2): 0, (0, 1, 2): 0, (1, 0, 2): 0}
    assert sorted(label.tolist()) == sorted(known.values())
    inputs = contrasted.encoder.index.collate([sentence.tokens for sentence in sentences])
    expected = contrasted.scorer(inputs)(Spans.of(known)).hidden
    assert hidden[label == 1].shape == (1, 6)
    torch.testing.assert_close(hidden[label == 1], expected[:1])
    torch.testing.assert_close(hidden[label == 0].sum(0), expected[1:].sum(0))


def test_an_inference_decides_from_its_memory() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(1, 2, "LOC"))),
        Sentence(("to", "Turin"), (Entity(1, 2, "LOC"), Entity(0, 1, "LOC"), Entity(0, 1, "ORG"))),
    ]
    inference = Remembered()
    model = span_model(FULL[0], inference=inference).eval()
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    hidden, label = model.annotated(inputs, build_targets(sentences, LABELS))
    assert hidden.shape == (3, 6)
    assert not hidden.requires_grad
    assert label.tolist() == [1, 2, 2], "the span with two labels is left out"
    model.memory = inference.remember([(hidden, label)], len(LABELS))
    found = model.entities(inputs, nested=True)
    assert [len(entities) for entities in found] == [3, 3]
    assert {(entity.label, round(entity.score, 4)) for entities in found for entity in entities} == {("LOC", 0.6667)}


def test_without_an_inference_the_classifier_decides() -> None:
    model = span_model(FULL[0]).eval()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    sentence = Sentence(("Ada", "moved"))
    found = model.entities(model.encoder.index.collate([sentence.tokens]), nested=True)[0]
    assert [(entity.start, entity.end) for entity in found] == [(0, 1), (0, 2), (1, 2)]
    for entity in found:
        expected = probabilities_alone(model, sentence, entity.start, entity.end)["PER"]
        assert entity.score == pytest.approx(expected, abs=1e-5)
    assert model.entities(model.encoder.index.collate([sentence.tokens]), min_score=1.0) == [[]]


def test_no_entity_is_wider_than_the_head_allows() -> None:
    model = span_model(FULL[0], HEADS[1]).eval()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    (found,) = model.entities(model.encoder.index.collate([WORDS]), nested=True)
    assert {entity.end - entity.start for entity in found} == {1, 2}
    assert len(found) == 6 + 5


def test_training_teaches_what_is_annotated() -> None:
    sentences = [
        Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True),
        Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC")), complete=True),
    ]
    model = span_model(FULL[0]).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        batch_loss(model, sentences).backward()
        optimizer.step()
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    assert model.eval().entities(inputs) == [list(sentence.entities) for sentence in sentences]
