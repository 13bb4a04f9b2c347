import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Corpus, Recognizer, Sentence
from lacuner.analysis.hidden import hidden_against_gold
from lacuner.analysis.missampling import (
    HiddenEntities,
    MissamplingObserver,
    measure_missampling,
    missampling_rates,
)
from lacuner.supervision.spans import Spans
from lacuner.training.loop import Observer
from lacuner.training.settings import resolve_settings

place = st.tuples(st.integers(0, 6), st.integers(1, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))
corpora = st.lists(st.frozensets(place, max_size=5), min_size=1, max_size=5)


class Diary(Observer):
    """Keeps everything it is told."""

    def __init__(self):
        self.told = []

    def stage_started(self, title):
        self.told.append(("stage_started", title))

    def epoch_started(self, epoch, epochs, words):
        self.told.append(("epoch_started", epoch, epochs, words))

    def negatives_drawn(self, sentences, spans):
        rows = zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
        self.told.append(("negatives_drawn", [(sentences[row], start, end) for row, start, end in rows]))

    def batch_done(self, words):
        self.told.append(("batch_done", words))

    def epoch_ended(self, record):
        self.told.append(("epoch_ended", record))


@given(corpora, st.data())
def test_hidden_entities_are_found_among_the_drawn(hidden, data):
    every = sorted((index, *span) for index, spans in enumerate(hidden) for span in spans)
    asked = data.draw(st.lists(st.tuples(st.integers(0, len(hidden) - 1), place), max_size=30))
    table = torch.tensor([(index, *span) for index, span in asked], dtype=torch.long).reshape(-1, 3)
    found = HiddenEntities(hidden).find(*table.unbind(1))
    expected = [every.index((index, *span)) if span in hidden[index] else -1 for index, span in asked]
    assert found.tolist() == expected


def test_a_span_far_beyond_all_hidden_entities_is_not_taken_for_one():
    assert HiddenEntities([frozenset({(1, 2)})]).find(*torch.tensor([[0], [0], [5]])).tolist() == [-1]


@settings(max_examples=40)
@given(corpora, st.data())
def test_the_observer_counts_as_a_loop_does(hidden, data):
    size = len(hidden)
    observer, ever = MissamplingObserver(hidden), set()
    for epoch in range(1, 4):
        observer.epoch_started(epoch, 3, 100)
        drawn = [data.draw(st.lists(place, max_size=6, unique=True)) for _ in hidden]
        order = data.draw(st.permutations(range(size)))
        for batch in (order[: size // 2], order[size // 2 :]):
            spans = Spans.of((row, *span) for row, index in enumerate(batch) for span in drawn[index])
            observer.negatives_drawn(batch, spans)
        observer.epoch_ended({"epoch": epoch})

        rates, hits = [], 0
        for index, spans in enumerate(drawn):
            missed = [span for span in spans if span in hidden[index]]
            ever |= {(index, span) for span in missed}
            hits += len(missed)
            if spans:
                rates.append(len(missed) / len(spans))
        result, total = observer.epochs[-1], sum(map(len, drawn))
        assert (result.epoch, result.negatives, result.missampled) == (epoch, total, hits)
        assert result.rate == pytest.approx(sum(rates) / len(rates) if rates else 0)
        assert result.pooled_rate == pytest.approx(hits / total if total else 0)
        everything = sum(map(len, hidden))
        assert result.ever_drawn == pytest.approx(len(ever) / everything if everything else 0)


def test_the_two_rates_differ_where_sentences_do():
    assert missampling_rates(np.array([1, 9]), np.array([1, 0])) == (0.5, 0.1)
    assert missampling_rates(np.array([0, 0]), np.array([0, 0])) == (0.0, 0.0)


def test_teachers_are_not_counted():
    """They see parts of the corpus, in which the same number is another sentence."""
    diary = Diary()
    observer = MissamplingObserver([frozenset(), frozenset({(0, 1)})], diary)
    for title in ("teacher 1/2", ""):
        observer.stage_started(title)
        observer.epoch_started(1, 1, 10)
        observer.negatives_drawn([1], Spans.of([(0, 0, 1)] if title else [(0, 1, 2)]))
        observer.batch_done(10)
        observer.epoch_ended({"epoch": 1})
    assert [(epoch.negatives, epoch.missampled, epoch.ever_drawn) for epoch in observer.epochs] == [(1, 0, 0.0)]
    stages = ["stage_started", "epoch_started", "negatives_drawn", "batch_done", "epoch_ended"]
    assert [told[0] for told in diary.told] == 2 * stages


def test_every_unknown_span_of_ordinary_training_is_a_negative(toy, small_settings):
    masked = toy.mask(0.5, seed=1)
    hidden = hidden_against_gold(masked, toy, "gold")
    run = resolve_settings("full", overrides=small_settings | {"training.epochs": 2})
    epochs = measure_missampling(masked, hidden, run, dev=toy)
    everything = sum(len(s) * (len(s) + 1) // 2 - len(s.entities) for s in masked)
    assert [(e.epoch, e.negatives, e.missampled, e.ever_drawn) for e in epochs] == [
        (number, everything, sum(map(len, hidden)), 1.0) for number in (1, 2)
    ]
    assert all(epoch.dev_f1 is not None for epoch in epochs)


def test_the_measured_rate_is_that_of_what_training_was_told(toy, small_settings):
    """The sentences without words, which training leaves out, must not shift the others."""
    gold = Corpus((Sentence(()), *toy[:9], Sentence(()), *toy[9:]))
    masked = gold.mask(0.6, seed=2)
    hidden = hidden_against_gold(masked, gold, "gold")
    run = resolve_settings("uniform", overrides=small_settings | {"training.epochs": 3, "negatives.ratio": 1.0})
    diary = Diary()
    epochs = measure_missampling(masked, hidden, run, observer=diary)
    filled = [places for places, sentence in zip(hidden, masked, strict=True) if sentence.tokens]
    drawn = [span for what, *spans in diary.told if what == "negatives_drawn" for span in spans[0]]
    missed = [(index, start, end) for index, start, end in drawn if (start, end) in filled[index]]
    assert sum(epoch.missampled for epoch in epochs) == len(missed) > 0
    assert sum(epoch.negatives for epoch in epochs) == len(drawn) == 3 * sum(map(len, masked))
    assert epochs[-1].ever_drawn == len(set(missed)) / sum(map(len, hidden))
    assert epochs[0].dev_f1 is None


def test_observing_changes_nothing_and_everything_is_passed_on(toy, small_settings):
    masked = toy.mask(0.5, seed=1)
    hidden = hidden_against_gold(masked, toy, "gold")
    seen, passed_on = Diary(), Diary()
    arguments = {"method": "uniform", "epochs": 2, "settings": small_settings}
    one = Recognizer.train(masked, toy, observer=seen, **arguments)
    other = Recognizer.train(masked, toy, observer=MissamplingObserver(hidden, passed_on), **arguments)
    for diary in (seen, passed_on):
        for entry in diary.told:
            if entry[0] == "epoch_ended":
                entry[1].pop("seconds"), entry[1].pop("words_per_second")
    assert seen.told == passed_on.told
    for left, right in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(left, right)
