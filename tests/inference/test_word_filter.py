import copy

import pytest
import torch
from safetensors.torch import load_file, save_file

from lacuner import Corpus, Recognizer
from lacuner.inference import word_filter
from lacuner.inference.predict import find_entities
from lacuner.inference.word_filter import fit_word_filter
from lacuner.sample import read_sample


@pytest.fixture(scope="module")
def trained(small_settings):
    """A model that has read the sample, without a filter of words."""
    recognizer = Recognizer.train(read_sample("train")[:150], method="uniform", epochs=8, settings=small_settings)
    recognizer.model.word_filter = None
    return recognizer


@pytest.fixture
def few_entities_are_enough(monkeypatch):
    monkeypatch.setattr(word_filter, "_MIN_ENTITIES", 40)


def test_words_are_skipped_and_the_entities_stay(trained, few_entities_are_enough):
    model = copy.deepcopy(trained.model)
    fitted_to, others = read_sample("train")[:150].tokens, read_sample("dev").tokens
    expected = find_entities(model, [*fitted_to, *others])
    fitted = fit_word_filter(model, fitted_to, others)
    assert fitted is not None
    assert model.word_filter is fitted
    batch = model.encode(others)
    starts, ends = fitted(batch.words, batch.lengths)
    words = batch.lengths.sum()
    assert starts.sum() < 0.8 * words
    assert ends.sum() < 0.8 * words
    assert find_entities(model, [*fitted_to, *others]) == expected
    assert sum(map(len, expected)) > 100


def test_a_filter_is_the_same_each_time(trained, few_entities_are_enough):
    models = [copy.deepcopy(trained.model) for _ in range(2)]
    first, second = (fit_word_filter(model, read_sample("train")[:150].tokens) for model in models)
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(first.bias, second.bias)


def test_of_few_entities_no_filter_is_made(trained):
    model = copy.deepcopy(trained.model)
    assert fit_word_filter(model, read_sample("train")[:20].tokens) is None
    assert fit_word_filter(model, []) is None
    assert model.word_filter is None


def test_a_filter_that_would_save_little_is_not_kept(trained, few_entities_are_enough, monkeypatch):
    monkeypatch.setattr(word_filter, "_MIN_KEPT", 0.95)
    model = copy.deepcopy(trained.model)
    assert fit_word_filter(model, read_sample("train")[:150].tokens) is None


def test_a_filter_is_saved_with_the_model_and_need_not_be_there(trained, few_entities_are_enough, tmp_path):
    recognizer = Recognizer(copy.deepcopy(trained.model), trained.settings, trained.split, trained.record)
    dev = read_sample("dev")
    fit_word_filter(recognizer.model, read_sample("train")[:150].tokens, dev.tokens)
    recognizer.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    assert torch.equal(loaded.model.word_filter.weight, recognizer.model.word_filter.weight)
    assert loaded.evaluate(dev) == recognizer.evaluate(dev)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    without = {name: tensor for name, tensor in weights.items() if not name.startswith("word_filter.")}
    assert len(without) == len(weights) - 2
    save_file(without, tmp_path / "model" / "model.safetensors")
    older = Recognizer.from_pretrained(tmp_path / "model")
    assert older.model.word_filter is None
    assert older.evaluate(dev) == recognizer.evaluate(dev)


def test_training_ends_with_a_filter(small_settings, few_entities_are_enough):
    corpus = read_sample("train")[:150]
    recognizer = Recognizer.train(corpus, method="uniform", epochs=8, settings=small_settings)
    assert recognizer.model.word_filter is not None
    found = recognizer.evaluate(corpus)
    recognizer.model.word_filter = None
    assert recognizer.evaluate(Corpus(tuple(corpus))) == found
