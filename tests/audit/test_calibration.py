import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.audit.calibration import Calibration, _bent, _likelihood, _Spans, calibrate, missing_probability


def all_alike(scores: np.ndarray) -> np.ndarray:
    return np.ones((len(scores), 1))


def certain(labels: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count)[labels]


def missing(found: Calibration, scores: np.ndarray) -> np.ndarray:
    return missing_probability(found.entity(scores)[:, None], np.array(found.shares))[:, 0]


def simulated(share: float, seed: int, count: int = 20_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of a model that is too sure of itself, what is an entity, and what is annotated."""
    generator = np.random.default_rng(seed)
    logit = generator.normal(-2, 3, count)
    bent = 0.8 * np.minimum(logit, 0) + 1.4 * np.maximum(logit, 0)
    entity = generator.random(count) < 1 / (1 + np.exp(-(bent + 0.5)))
    return 1 / (1 + np.exp(-logit)), entity, entity & (generator.random(count) < share)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.95])
def test_the_parameters_that_made_the_data_are_found_again(share: float) -> None:
    scores, _, annotated = simulated(share, seed=1)
    found = calibrate(scores, annotated, all_alike(scores))
    assert found.shares[0] == pytest.approx(share, rel=0.12)
    assert found.low_slope == pytest.approx(0.8, abs=0.15)
    assert found.high_slope == pytest.approx(1.4, abs=0.5)
    assert found.shift == pytest.approx(0.5, abs=0.35)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_the_number_of_missing_entities_is_estimated(share: float) -> None:
    scores, entity, annotated = simulated(share, seed=2)
    found = calibrate(scores, annotated, all_alike(scores))
    assert missing(found, scores[~annotated]).sum() == pytest.approx((entity & ~annotated).sum(), rel=0.15)


def test_what_is_said_to_be_missing_with_a_probability_is_missing_as_often() -> None:
    scores, entity, annotated = simulated(0.5, seed=3, count=200_000)
    probability = missing(calibrate(scores, annotated, all_alike(scores)), scores)
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        chosen = ~annotated & (probability >= low) & (probability < low + 0.2)
        assert entity[chosen].mean() == pytest.approx(probability[chosen].mean(), abs=0.06)


def test_a_weight_counts_as_often_as_it_says() -> None:
    scores, _, annotated = simulated(0.5, seed=4, count=500)
    times = np.random.default_rng(1).integers(0, 4, 500)
    weighted = calibrate(scores, annotated, all_alike(scores), times.astype(float))
    repeated = calibrate(np.repeat(scores, times), np.repeat(annotated, times), np.repeat(all_alike(scores), times, 0))
    assert weighted.shares[0] == pytest.approx(repeated.shares[0], abs=0.01)
    assert weighted.low_slope == pytest.approx(repeated.low_slope, abs=0.02)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30))
def test_whatever_the_data_probabilities_are_probabilities(data: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in data])
    annotated = np.array([flag for _, flag in data], dtype=bool)
    found = calibrate(scores, annotated, all_alike(scores))
    assert 0 < found.shares[0] < 1
    for values in (found.entity(scores), missing(found, scores)):
        assert ((values >= 0) & (values <= 1)).all()


def test_where_nearly_everything_is_annotated_nearly_nothing_is_missing() -> None:
    assert missing_probability(np.array([[0.9]]), np.array([0.999])).item() < 0.01
    assert missing_probability(np.array([[0.9]]), np.array([0.001])).item() > 0.89
    assert missing(Calibration(1.0, 1.0, 0.0, (0.5,)), np.array([0.5]))[0] == pytest.approx(1 / 3)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    st.floats(0, 1),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_what_is_not_annotated_has_the_label_that_bayes_rule_says(
    weights: list[float], entity: float, shares: list[float]
) -> None:
    """Over all that a span may be, and whether it is annotated: what is left without the annotated ones."""
    split = np.array(weights) + 1e-3
    p = entity * split / split.sum()
    silent = [1 - entity, *((1 - share) * own for share, own in zip(shares, p.tolist(), strict=False))]
    found = missing_probability(p[None], np.array(shares[: len(p)]))[0]
    if sum(silent) > 1e-3:
        assert found == pytest.approx([each / sum(silent) for each in silent[1:]])


def test_labels_may_be_annotated_more_or_less_often() -> None:
    scores, entity, _ = simulated(1.0, seed=5)
    generator = np.random.default_rng(2)
    labels = generator.integers(0, 3, len(scores))
    shares = np.array([0.9, 0.5, 0.2])
    annotated = entity & (generator.random(len(scores)) < shares[labels])
    assert calibrate(scores, annotated, certain(labels, 3)).shares == pytest.approx(shares, rel=0.15)


def test_ambiguous_labels_do_not_pass_for_gaps() -> None:
    """A span counts for each label as much as it is probable: by its best label alone, 0.9 would come out as 0.82."""
    scores, entity, _ = simulated(1.0, seed=7)
    generator = np.random.default_rng(3)
    among = generator.dirichlet([0.6, 0.6], len(scores))
    labels = (generator.random(len(scores)) < among[:, 1]).astype(np.int64)
    shares = np.array([0.9, 0.3])
    annotated = entity & (generator.random(len(scores)) < shares[labels])
    seen = np.where(annotated[:, None], certain(labels, 2), among)
    assert calibrate(scores, annotated, seen).shares == pytest.approx(shares, rel=0.05)


def test_scores_that_differ_between_labels_do_not_pass_for_gaps() -> None:
    scores = np.concatenate([np.full(500, 0.999), np.full(500, 0.96), np.full(1000, 0.03)])
    labels = np.concatenate([np.zeros(500, dtype=np.int64), np.ones(1500, dtype=np.int64)])
    annotated = np.concatenate([np.ones(500, dtype=bool), np.arange(500) < 350, np.zeros(1000, dtype=bool)])
    found = calibrate(scores, annotated, certain(labels, 2))
    entity = found.entity(scores)[:, None] * np.eye(2)[labels]
    expected = missing_probability(entity, np.array(found.shares))[~annotated].sum()
    assert expected == pytest.approx(150, rel=0.15)


def test_a_label_with_hardly_any_spans_is_like_the_others() -> None:
    scores, _, annotated = simulated(0.4, seed=6)
    labels = (np.arange(len(scores)) == np.flatnonzero(annotated)[0]).astype(np.int64)
    assert calibrate(scores, annotated, certain(labels, 2)).shares[1] < 0.75, "although all one of them are annotated"


def test_a_handful_of_spans_hardly_moves_the_scores_and_thousands_do() -> None:
    """The strength of the prior: without data, scores are right as they are; much data outvotes it."""
    untouched = calibrate(np.zeros(0), np.zeros(0, dtype=bool), np.zeros((0, 1)))
    assert (untouched.low_slope, untouched.high_slope, untouched.shift) == pytest.approx((1.0, 1.0, 0.0), abs=1e-6)
    scores = {n: np.full(n, 0.1) for n in (2, 5000)}  # all of them annotated, which a score of 0.1 does not let expect
    few, many = (calibrate(low, np.ones(len(low), dtype=bool), all_alike(low)) for low in scores.values())
    assert few.entity(np.array([0.1]))[0] < 0.25
    assert many.entity(np.array([0.1]))[0] > 0.9


def test_what_looks_more_like_an_entity_is_never_less_probably_one() -> None:
    """Where the annotation says the opposite, slopes become as flat as they may be, and no flatter."""
    scores = np.concatenate([np.full(500, 0.05), np.full(500, 0.4)])
    fitted = calibrate(scores, np.arange(1000) < 500, all_alike(scores))
    assert fitted.low_slope == pytest.approx(0.1)
    assert np.all(np.diff(fitted.entity(np.linspace(0.01, 0.99, 50))) > 0)


def test_the_priors_cost_what_the_formula_says() -> None:
    """Without spans the log-likelihood is the prior: 10 for slopes and shift, 0.05 for each logit, 0.5 between labels."""
    nothing = _Spans(np.zeros((3, 0)), np.zeros(0, dtype=bool), np.zeros((0, 2)), np.zeros(0))
    value, gradient, curvature = _likelihood(np.array([1.5, 0.0, 2.0, 1.0, -1.0]), nothing)
    assert value == pytest.approx(-(10 * (0.5**2 + 1.0**2 + 2.0**2) + 0.05 * (1 + 1) + 0.5 * (1 + 1)) / 2)
    assert gradient == pytest.approx([-5.0, 10.0, -20.0, -0.55, 0.55])
    assert np.diag(curvature)[:3] == pytest.approx([10.0, 10.0, 10.0])


def test_the_gradient_is_that_of_finite_differences() -> None:
    scores, _, annotated = simulated(0.5, seed=7, count=300)
    generator = np.random.default_rng(3)
    spans = _Spans(_bent(scores), annotated, generator.dirichlet([0.5, 0.5], 300), generator.random(300))
    parameters = generator.normal(size=5)
    _, gradient, curvature = _likelihood(parameters, spans)
    for place in range(5):
        step = 1e-6 * np.eye(5)[place]
        slope = (_likelihood(parameters + step, spans)[0] - _likelihood(parameters - step, spans)[0]) / 2e-6
        assert gradient[place] == pytest.approx(slope, rel=1e-4)
    assert (np.linalg.eigvalsh(curvature) > 0).all()
