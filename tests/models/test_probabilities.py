import copy
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.models.probabilities import predict_proba
from lacuner.models.span_model import SpanModel
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.supervision.spans import Spans

Table = dict[tuple[int, int, int], list[float]]
"""Probabilities of the labels by sentence, start and end."""


@pytest.fixture(scope="module")
def narrow(toy, small_settings) -> SpanModel:
    """A model that cannot see spans of more than two words."""
    settings = small_settings | {"head": "width", "head.hidden": 16, "head.max_span_width": 2}
    return Recognizer.train(toy, method="full", epochs=2, settings=settings).model


@pytest.fixture(scope="module")
def gappy(toy) -> Corpus:
    """Every sort of sentence that can be asked about."""
    likely = toy[3].entities[0]
    return Corpus(
        (
            toy[0],
            Sentence(toy[1].tokens),
            Sentence(toy[2].tokens, (Entity(1, 3, "PER"), Entity(0, 1, "PER"), Entity(0, 1, "LOC"))),
            Sentence(toy[3].tokens, toy[3].entities[1:], (Span(likely.start, likely.end), Span(1, 2))),
            Sentence(toy[6].tokens, (Entity(0, 5, "LOC"), Entity(3, 5, "LOC"))),
            Sentence(toy[20].tokens, complete=True),
            Sentence(("Oslo",)),
        )
    )


def probabilities_of(model: SpanModel, tokens: tuple[str, ...], start: int, end: int) -> list[float]:
    """What a model says about one span of one sentence."""
    with torch.no_grad():
        scores = model.scorer(model.encode([tokens]))(Spans.of([(0, start, end)]))
        return model.probabilities(scores)[0].tolist()


def predicted_slowly(model: SpanModel, corpus: Corpus, indices: Iterable[int], least: float) -> Table:
    max_width = model.max_span_width or 1_000
    found: Table = {}
    for index in sorted(indices):
        sentence = corpus[index]
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + max_width) + 1):
                probabilities = probabilities_of(model, sentence.tokens, start, end)
                assert abs(1 - probabilities[0] - least) > 1e-5, "take another limit, this one is too close to call"
                annotated = any((e.start, e.end) == (start, end) for e in sentence.entities)
                rejected = any((s.start, s.end) == (start, end) for s in sentence.non_entities)
                if (annotated or 1 - probabilities[0] >= least) and not rejected:
                    found[index, start, end] = probabilities
    return found


def as_dict(found: SpanProbabilities) -> Table:
    keys = list(zip(found.sentence.tolist(), found.start.tolist(), found.end.tolist(), strict=True))
    assert len(set(keys)) == len(keys) == len(found.probabilities)
    return dict(zip(keys, found.probabilities.tolist(), strict=True))


def assert_same(found: SpanProbabilities, expected: Table) -> None:
    assert list(as_dict(found)) == sorted(expected)
    for key, probabilities in as_dict(found).items():
        assert probabilities == pytest.approx(expected[key], abs=1e-5), key


@pytest.mark.parametrize("least", [0.0003, 0.05, 0.3, 0.9999])
def test_what_is_annotated_or_likely_and_not_rejected_gets_probabilities(unsure, gappy, least):
    for indices in (range(len(gappy)), [4, 1, 3], [6]):
        assert_same(predict_proba(unsure, gappy, indices, least), predicted_slowly(unsure, gappy, indices, least))


def test_the_limits_above_tell_spans_apart(unsure, gappy):
    counts = [len(predict_proba(unsure, gappy, range(len(gappy)), least)) for least in (0.0003, 0.05, 0.3, 0.9999)]
    assert counts == sorted(set(counts), reverse=True)
    annotated = sum(len({(e.start, e.end) for e in sentence.entities}) for sentence in gappy)
    assert counts[-1] == annotated


def test_spans_that_are_too_wide_for_the_head_get_no_probabilities(narrow, gappy):
    found = predict_proba(narrow, gappy, range(len(gappy)), 0.05)
    assert_same(found, predicted_slowly(narrow, gappy, range(len(gappy)), 0.05))
    assert (found.end - found.start).max() == 2


def test_where_nothing_is_worth_a_look_there_are_no_probabilities(unsure):
    for corpus, indices in ((Corpus((Sentence(("to", "to")), Sentence(("to",)))), [0, 1]), (Corpus(()), [])):
        found = predict_proba(unsure, corpus, indices, 1.0)
        assert len(found) == 0
        assert found.probabilities.shape == (0, 3)


def test_probabilities_depend_neither_on_the_other_sentences_nor_on_the_order(unsure, gappy):
    whole = as_dict(predict_proba(unsure, gappy, range(len(gappy)), 0.07))
    for index in range(len(gappy)):
        alone = {key: value for key, value in whole.items() if key[0] == index}
        assert_same(predict_proba(unsure, gappy, [index], 0.07), alone)


def test_a_model_with_prototypes_thinks_few_spans_worth_a_look(toy, small_settings):
    trained = Recognizer.train(toy, method="scl-rai", epochs=30, settings=small_settings).model
    bare = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    everything = sum(len(sentence) * (len(sentence) + 1) // 2 for sentence in bare)
    found = predict_proba(trained, bare, range(len(bare)), 0.25)
    assert len(found) < everything / 2
    assert found.probabilities.sum(1) == pytest.approx(np.ones(len(found)), abs=1e-5)
    assert trained.state_of("inference")["seen"].all(), "otherwise there are no prototypes"


def test_a_model_that_was_trained_on_all_negatives_leaves_its_threshold_aside(unsure, gappy):
    shifted = copy.deepcopy(unsure)
    shifted.threshold.fill_(-2.0)
    indices = range(len(gappy))
    plain = predict_proba(unsure, gappy, indices, 0.05)
    assert as_dict(predict_proba(shifted, gappy, indices, 0.05, use_threshold=False)) == as_dict(plain)
    assert as_dict(predict_proba(shifted, gappy, indices, 0.05)) != as_dict(plain)
