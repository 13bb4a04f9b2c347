import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Sentence, Span
from lacuner.analysis.hidden import annotated_spans
from lacuner.analysis.missampling import MissamplingObserver
from lacuner.analysis.uncertainty import (
    BANDS,
    NoNegatives,
    choose_band,
    entropy,
    measure_uncertainty,
    split_in_halves,
    with_uncertain_negatives,
)
from lacuner.errors import ConfigError, TrainingError
from lacuner.methods.method import SpanMethod
from lacuner.methods.registry import registry
from lacuner.methods.uniform import Uniform
from lacuner.training.settings import resolve_settings


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=25), st.lists(st.integers(0, 6), min_size=4))
def test_bands_are_those_of_sorting_each_sentence(spans, counts):
    spans.sort(key=lambda span: span[0])
    row, uncertainty = torch.tensor(spans, dtype=torch.long).reshape(-1, 2).unbind(1)
    for band in BANDS:
        expected = []
        for number in range(4):
            mine = [index for index, (r, _) in enumerate(spans) if r == number]
            mine.sort(key=lambda index: -spans[index][1])
            k = min(counts[number], len(mine))
            begin = {"top": 0, "middle": (len(mine) - k) // 2, "bottom": len(mine) - k}[band]
            expected += mine[begin : begin + k]
        found = choose_band(uncertainty.double(), row, torch.tensor(counts), band)
        assert found.tolist() == expected


def test_entropy_is_that_of_the_textbook():
    table = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    assert entropy(table).tolist() == pytest.approx([0, math.log(2), math.log(3)])


@pytest.mark.parametrize("count", [2, 7, 100])
def test_halves_are_a_partition_that_the_seed_decides(count):
    one, other = split_in_halves(count, 1)
    assert sorted(one + other) == list(range(count))
    assert len(other) - len(one) in (0, 1)
    assert split_in_halves(count, 1) == (one, other)
    assert count < 100 or split_in_halves(count, 2) != (one, other)


def test_the_chosen_negatives_are_neither_annotated_nor_hidden(toy, masked, hidden, model):
    reviewed = Corpus(tuple(replace(s, complete=True, non_entities=(Span(len(s) - 1, len(s)),)) for s in masked))
    sampling = Uniform(ratio=0.6)
    for corpus in (masked, reviewed):
        variants = with_uncertain_negatives(corpus, hidden, model, sampling)
        for band in BANDS:
            chosen, _ = variants[band]
            for sentence, before, places in zip(chosen, corpus, hidden, strict=True):
                negatives = {(span.start, span.end) for span in sentence.non_entities}
                assert not negatives & (places | annotated_spans(before))
                assert len(negatives) == math.ceil(0.6 * len(before))
                assert (sentence.tokens, sentence.entities, sentence.complete) == (
                    before.tokens, before.entities, False,
                )  # fmt: skip
        assert variants["top"][1] > variants["middle"][1] > variants["bottom"][1] >= 0


def test_the_bands_are_those_of_the_oracles_entropy(masked, hidden, model):
    """Sentence by sentence and span by span, with the oracle asked one sentence at a time."""
    variants = with_uncertain_negatives(masked, hidden, model, Uniform(ratio=0.5))
    for index in (0, 7, 19):
        sentence, n = masked[index], len(masked[index])
        batch = model.model.encode([sentence.tokens])
        spans, probabilities = model.model.span_probabilities(batch, [Sentence(sentence.tokens)], 0.0)
        uncertainty = {
            (start, end): -sum(p * math.log(p) for p in row if p > 0)
            for start, end, row in zip(spans.start.tolist(), spans.end.tolist(), probabilities.tolist(), strict=True)
            if (start, end) not in hidden[index] | annotated_spans(sentence)
        }
        assert len(uncertainty) == n * (n + 1) // 2 - len(sentence.entities) - len(hidden[index])
        falling, k = sorted(uncertainty.values(), reverse=True), math.ceil(n / 2)
        begins = {"top": 0, "middle": (len(falling) - k) // 2, "bottom": len(falling) - k}
        for band, begin in begins.items():
            chosen = variants[band][0][index].non_entities
            found = sorted((uncertainty[span.start, span.end] for span in chosen), reverse=True)
            assert found == pytest.approx(falling[begin : begin + k], rel=1e-4, abs=1e-6)


def test_the_experiment_trains_on_the_chosen_negatives_only(toy, masked, hidden, small_settings):
    settings = resolve_settings("uniform", overrides=small_settings | {"training.epochs": 2})
    observers = {}

    def observer(name):
        observers[name] = MissamplingObserver([frozenset()] * len(toy))
        return observers[name]

    run = measure_uncertainty(masked, hidden, toy, settings, seed=4, test=toy, observer=observer)
    assert list(observers) == ["oracle", "top", "middle", "bottom"]
    assert sum(epoch.negatives for epoch in observers["oracle"].epochs) > 0
    assert all(epoch.negatives == 0 for band in BANDS for epoch in observers[band].epochs)
    second = [masked[index] for index in split_in_halves(len(masked), 4)[1]]
    assert {result.negatives for result in run.bands.values()} == {sum(math.ceil(0.35 * len(s)) for s in second)}
    assert all(result.test_f1 == result.dev_f1 for result in run.bands.values())  # the same sentences
    assert (run.seed, run.ratio) == (4, 0.35)
    again = measure_uncertainty(masked, hidden, toy, settings, seed=4, test=toy)
    assert again == run


def test_sampling_that_has_no_lambda_is_refused(masked, hidden, toy):
    with pytest.raises(ConfigError, match=r"negatives=all: .*choose uniform or weighted"):
        measure_uncertainty(masked, hidden, toy, resolve_settings("full"), seed=1)


def test_one_sentence_has_no_halves(toy):
    train = Corpus((toy[0], Sentence(())))
    with pytest.raises(TrainingError, match="cannot be split"):
        measure_uncertainty(train, [frozenset()] * 2, toy, resolve_settings("uniform"), seed=1)


def test_drawing_nothing_is_not_offered_to_users():
    assert NoNegatives not in registry().choices("negatives", SpanMethod).values()
