import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import EncodedWords
from lacuner.heads import SPAN_HEADS, SpanHead, SpanHeadConfig, SpanScores
from lacuner.methods.full import METHODS as FULL
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Inference, State, StateSizes
from lacuner.methods.registry import registry
from lacuner.methods.scl_rai import Prototypes
from lacuner.models.span_filter import SpanFilter
from lacuner.models.span_model import MAX_THRESHOLD, SpanModel
from lacuner.supervision.spans import Spans, enumerate_spans, pair_words
from tiny_models import BATCHES, HEADS, LABELS, MIXED, TINY, WORDS, encoded, places, tiny_model

SENTENCES = (Sentence(WORDS), Sentence(("Ada",)), Sentence(("to", "Turin", "moved")))


def span_model(
    head: SpanHeadConfig = HEADS[0], inference: Inference | None = None, labels: Sequence[str] = LABELS
) -> SpanModel:
    return tiny_model(FULL[0].model_copy(update={"head": head, "inference": inference}), labels).eval()


def probabilities_alone(model: SpanModel, sentence: Sentence, start: int, end: int) -> dict[str, float]:
    """Probabilities of the labels of one span, its sentence alone in the batch."""
    with torch.no_grad():
        scores = model.scorer(encoded(model, [sentence]))(Spans.of([(0, start, end)]))
    return dict(zip(model.labels, scores.logits.softmax(-1)[0].tolist(), strict=True))


class Remembered(Inference):
    """``remembered``: says of every span how often each label was seen."""

    name: Literal["remembered"] = "remembered"

    def initial_state(self, sizes: StateSizes) -> dict[str, Tensor]:
        return {"counts": torch.zeros(sizes.labels)}

    def fit(self, spans: Iterable[tuple[Tensor, Tensor]], state: State) -> None:
        numbers = torch.cat([label for _, label in spans])
        state["counts"].copy_(torch.bincount(numbers, minlength=len(state["counts"])))

    def probabilities(self, scores: SpanScores, state: State) -> Tensor:
        if not state["counts"].any():
            return scores.logits.softmax(-1)
        return (state["counts"] / state["counts"].sum()).expand(len(scores.logits), -1)


def layers(model: SpanModel, sentences: Sequence[Sentence]) -> list[tuple[Tensor, Tensor]]:
    return list(model.hidden_layers(encoded(model, sentences), model.targets(sentences)))


def test_an_inference_decides_from_its_state() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(1, 2, "LOC"))),
        Sentence(("to", "Turin"), (Entity(1, 2, "LOC"), Entity(0, 1, "LOC"), Entity(0, 1, "ORG"))),
    ]
    inference = Remembered()
    model = span_model(inference=inference)
    batch = encoded(model, sentences)
    annotated = [(hidden[label != 0], label[label != 0]) for hidden, label in layers(model, sentences)]
    assert torch.cat([label for _, label in annotated]).tolist() == [1, 2, 2], "the span with two labels is left out"
    assert model.entities(batch, nested=True) == span_model().entities(batch, nested=True)
    inference.fit(annotated, model.state_of("inference"))
    found = model.entities(batch, nested=True)
    assert [len(entities) for entities in found] == [3, 3]
    assert {(entity.label, round(entity.score, 4)) for entities in found for entity in entities} == {("LOC", 0.6667)}


@settings(deadline=None, max_examples=30)
@given(BATCHES, st.sampled_from(HEADS), st.sampled_from([1, 4, 1000]))
def test_all_spans_are_shown_to_the_inference_and_what_is_not_annotated_counts_as_o(
    sentences: list[Sentence], head: SpanHeadConfig, chunk: int
) -> None:
    model = span_model(head)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuner.models.span_model.SEARCH_CHUNK", chunk)
        shown = layers(model, sentences)
    assert all(0 < len(hidden) == len(label) <= chunk and not hidden.requires_grad for hidden, label in shown)
    expected: dict[tuple[int, int, int], int] = {}
    for row, sentence in enumerate(sentences):
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + (head.max_span_width or 99)) + 1):
                labels = {entity.label for entity in sentence.entities if (entity.start, entity.end) == (start, end)}
                if len(labels) <= 1:
                    expected[row, start, end] = LABELS.index(labels.pop()) if labels else 0
    with torch.no_grad():
        wanted = model.scorer(encoded(model, sentences), hidden=True)(Spans.of(expected)).hidden
    left = [(vector, label) for hidden, label in shown for vector, label in zip(hidden, label.tolist(), strict=True)]
    for vector, label in zip(wanted, expected.values(), strict=True):
        like = [n for n, (other, kind) in enumerate(left) if kind == label and (other - vector).abs().max() < 1e-4]
        assert like, "a span is missing, or has another label"
        del left[like[0]]
    assert not left, "a span is shown twice"


def test_without_an_inference_the_classifier_decides() -> None:
    model = span_model()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    sentence = Sentence(("Ada", "moved"))
    found = model.entities(encoded(model, [sentence]), nested=True)[0]
    assert [(entity.start, entity.end) for entity in found] == [(0, 1), (0, 2), (1, 2)]
    for entity in found:
        expected = probabilities_alone(model, sentence, entity.start, entity.end)["PER"]
        assert entity.score == pytest.approx(expected, abs=1e-5)
    assert model.entities(encoded(model, [sentence]), min_score=1.0) == [[]]


def test_no_entity_is_wider_than_the_head_allows() -> None:
    model = span_model(HEADS[1])
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    (found,) = model.entities(model.encode([WORDS]), nested=True)
    assert {entity.end - entity.start for entity in found} == {1, 2}
    assert len(found) == 6 + 5


def all_probabilities(model: SpanModel, sentences: Sequence[Sentence]) -> dict[tuple[int, int, int], list[float]]:
    """Softmax by hand of every span, with the model's threshold on top of O."""
    found = {}
    batch, max_width = encoded(model, sentences), model.max_span_width or 99
    for row, sentence in enumerate(sentences):
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + max_width) + 1):
                with torch.no_grad():
                    logits = model.scorer(batch)(Spans.of([(row, start, end)])).logits[0].tolist()
                logits[0] += model.threshold.item()
                powers = [math.exp(value) for value in logits]
                found[row, start, end] = [power / sum(powers) for power in powers]
    return found


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("threshold", [0.0, 0.4, -1.0])
def test_probabilities_are_those_of_spans_that_are_probable_enough_or_annotated(
    head: SpanHeadConfig, threshold: float
) -> None:
    model = span_model(head)
    model.threshold.fill_(threshold)
    expected = all_probabilities(model, SENTENCES)
    batch = encoded(model, SENTENCES)
    chances = sorted(1 - probable[0] for probable in expected.values())
    middle = (chances[len(chances) // 2] + chances[len(chances) // 2 - 1]) / 2
    also = [(0, 1, 2), (2, 0, 1)]
    annotated = (
        replace(SENTENCES[0], entities=(Entity(1, 2, "PER"), Entity(1, 2, "LOC"))),
        SENTENCES[1],
        replace(SENTENCES[2], entities=(Entity(0, 1, "a label that the model has never seen"),)),
    )
    for least in (0.0, middle, 1.0):
        probable_enough = [place for place, probable in expected.items() if 1 - probable[0] >= least]
        for sentences, wanted in ((SENTENCES, probable_enough), (annotated, probable_enough + also)):
            spans, found = model.span_probabilities(batch, sentences, least)
            assert places(spans) == wanted
            torch.testing.assert_close(
                found,
                torch.tensor([expected[place] for place in wanted]).reshape(-1, len(LABELS)),
                rtol=1e-4,
                atol=1e-5,
            )
            assert not found.requires_grad
    assert not probable_enough


def test_annotated_spans_that_are_too_wide_for_the_head_have_no_probabilities() -> None:
    model = span_model(HEADS[1])
    sentence = Sentence(WORDS, (Entity(0, 3, "PER"), Entity(0, 2, "LOC")))
    spans, _ = model.span_probabilities(encoded(model, [sentence]), [sentence], 1.0)
    assert places(spans) == [(0, 0, 2)]


@pytest.mark.parametrize("inference", [None, Remembered()])
def test_without_the_threshold_and_with_an_inference_the_classifier_alone_is_asked(inference: Inference | None) -> None:
    """An inference leaves probabilities that do not sum to 1."""
    model = span_model(inference=inference)
    expected = all_probabilities(model, SENTENCES)
    if inference is not None:
        inference.fit(layers(model, MIXED), model.state_of("inference"))
    model.threshold.fill_(0.7)
    spans, found = model.span_probabilities(
        encoded(model, SENTENCES), SENTENCES, 0.0, use_threshold=inference is not None
    )
    assert places(spans) == list(expected)
    torch.testing.assert_close(found, torch.tensor(list(expected.values())), rtol=1e-4, atol=1e-5)


def test_a_threshold_makes_entities_rarer_and_their_probability_smaller() -> None:
    model = span_model()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 1.0, 0.0, 0.0])
    batch = model.encode([WORDS])
    assert model.threshold == 0
    (plain,) = model.entities(batch, nested=True)
    assert len(plain) == 21
    model.threshold.fill_(0.5)
    expected = all_probabilities(model, [Sentence(WORDS)])
    (fewer,) = model.entities(batch, nested=True)
    for entity, before in zip(fewer, plain, strict=True):
        assert entity.score == pytest.approx(max(expected[0, entity.start, entity.end]), abs=1e-5)
        assert entity.score < before.score
    model.threshold.fill_(20.0)
    assert model.entities(batch, nested=True) == [[]]


def test_inference_and_threshold_decide_together() -> None:
    model = span_model(inference=Remembered())
    model.state_of("inference")["counts"].copy_(torch.tensor([2.0, 4.0, 1.0, 1.0]))
    model.threshold.fill_(math.log(3))
    scores = SpanScores(torch.randn(2, 4), torch.randn(2, 6))
    expected = torch.tensor([6.0, 4.0, 1.0, 1.0]) / 12
    torch.testing.assert_close(model.probabilities(scores), expected.expand(2, -1))


@pytest.mark.parametrize("inference", registry().choices("inference", SpanMethod))
@pytest.mark.parametrize("head", SPAN_HEADS)
def test_any_inference_gives_any_head_finite_probabilities(head: str, inference: str) -> None:
    part = registry().choices("inference", SpanMethod)[inference]()
    model = span_model(TINY[head], inference=part)
    batch = encoded(model, SENTENCES)
    for fitted in (False, True):
        if fitted:
            part.fit(layers(model, MIXED), model.state_of("inference"))
        with torch.no_grad():
            found = model.probabilities(model.scorer(batch)(enumerate_spans(batch.lengths, model.max_span_width)))
        assert len(found) == 21 + 1 + 6
        assert found.isfinite().all()
        assert (found >= 0).all()
        assert (found.sum(-1) <= 1 + 1e-5).all()
        assert len(model.entities(batch)) == 3


@pytest.mark.parametrize("threshold", [-MAX_THRESHOLD, -1.0, 0.0, 0.3, MAX_THRESHOLD])
@pytest.mark.parametrize("inference", [None, Prototypes(), Remembered()])
@pytest.mark.parametrize("head", HEADS)
def test_what_is_scored_once_can_be_decoded_with_any_threshold(
    head: SpanHeadConfig, inference: Inference | None, threshold: float
) -> None:
    model = span_model(head, inference=inference)
    if inference is not None:
        inference.fit(layers(model, MIXED), model.state_of("inference"))
    batch = encoded(model, SENTENCES)
    model.threshold.fill_(9.0)  # is not looked at
    scored = model.score(batch)
    model.threshold.fill_(threshold)
    for options in ({}, {"nested": True}, {"min_score": 0.4}):
        found, expected = scored.decode(threshold, **options), model.entities(batch, **options)
        assert found == expected
        scores = [[entity.score for entities in each for entity in entities] for each in (found, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert any(model.score(batch).decode(-MAX_THRESHOLD)), "otherwise there is nothing to compare"


class Chosen(SpanFilter):
    """Keeps the spans that somebody has chosen."""

    def __init__(self, starts: Tensor, ends: Tensor, inside: Tensor) -> None:
        super().__init__(1)
        self.chosen = starts, ends, inside

    def spans(self, first, last, lengths, max_width=None):
        starts, ends, inside = self.chosen
        return pair_words(starts, ends, max_width, inside)


def with_project_only(head: SpanHead) -> SpanHead:
    """Make a head one that projects all words of a batch at a time, as one does that looks inside spans."""
    kind = type(head)

    def project(self: SpanHead, words: EncodedWords) -> object:
        return kind.project_ends(self, words.first, self.last_words(words))

    head.__class__ = type(kind.__name__, (kind,), {"project": project, "project_ends": SpanHead.project_ends})
    return head


@pytest.mark.parametrize("only_ends", [True, False])
@pytest.mark.parametrize("head", HEADS)
@given(data=st.data())
@settings(max_examples=30)
def test_a_filter_finds_what_is_found_among_the_spans_that_it_leaves(head, only_ends, data):
    model = span_model(head)
    model.threshold.fill_(-3.0)
    if not only_ends:
        with_project_only(model.head)
    assert model.head.needs_only_ends == only_ends
    batch = encoded(model, SENTENCES)
    inside = torch.arange(len(WORDS)) < batch.lengths[:, None]
    flags = st.lists(st.booleans(), min_size=inside.numel(), max_size=inside.numel())
    starts, ends = (inside & torch.tensor(data.draw(flags)).view(inside.shape) for _ in range(2))
    every = model.entities(batch, nested=True)
    model.span_filter = Chosen(starts, ends, inside)
    assert model.entities(batch, nested=True) == every  # entities inside others are looked for everywhere
    expected = []
    for row, entities in enumerate(every):
        left, kept = [e for e in entities if starts[row, e.start] and ends[row, e.end - 1]], []
        for entity in sorted(left, key=lambda e: (-e.score, e.start, e.end)):
            if not any(entity.start < other.end and other.start < entity.end for other in kept):
                kept.append(entity)
        expected.append(sorted(kept))
    found = model.entities(batch)
    assert found == expected
    for entities, others in zip(found, expected, strict=True):
        assert [e.score for e in entities] == pytest.approx([e.score for e in others], abs=1e-6)
