import copy
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from lacuner import Corpus, Recognizer
from lacuner.inference import span_filter
from lacuner.inference.predict import find_entities
from lacuner.inference.span_filter import fit_span_filter
from lacuner.sample import read_sample
from lacuner.supervision.spans import enumerate_spans


@pytest.fixture(scope="module", params=["product", "width"])
def trained(request, small_settings):
    """A model that has read the sample, without a filter of spans; a head with and one without spans of any width."""
    settings = small_settings | {"head": request.param}
    recognizer = Recognizer.train(read_sample("train")[:150], method="uniform", epochs=8, settings=settings)
    recognizer.model.span_filter = None
    return recognizer


@pytest.fixture
def few_entities_are_enough(monkeypatch):
    monkeypatch.setattr(span_filter, "_MIN_ENTITIES", 40)


def test_spans_are_skipped_and_the_entities_stay(trained, few_entities_are_enough):
    model = copy.deepcopy(trained.model)
    fitted_to, others = read_sample("train")[:150].tokens, read_sample("dev").tokens
    expected = find_entities(model, [*fitted_to, *others])
    fitted = fit_span_filter(model, fitted_to, others)
    assert fitted is not None
    assert model.span_filter is fitted
    batch = model.encode(others)
    first, last = batch.words.first, model.head.last_words(batch.words)
    kept = fitted.spans(first, last, batch.lengths, model.max_span_width)
    assert len(kept) < 0.5 * len(enumerate_spans(batch.lengths, model.max_span_width))
    assert find_entities(model, [*fitted_to, *others]) == expected
    assert sum(map(len, expected)) > 100


def test_a_margin_is_five_times_the_mean_distance_of_the_lowest_scores_from_those_above_them():
    scores = torch.tensor([*range(1000)]).float()
    held_out = torch.cat([torch.arange(880, 900), torch.full((380,), 900)]).float()  # 20 of 400 are the lowest 5 %
    spread = sum(900 - score for score in range(880, 900)) / 20
    cut, kept = span_filter._cut(scores, scores >= 950, held_out)
    assert cut == min(880 - 5 * spread, 799)  # 799: a fifth is always kept
    wider, more = span_filter._cut(scores, scores >= 790, held_out)
    assert wider == pytest.approx(790 - 5 * spread)
    assert more == pytest.approx((1000 - math.ceil(wider)) / 1000)
    assert more > kept


@pytest.mark.parametrize("classifier", ["_fit_words", "_fit_pairs"])
def test_a_classifier_of_words_inside_or_of_pairs_that_skips_little_is_left_out(
    trained, few_entities_are_enough, monkeypatch, classifier
):
    sentences = read_sample("train")[:150].tokens
    for most, used in ((1.0, True), (0.0, False)):
        monkeypatch.setattr(span_filter, "_MAX_KEPT", most)
        fitted = fit_span_filter(copy.deepcopy(trained.model), sentences)
        assert fitted is not None
        weight = fitted.weight[2] if classifier == "_fit_words" else fitted.pair_weight
        assert bool(weight.any()) == used
        assert fitted.weight[:2].any(1).all(), "first and last words are always looked at"


def test_a_filter_is_the_same_each_time(trained, few_entities_are_enough):
    models = [copy.deepcopy(trained.model) for _ in range(2)]
    first, second = (fit_span_filter(model, read_sample("train")[:150].tokens) for model in models)
    for one, other in zip(first.buffers(), second.buffers(), strict=True):
        assert torch.equal(one, other)


def test_of_few_entities_no_filter_is_made(trained):
    model = copy.deepcopy(trained.model)
    assert fit_span_filter(model, read_sample("train")[:20].tokens) is None
    assert fit_span_filter(model, []) is None
    assert model.span_filter is None


def test_a_filter_that_would_save_little_is_not_kept(trained, few_entities_are_enough, monkeypatch):
    monkeypatch.setattr(span_filter, "_MIN_KEPT", 0.95)
    model = copy.deepcopy(trained.model)
    assert fit_span_filter(model, read_sample("train")[:150].tokens) is None


def test_a_filter_is_saved_with_the_model_and_need_not_be_there(trained, few_entities_are_enough, tmp_path):
    recognizer = Recognizer(copy.deepcopy(trained.model), trained.settings, trained.split, trained.record)
    dev = read_sample("dev")
    fit_span_filter(recognizer.model, read_sample("train")[:150].tokens, dev.tokens)
    recognizer.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    for one, other in zip(loaded.model.span_filter.buffers(), recognizer.model.span_filter.buffers(), strict=True):
        assert torch.equal(one, other)
    assert loaded.evaluate(dev) == recognizer.evaluate(dev)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    without = {name: tensor for name, tensor in weights.items() if not name.startswith("span_filter.")}
    assert len(without) == len(weights) - 4
    save_file(without, tmp_path / "model" / "model.safetensors")
    older = Recognizer.from_pretrained(tmp_path / "model")
    assert older.model.span_filter is None
    assert older.evaluate(dev) == recognizer.evaluate(dev)


def test_training_ends_with_a_filter(small_settings, few_entities_are_enough):
    corpus = read_sample("train")[:150]
    recognizer = Recognizer.train(corpus, method="uniform", epochs=8, settings=small_settings)
    assert recognizer.model.span_filter is not None
    found = recognizer.evaluate(corpus)
    recognizer.model.span_filter = None
    assert recognizer.evaluate(Corpus(tuple(corpus))) == found
