import math
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import SpanScores
from lacuner.methods.parts import SamplingContext, Step
from lacuner.methods.uniform import Uniform
from lacuner.methods.weighted import METHODS, Weighted, sampling_scores
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans


def slow_probabilities(logits: Tensor) -> list[list[float]]:
    powers = [[math.exp(value - max(row)) for value in row] for row in logits.double().tolist()]
    return [[power / sum(row) for power in row] for row in powers]


def slow_score(z: list[float], mu: float) -> float:
    """``r = u (1 + v)^μ`` with ``v = z_O - max_l z_l`` and ``u = -Σ_l z_l log z_l``."""
    v = z[0] - max(z)
    u = -sum(share * math.log(share) for share in z if share > 0)
    return u * (1 + v) ** mu


@settings(deadline=None)
@given(
    st.integers(0, 9),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.5, 1.0, 8.0]),
    st.sampled_from([0.1, 3.0, 30.0]),
    st.integers(0, 10**6),
)
def test_sampling_scores_are_entropy_times_a_power_of_what_o_lacks(
    spans: int, labels: int, mu: float, scale: float, seed: int
) -> None:
    logits = scale * torch.randn(spans, labels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    expected = [slow_score(z, mu) for z in slow_probabilities(logits)]
    found = sampling_scores(logits, mu)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mu", [0.0, 0.5, 8.0])
def test_extreme_logits_have_finite_sampling_scores(mu: float) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [0.0, 120.0, 0.0]])
    found = sampling_scores(logits, mu)
    assert found.isfinite().all()
    assert (found >= 0).all()
    assert found[3].item() == pytest.approx(math.log(3))


def weighted_draws(
    logits: Tensor, lengths: list[int], method: Uniform, step: Step, asked: list[Spans] | None = None
) -> list[list[int]]:
    """What is drawn of sentences that all have the same unknown spans, with these logits: their numbers, row by row."""
    count = len(logits)
    row = torch.arange(len(lengths)).repeat_interleave(count)
    unknown = Spans(row, torch.arange(count).repeat(len(lengths)), torch.zeros_like(row))

    def score(spans: Spans) -> SpanScores:
        if asked is not None:
            asked.append(spans)
        return SpanScores(logits[spans.start], torch.empty(len(spans), 0))

    chosen = method.sample(SamplingContext(unknown, Spans.of([]), torch.tensor(lengths), score, None, step, {}))
    found = unknown[chosen]
    sentences: list[list[int]] = [[] for _ in lengths]
    for number, place in zip(found.row.tolist(), found.start.tolist(), strict=True):
        sentences[number].append(place)
    return sentences


def assert_follows(counts: Counter[int], expected: list[float]) -> None:
    """A chi-squared test (Wilson and Hilferty's percentile) that fails by chance once in 100,000 times."""
    total = sum(counts.values())
    assert min(expected) * total > 5
    statistic = sum((counts[place] - total * share) ** 2 / (total * share) for place, share in enumerate(expected))
    spread = 2 / (9 * (len(expected) - 1))
    assert statistic < (len(expected) - 1) * (1 - spread + NormalDist().inv_cdf(1 - 1e-5) * spread**0.5) ** 3


LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0], [1.0, 1.5, 0.0], [0.2, -0.1, 0.0], [-1.0, 2.0, 0.0]])
MANY = 20_000


@pytest.mark.parametrize(
    ("method", "epoch", "epochs", "temperature"),
    [
        (Weighted(ratio=0.01), 0, 4, 2.0),
        (Weighted(ratio=0.01), 8, 9, 1.0),
        (Weighted(ratio=0.01, mu=1.0), 1, 3, math.sqrt(2)),
        (Weighted(ratio=0.01, temperature=0.25), 0, 4, 0.25),
        (Weighted(ratio=0.01, mu=2.0, temperature=0.25), 3, 4, 0.25),
    ],
)
def test_the_first_span_drawn_follows_the_softmax_of_the_scores(
    method: Weighted, epoch: int, epochs: int, temperature: float
) -> None:
    powers = [math.exp(slow_score(z, method.mu) / temperature) for z in slow_probabilities(LOGITS)]
    step = Step(epoch, epochs, torch.Generator().manual_seed(1))
    found = weighted_draws(LOGITS, [1] * MANY, method, step)
    assert all(len(places) == 1 for places in found)
    assert_follows(Counter(place for (place,) in found), [power / sum(powers) for power in powers])


def test_further_spans_are_drawn_from_the_softmax_over_what_is_left() -> None:
    method = Weighted(ratio=0.02, mu=1.0, temperature=0.3)
    powers = [math.exp(slow_score(z, 1.0) / 0.3) for z in slow_probabilities(LOGITS)]
    expected = [
        powers[first] / sum(powers) * powers[second] / (sum(powers) - powers[first])
        for first in range(5)
        for second in range(5)
        if first != second
    ]
    pairs = [(first, second) for first in range(5) for second in range(5) if first != second]
    found = weighted_draws(LOGITS, [100] * MANY, method, Step(0, 1, torch.Generator().manual_seed(2)))
    assert all(len(set(places)) == 2 for places in found)
    assert_follows(Counter(pairs.index(tuple(places)) for places in found), expected)


@pytest.mark.parametrize(
    "method",
    [Weighted(ratio=0.02, mu=0.0, temperature=1e9), Weighted(ratio=0.02, temperature=1e9), Uniform(ratio=0.02)],
    ids=["no mu", "mu", "uniform itself"],
)
def test_at_a_huge_temperature_weighted_is_uniform(method: Uniform) -> None:
    found = weighted_draws(LOGITS, [100] * MANY, method, Step(0, 5, torch.Generator().manual_seed(3)))
    pairs = [(first, second) for first in range(5) for second in range(first + 1, 5)]
    counts = Counter(pairs.index(tuple(sorted(places))) for places in found)
    assert_follows(counts, [1 / len(pairs)] * len(pairs))


def test_at_a_low_temperature_the_most_uncertain_spans_are_drawn() -> None:
    method = Weighted(ratio=0.02, mu=0.0, temperature=1e-4)
    entropies = [slow_score(z, 0.0) for z in slow_probabilities(LOGITS)]
    expected = sorted(range(5), key=lambda place: -entropies[place])[:2]
    found = weighted_draws(LOGITS, [100] * 200, method, Step(4, 5, torch.Generator().manual_seed(3)))
    assert all(places == expected for places in found)


def test_a_temperature_that_is_not_given_is_the_root_of_the_epochs_that_are_left() -> None:
    def sampled(method: Weighted, epoch: int) -> list[list[int]]:
        return weighted_draws(LOGITS, [100] * 300, method, Step(epoch, 17, torch.Generator().manual_seed(4)))

    for epoch in (0, 8, 13, 16):
        fixed = Weighted(ratio=0.02, mu=1.0, temperature=math.sqrt(17 - epoch))
        assert sampled(Weighted(ratio=0.02, mu=1.0), epoch) == sampled(fixed, epoch)
    assert sampled(Weighted(ratio=0.02, mu=1.0), 0) != sampled(Weighted(ratio=0.02, mu=1.0), 16)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.sampled_from(["0.01", "0.35", "0.7", "1.1", "100"]),
    st.integers(0, 10**6),
)
def test_weighted_draws_the_ceiling_of_lambda_n_spans_once_each(lengths: list[int], ratio: str, seed: int) -> None:
    step = Step(0, 3, torch.Generator().manual_seed(seed))
    found = weighted_draws(LOGITS, lengths, Weighted(ratio=float(ratio)), step)
    for length, places in zip(lengths, found, strict=True):
        assert len(places) == len(set(places)) == min(5, math.ceil(Fraction(ratio) * length))


def test_weighted_draws_the_same_from_the_same_generator_and_others_from_one_that_continues() -> None:
    step = Step(0, 3, torch.Generator().manual_seed(5))
    first, second = (weighted_draws(LOGITS, [100] * 50, Weighted(ratio=0.02), step) for _ in range(2))
    again = weighted_draws(LOGITS, [100] * 50, Weighted(ratio=0.02), Step(0, 3, torch.Generator().manual_seed(5)))
    assert first == again != second


def test_weighted_asks_for_scores_without_a_gradient() -> None:
    states = []

    def score(spans: Spans) -> SpanScores:
        states.append(torch.is_grad_enabled())
        return SpanScores(torch.randn(len(spans), 3, requires_grad=True), torch.empty(len(spans), 0))

    context = SamplingContext(
        Spans.of([(0, 0, 1)]), Spans.of([]), torch.tensor([2]), score, None, Step(0, 1, torch.Generator()), {}
    )
    assert Weighted().sample(context).tolist() == [0]
    assert states == [False]


def test_where_nothing_is_unknown_weighted_draws_nothing() -> None:
    assert weighted_draws(LOGITS[:0], [3, 4], Weighted(), Step(0, 1, torch.Generator())) == [[], []]


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.negatives) == ("weighted", Weighted(ratio=0.35, mu=8.0, temperature=None))


@pytest.mark.parametrize(("key", "value"), [("mu", -1), ("temperature", 0), ("temperature", -2)])
def test_a_negative_mu_and_a_temperature_of_zero_are_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        build_part("negatives", {"name": "weighted", key: value}, {"weighted": Weighted})
