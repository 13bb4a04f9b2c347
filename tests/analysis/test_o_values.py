import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Recognizer, Sentence, Span
from lacuner.analysis.o_values import (
    DECISIONS,
    FRACTIONS,
    OValueObserver,
    average_precision,
    detect,
    mean_of_runs,
    measure_o_values,
    tagger,
    with_decision,
    words_of,
)
from lacuner.errors import ConfigError, TrainingError
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import Observer, fit
from lacuner.training.settings import resolve_settings

place = st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
words = st.lists(st.tuples(st.floats(-3, 3).map(lambda x: round(x, 1)), st.booleans()), min_size=1, max_size=40).filter(
    lambda rows: any(hidden for _, hidden in rows)
)
QUICK = {
    "encoder.vectors": "none", "encoder.word_size": 20, "encoder.hidden": 24, "training.batch_tokens": 64,
    "training.encoder_learning_rate": 0.01, "training.head_learning_rate": 0.01, "training.epochs": 3,
}  # fmt: skip


def quick(method="crf", **more):
    return resolve_settings(method, overrides=QUICK | more)


def columns(rows):
    values, hidden = zip(*rows, strict=True)
    return np.array(values), np.array(hidden)


@given(st.lists(st.frozensets(place, max_size=3), min_size=1, max_size=4), st.data())
def test_words_are_those_of_the_spans(spans, data):
    asked = data.draw(st.lists(st.tuples(st.integers(0, len(spans) - 1), st.integers(0, 20)), max_size=30))
    table = np.array(asked, dtype=np.int64).reshape(-1, 2)
    expected = [any(start <= word < end for start, end in spans[index]) for index, word in asked]
    assert words_of(spans, table[:, 0], table[:, 1]).tolist() == expected


@given(words, st.lists(st.floats(0.001, 1), min_size=1, max_size=4))
def test_detection_is_that_of_picking_word_by_word(rows, fractions):
    order = sorted(range(len(rows)), key=lambda index: rows[index][0])
    for fraction, found in zip(fractions, detect(*columns(rows), fractions), strict=True):
        count = math.ceil(round(fraction * len(rows), 9))
        hits = 0
        for index in order[:count]:
            hits += rows[index][1]
        assert (found.fraction, found.picked) == (fraction, count)
        assert found.precision == pytest.approx(hits / count)
        assert found.recall == pytest.approx(hits / sum(hidden for _, hidden in rows))


@given(words)
def test_average_precision_is_that_of_a_loop(rows):
    order = sorted(range(len(rows)), key=lambda index: rows[index][0])
    hits, precisions = 0, []
    for rank, index in enumerate(order, 1):
        if rows[index][1]:
            hits += 1
            precisions.append(hits / rank)
    assert average_precision(*columns(rows)) == pytest.approx(sum(precisions) / len(precisions))


@settings(max_examples=30)
@given(st.sets(st.integers(-99, 99), min_size=2, max_size=30), st.data())
def test_average_precision_is_scikit_learns(numbers, data):
    metrics = pytest.importorskip("sklearn.metrics")
    values = np.array(data.draw(st.permutations(sorted(numbers))), dtype=float)
    hidden = np.array([True, *data.draw(st.lists(st.booleans(), min_size=len(values) - 1, max_size=len(values) - 1))])
    assert average_precision(values, hidden) == pytest.approx(metrics.average_precision_score(hidden, -values))


def test_what_is_told_apart_completely_is_detected_completely():
    values, hidden = np.arange(10.0), np.arange(10) < 2
    assert average_precision(values, hidden) == 1
    assert [(d.precision, d.recall) for d in detect(values, hidden, [0.1, 0.2, 0.4])] == [(1, 0.5), (1, 1), (0.5, 1)]
    assert average_precision(-values, hidden) == pytest.approx((1 / 9 + 2 / 10) / 2)


def test_ten_percent_of_ten_words_is_one():
    (found,) = detect(np.arange(10.0), np.arange(10) < 1, [0.1])
    assert found.picked == 1
    assert 1.1 * 50 > 55  # what a computer thinks
    assert detect(np.arange(1000.0), np.arange(1000) < 1, [0.055])[0].picked == 55


def test_the_shares_are_those_of_the_paper_and_two_more():
    assert FRACTIONS[0] == 0.1 * 2**-5
    assert FRACTIONS[5:] == (0.1, 0.2, 0.4)


@pytest.mark.parametrize("decision", DECISIONS)
def test_every_epoch_shows_the_o_values_of_its_model(toy, masked, hidden, decision):
    """Training stopped after each epoch, and each word asked about by itself."""
    settings = with_decision(quick(), decision)
    run = measure_o_values(masked, hidden, settings)
    assert (run.decision, run.seed, len(run.epochs)) == (decision, 1, 3)

    seen = []

    class Stop(Observer):
        def epoch_ended(self, record):
            model.eval()
            rows = []
            for sentence, places in zip(masked, hidden, strict=True):
                annotated = {word for e in sentence.entities for word in range(e.start, e.end)}
                lacking = {word for span in places for word in range(*span)}
                with torch.no_grad():
                    scores = model.decisions(model.encode([sentence.tokens]))[0, :, 0].tolist()
                rows += [(s, word in lacking) for word, s in enumerate(scores) if word not in annotated]
            model.train()
            seen.append(rows)

    torch.manual_seed(1)
    model = settings.method.build_model(settings.encoder.create(masked.tokens), ("O", *masked.labels))
    sampler = EpochSampler(masked, settings.training.seed)
    fit(model, settings.method, sampler, settings.for_data(masked).training, observer=Stop())
    for epoch, rows in zip(run.epochs, seen, strict=True):
        values, is_hidden = columns(rows)
        assert (run.words, run.hidden) == (len(rows), is_hidden.sum())
        assert epoch.hidden == pytest.approx(np.mean([value for value, lacking in rows if lacking]), rel=1e-4, abs=1e-5)
        assert epoch.outside == pytest.approx(np.mean([value for value, lacking in rows if not lacking]), rel=1e-4)
        assert epoch.average_precision == pytest.approx(average_precision(values, is_hidden), abs=0.02)
        assert [found.fraction for found in epoch.detection] == list(FRACTIONS)
    assert run.base_rate == run.hidden / run.words


def test_looking_changes_nothing(masked, hidden):
    """The model after all epochs is the one that training without a look makes."""
    settings = quick()
    models = []

    class Keep(OValueObserver):
        def __init__(self, model, *others):
            models.append(model)
            super().__init__(model, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuner.analysis.o_values.OValueObserver", Keep)
        before = torch.random.get_rng_state()
        measure_o_values(masked, hidden, settings)
        assert torch.equal(torch.random.get_rng_state(), before)
    trained = Recognizer.train(masked, settings=settings).model
    for left, right in zip(models[0].parameters(), trained.parameters(), strict=True):
        assert torch.equal(left, right)


def test_words_that_somebody_has_judged_are_not_looked_at(toy):
    """Annotated words, those of complete sentences, and sentences without words; a rejected one may be in a wider entity."""
    sentence = Sentence(("Ada", "met", "Bob", "in", "Rome"), (Entity(0, 1, "PER"),))
    rejected = Sentence(sentence.tokens, sentence.entities, non_entities=(Span(1, 2),))
    complete = Sentence(sentence.tokens, sentence.entities, complete=True)
    train = Corpus((Sentence(()), sentence, rejected, complete))
    hidden = [frozenset(), *[frozenset({(0, 3), (4, 5)})] * 3]  # one overlaps what is annotated
    run = measure_o_values(train, hidden, quick())
    assert run.words == 4 + 4  # met, Bob, in, Rome
    assert run.hidden == 3 + 3


def test_everything_is_passed_on(masked, hidden):
    class Diary(Observer):
        def __init__(self):
            self.told = []

        def stage_started(self, title):
            self.told.append("stage")

        def epoch_started(self, epoch, epochs, words):
            self.told.append(("began", epoch, epochs, words))

        def negatives_drawn(self, sentences, spans):
            self.told.append("drawn")

        def batch_done(self, words):
            self.told.append(words)

        def epoch_ended(self, record):
            self.told.append(("ended", record["epoch"]))

    diary = Diary()
    measure_o_values(masked, hidden, quick("two-step", stage="none"), diary)
    total = sum(map(len, masked))
    assert diary.told[:2] == ["stage", ("began", 1, 3, total)]
    assert diary.told[-1] == ("ended", 3)
    assert sum(told for told in diary.told if isinstance(told, int)) == 3 * total
    assert "drawn" in diary.told


def test_the_mean_of_runs_is_the_mean_of_all_they_show(masked, hidden):
    runs = [measure_o_values(masked, hidden, quick(**{"training.seed": seed})) for seed in (1, 2)]
    assert runs[0] != runs[1]
    assert measure_o_values(masked, hidden, quick()) == runs[0]
    assert mean_of_runs(runs[:1]) == list(runs[0].epochs)
    for epoch, one, other in zip(mean_of_runs(runs), runs[0].epochs, runs[1].epochs, strict=True):
        assert epoch.epoch == one.epoch
        for name in ("hidden", "outside", "average_precision"):
            assert getattr(epoch, name) == pytest.approx((getattr(one, name) + getattr(other, name)) / 2)
        assert epoch.detection[3].recall == pytest.approx((one.detection[3].recall + other.detection[3].recall) / 2)


@pytest.mark.parametrize("method", ["token", "crf", "eer"])
def test_methods_without_a_stage_are_accepted(method):
    for decision in DECISIONS:
        assert tagger(with_decision(quick(method), decision)).head.angle == (decision == "angle")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("uniform", "uniform scores spans, and words have no O-value there: give crf or token"),
        ("two-step", "two-step trains several models, one after the other: .* --set stage=none"),
    ],
)
def test_methods_that_have_no_o_values_to_look_at_are_refused(masked, hidden, method, message):
    with pytest.raises(ConfigError, match=message):
        measure_o_values(masked, hidden, resolve_settings(method))


def test_data_that_tells_nothing_is_refused(toy, masked, hidden):
    with pytest.raises(TrainingError, match="0 of 75 untagged words belong to hidden entities"):
        measure_o_values(toy, [frozenset()] * len(toy), quick())
    with pytest.raises(TrainingError, match="no entity is annotated"):
        measure_o_values(toy.mask(1.0, seed=1), hidden, quick())
    everything = [frozenset({(0, len(sentence))}) for sentence in masked]
    with pytest.raises(TrainingError, match="nothing to tell apart"):
        measure_o_values(masked, everything, quick())
