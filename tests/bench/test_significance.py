"""The bootstrap is compared with one that draws sentence by sentence, and a value of Student's t for the seeds."""

import random
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Entity, Sentence
from lacuner.bench.significance import Counts, compare, pack, sentence_counts, unpack
from lacuner.evaluation import score_entities

LABELS = ("PER", "LOC")


def slow_bootstrap(ours: list[Counts], theirs: list[Counts], times: int) -> tuple[float, float, float]:
    """The 95 % interval and p, as one would write it down."""
    generator = random.Random(7)

    def f1(model: Counts, places: list[int]) -> float:
        correct, predicted, support = (sum(model[place][column] for place in places) for column in range(3))
        return 2 * correct / (predicted + support) if predicted + support else 0.0

    everything = list(range(len(ours[0])))
    of_seeds = [f1(one, everything) - f1(other, everything) for one, other in zip(ours, theirs, strict=True)]
    error = stdev(of_seeds) / len(of_seeds) ** 0.5 if len(of_seeds) > 1 else 0.0

    def student() -> float:
        free = len(of_seeds) - 1
        return generator.gauss(0, 1) / (generator.gammavariate(free / 2, 2) / free) ** 0.5 if free else 0.0

    drawn = []
    for _ in range(times):
        places = [generator.randrange(len(ours[0])) for _ in ours[0]]
        found = [f1(one, places) - f1(other, places) for one, other in zip(ours, theirs, strict=True)]
        drawn.append(sum(found) / len(found) + error * student())
    drawn.sort()
    turned = min(sum(one <= 0 for one in drawn), sum(one >= 0 for one in drawn))
    return drawn[int(0.025 * times)], drawn[int(0.975 * times)], min(1.0, 2 * turned / times)


def random_model(quality: float, sentences: int, seed: int) -> Counts:
    """A model that finds this share of the entities, and as many others as it misses."""
    generator = np.random.default_rng(seed)
    support = np.random.default_rng(0).integers(0, 5, sentences)  # every model is tested on the same sentences
    correct = generator.binomial(support, quality)
    predicted = correct + generator.binomial(support, 1 - quality)
    return np.stack([correct, predicted, support], axis=1).astype(float)


MODELS = st.integers(1, 12).flatmap(
    lambda sentences: st.lists(
        st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=sentences, max_size=sentences).map(
            lambda rows: np.array([(min(row), row[1], row[2]) for row in rows], dtype=float)
        ),
        min_size=2,
        max_size=6,
    )
)


def halves(models: list[Counts]) -> tuple[list[Counts], list[Counts]]:
    """As many of one method as of the other."""
    half = len(models) // 2
    return models[:half], models[half : 2 * half]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([0.7], [0.65]),
        ([0.62, 0.6, 0.66], [0.55, 0.5, 0.6]),
        ([0.3], [0.7]),
        ([0.5, 0.5, 0.5, 0.5], [0.5, 0.52, 0.5, 0.51]),
    ],
)
def test_it_agrees_with_a_slow_bootstrap(ours: list[float], theirs: list[float]) -> None:
    models = [
        [random_model(quality, 30, 10 * side + number) for number, quality in enumerate(qualities)]
        for side, qualities in enumerate((ours, theirs))
    ]
    found = compare(*models)
    low, high, p = slow_bootstrap(*models, times=1500)
    assert found.low == pytest.approx(low, abs=0.025)
    assert found.high == pytest.approx(high, abs=0.025)
    assert found.p == pytest.approx(p, abs=0.06)


@settings(max_examples=30)
@given(MODELS)
def test_the_difference_is_that_of_the_mean_f1(models: list[Counts]) -> None:
    def f1(model: Counts) -> float:
        correct, predicted, support = model.sum(0)
        return float(2 * correct / (predicted + support)) if predicted + support else 0.0

    ours, theirs = halves(models)
    expected = (sum(map(f1, ours)) - sum(map(f1, theirs))) / len(ours)
    found = compare(ours, theirs)
    assert found.f1 == pytest.approx(expected, abs=1e-12)
    assert found.low <= found.high
    assert 0 < found.p <= 1


@settings(max_examples=30)
@given(MODELS)
def test_it_does_not_matter_who_is_compared_with_whom(models: list[Counts]) -> None:
    ours, theirs = halves(models)
    one, other = compare(ours, theirs), compare(theirs, ours)
    assert other.f1 == -one.f1
    assert other.p == one.p
    assert (other.low, other.high) == (pytest.approx(-one.high, abs=1e-12), pytest.approx(-one.low, abs=1e-12))


@settings(max_examples=30)
@given(MODELS)
def test_equal_models_do_not_differ(models: list[Counts]) -> None:
    found = compare(models, models)
    assert (found.f1, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_method_that_is_clearly_better_is_surely_better() -> None:
    good, bad = ([random_model(quality, 200, seed) for seed in (1, 2, 3, 4)] for quality in (0.9, 0.3))
    assert compare(good, bad).p < 0.005
    assert compare(good, bad).low > 0
    assert compare(bad, good).high < 0


def test_the_more_sentences_the_surer() -> None:
    ps = [compare([random_model(0.66, n, 1)], [random_model(0.6, n, 2)]).p for n in (10, 4000)]
    assert ps[0] > 0.05 > ps[1]


def test_seeds_that_differ_more_than_methods_prove_nothing() -> None:
    def different(noise: float, trial: int) -> bool:
        qualities = np.random.default_rng(trial).normal(0.6, noise, (2, 3)).clip(0.1, 0.9)
        ours, theirs = (
            [random_model(quality, 400, 100 * trial + 10 * side + seed) for seed, quality in enumerate(method)]
            for side, method in enumerate(qualities)
        )
        return compare(ours, theirs).p < 0.05

    # of 200, by chance alone; more than twice as many if seeds are resampled as sentences are
    assert sum(different(0.05, trial) for trial in range(200)) <= 16
    assert sum(different(0.0, trial) for trial in range(40)) <= 4


def test_three_seeds_that_agree_in_sign_alone_prove_nothing() -> None:
    counts = np.tile([[2.0, 3.0, 3.0]], (400, 1))  # every sentence is alike: only seeds differ

    def of(right: int) -> Counts:
        changed = counts.copy()
        changed[:right, 0] = 3
        return changed

    assert compare([of(20), of(120), of(60)], [of(0)] * 3).p > 0.05
    assert compare([of(119), of(120), of(121)], [of(0)] * 3).p < 0.05


def test_the_same_models_give_the_same_figures() -> None:
    ours, theirs = [random_model(0.6, 20, 1)], [random_model(0.55, 20, 2)]
    assert compare(ours, theirs) == compare(ours, theirs) != compare(ours, theirs, seed=2)


def test_models_of_other_sentences_cannot_be_compared() -> None:
    with pytest.raises(AssertionError, match="different sentences"):
        compare([random_model(0.6, 20, 1)], [random_model(0.6, 21, 1)])


@given(st.lists(st.integers(0, 2**16 - 1)))
def test_packed_numbers_are_unpacked_as_they_were(numbers: list[int]) -> None:
    text = pack(np.array(numbers, dtype=np.uint16))
    assert text.isascii()
    assert unpack(text).tolist() == numbers


def test_many_small_numbers_are_a_short_text() -> None:
    numbers = np.random.default_rng(1).integers(0, 4, 3000).astype(np.uint16)
    assert len(pack(numbers)) < 2000


ENTITIES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from(LABELS)).map(
        lambda drawn: Entity(drawn[0], drawn[0] + drawn[1], drawn[2])
    ),
    unique=True,
    max_size=5,
)
SENTENCES = st.builds(
    Sentence,
    st.just(tuple("abcdefg")),
    ENTITIES.map(lambda found: tuple(sorted(found))),
    annotated_labels=st.none() | st.just(frozenset({"PER"})),
    unknown_tokens=st.frozensets(st.integers(0, 6)),
)


@given(st.lists(st.tuples(SENTENCES, ENTITIES), max_size=5))
def test_counts_of_sentences_add_up_to_the_score(pairs: list[tuple[Sentence, list[Entity]]]) -> None:
    found = sentence_counts(pairs)
    scores = score_entities(pairs)
    assert all(len(column) == len(pairs) for column in found.values())
    assert {name: int(column.sum()) for name, column in found.items()} == {
        "correct": scores.correct,
        "predicted": scores.predicted,
        "support": scores.support,
    }
