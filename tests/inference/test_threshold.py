import copy
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.evaluation import Scores, score_entities
from lacuner.heads import SpanScores
from lacuner.inference import passages
from lacuner.inference.predict import find_entities
from lacuner.inference.threshold import fit_threshold
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans


def leaning(model: SpanModel, towards_outside: float) -> SpanModel:
    """The same model, but all too ready to say ``O`` (or not to)."""
    biased = copy.deepcopy(model)
    with torch.no_grad():
        biased.head.classifier.bias[0] += towards_outside
    return biased


def fitted(
    model: SpanModel, dev: Corpus, criterion: Callable[[Scores], float], nested: bool = False
) -> tuple[float, Scores]:
    """The threshold that a model is given, and its scores with it."""
    found = fit_threshold(model, dev, lambda pairs: criterion(score_entities(pairs)), nested)
    return model.threshold.item(), score_entities(found)


def evaluated(model: SpanModel, dev: Corpus, threshold: float, nested: bool = False) -> Scores:
    before = model.threshold.item()
    model.threshold.fill_(threshold)
    scores = score_entities(zip(dev, find_entities(model, dev.tokens, nested), strict=True))
    model.threshold.fill_(before)
    return scores


def fitted_slowly(model: SpanModel, dev: Corpus, criterion: Callable[[Scores], float], nested: bool = False) -> float:
    """Whole thresholds from -4 to 4, then the neighbors half and a quarter as far, by evaluating each from scratch."""

    def quality(threshold: float) -> tuple[float, float]:
        return criterion(evaluated(model, dev, threshold, nested)), -abs(threshold)

    best = max([float(whole) for whole in range(-4, 5)], key=quality)
    for step in (0.5, 0.25):
        best = max([best - step, best, best + step], key=quality)
    return best


def f1(scores: Scores) -> float:
    return scores.f1


@pytest.mark.parametrize("bias", [-2.6, 0.0, 1.4, 2.6])
@pytest.mark.parametrize("criterion", [f1, lambda s: s.pu_estimate, lambda s: s.recall], ids=["f1", "pu", "r"])
def test_the_threshold_is_the_best_that_was_tried(unsure, toy, bias, criterion):
    model = leaning(unsure, bias)
    threshold, scores = fitted(model, toy[::3], criterion)
    expected = fitted_slowly(model, toy[::3], criterion)
    assert scores == evaluated(model, toy[::3], threshold)
    assert criterion(scores) == criterion(evaluated(model, toy[::3], expected))
    assert threshold == expected
    assert all(criterion(scores) >= criterion(evaluated(model, toy[::3], float(whole))) for whole in range(-4, 5))


def test_nested_entities_count_if_they_are_wanted(unsure, toy):
    """With nested entities in the dev data, the best threshold is another one, because more of them are right."""
    inner = [
        Sentence(s.tokens, (*s.entities, *(Entity(e.start, e.end - 1, e.label) for e in s.entities if len(s) > 5)))
        for s in toy
        if all(e.end - e.start > 1 for e in s.entities)
    ]
    dev = Corpus(tuple(inner))
    assert any(one.end > other.start for s in dev for one, other in zip(s.entities, s.entities[1:], strict=False))
    for bias in (-2.6, 2.6):
        model = leaning(unsure, bias)
        threshold, scores = fitted(model, dev, lambda s: s.recall, nested=True)
        assert threshold == fitted_slowly(model, dev, lambda s: s.recall, nested=True)
        assert scores == evaluated(model, dev, threshold, nested=True)
        assert scores.recall > fitted(model, dev, lambda s: s.recall)[1].recall


def test_a_threshold_makes_up_for_a_model_that_leans_to_one_side(model, toy):
    for bias in (-5.0, 5.0):
        biased = leaning(model.model, bias)
        threshold, scores = fitted(biased, toy, f1)
        assert scores.f1 > evaluated(biased, toy, 0.0).f1
        assert math.copysign(1, threshold) == -math.copysign(1, bias)


def test_a_model_that_needs_no_threshold_gets_none(model, toy):
    assert fitted(copy.deepcopy(model.model), toy, lambda scores: 0.5)[0] == 0.0
    unlabeled = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    assert fitted(copy.deepcopy(model.model), unlabeled, f1)[0] == 0.0


@pytest.mark.parametrize("training", [True, False])
def test_fitting_a_threshold_leaves_the_mode_as_it_was_and_knows_no_dropout(unsure, toy, training):
    model = leaning(unsure, 1.4)
    expected = fitted(model, toy, f1)
    model.train(training)
    assert fitted(model, toy, f1) == expected
    assert model.training is model.encoder.training is training


def test_the_threshold_so_far_does_not_matter_to_the_next(unsure, toy):
    model = leaning(unsure, 1.4)
    expected = fitted(model, toy, f1)
    model.threshold.fill_(3.0)
    assert fitted(model, toy, f1) == expected


def test_dev_sentences_without_words_do_no_harm(unsure, toy):
    model = copy.deepcopy(unsure)
    expected = fitted(model, toy, f1)
    padded = Corpus((Sentence(()), *toy, Sentence(())))
    assert fitted(model, padded, f1) == expected


def test_a_label_that_is_only_in_dev_counts_as_missed(unsure, toy):
    dev = toy + Corpus((Sentence(("Euro",), (Entity(0, 1, "MISC"),)),))
    _, scores = fitted(copy.deepcopy(unsure), dev, f1)
    assert scores.labels["MISC"].support == 1


def test_long_documents_are_searched_as_prediction_searches_them(unsure, toy, monkeypatch):
    """In passages, and so with the scores of the words that are in them."""
    monkeypatch.setattr(passages, "MAX_PASSAGE", 7)
    tokens, entities = [], []
    for sentence in toy[:6]:
        entities += [Entity(len(tokens) + e.start, len(tokens) + e.end, e.label) for e in sentence.entities]
        tokens += sentence.tokens
    dev = Corpus((Sentence(tuple(tokens), tuple(entities)), toy[7]))
    for bias in (-1.0, 1.4):
        model = leaning(unsure, bias)
        threshold, scores = fitted(model, dev, f1)
        assert scores == evaluated(model, dev, threshold)
        assert threshold == fitted_slowly(model, dev, f1)


def test_whatever_a_threshold_makes_an_entity_is_looked_at(unsure):
    """Three first words are entities with small probabilities, which -4, -4.5 and -4.75 let pass; nothing else is one."""
    model = copy.deepcopy(unsure)
    chances = {1: 0.02, 2: 0.0115, 3: 0.0093}  # by the length of the sentence

    def scorer(batch):
        def score(spans: Spans) -> SpanScores:
            lengths = batch.lengths[spans.row].tolist()
            spans_of = zip(lengths, spans.start.tolist(), spans.end.tolist(), strict=True)
            chance = torch.tensor([chances[n] if (start, end) == (0, 1) else 1e-9 for n, start, end in spans_of])
            return SpanScores(
                torch.stack([1 - chance, chance, torch.full_like(chance, 1e-9)], 1).log(), chance[:, None]
            )

        return score

    model.scorer = scorer
    dev = Corpus(tuple(Sentence(("x",) * length, (Entity(0, 1, "LOC"),)) for length in chances))
    assert [evaluated(model, dev, threshold).correct for threshold in (-3.75, -4.0, -4.5, -4.75)] == [0, 1, 2, 3]
    assert fitted(model, dev, f1)[0] == -4.75
    assert fitted(model, dev, f1)[1].f1 == 1.0


def test_a_tagger_gets_a_threshold_as_well(toy, small_settings):
    settings = {key: value for key, value in small_settings.items() if not key.startswith("head")}
    tagger = Recognizer.train(toy, method="crf", epochs=6, settings=settings).model
    threshold, scores = fitted(tagger, toy, f1)
    assert threshold == fitted_slowly(tagger, toy, f1)
    assert scores == evaluated(tagger, toy, threshold)


@pytest.mark.parametrize("sampled", [1.0, 0.3])
@pytest.mark.parametrize(
    ("kept", "shown"), [(0.9, "-0.20"), (0.7, "-0.62"), (0.5, "-1.10"), (0.3, "-1.73"), (0.1, "-2.94")]
)
def test_the_threshold_of_the_docs_decides_as_complete_labels_would(kept: float, shown: str, sampled: float) -> None:
    """A fraction ``kept`` of the labels is left at random, and a fraction ``sampled`` of all other spans are negatives."""
    threshold = math.log(kept / (2 - kept))
    page = (Path(__file__).parents[2] / "docs" / "threshold.md").read_text(encoding="utf-8")
    assert f" {shown} |" in page
    assert f"{threshold:.2f}" == shown
    for true in (number / 100 for number in range(1, 100)):
        learned = math.log(kept * true / (sampled * (1 - kept * true)))
        assert (learned > threshold - math.log(sampled)) == (true > 0.5) or true == 0.5
