import math
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from lacuner.analysis.bound import (
    SentenceCounts,
    as_many_as_allowed,
    bound_by_length,
    bound_is_proved,
    first_informative_length,
    lower_bound,
    mean_probability,
    negatives_drawn,
    probability_of_zero_missampling,
    theoretical_curve,
    with_assumed_fraction,
)
from lacuner.methods.parts import SamplingContext, Step
from lacuner.methods.uniform import Uniform
from lacuner.supervision.spans import enumerate_spans

ratios = st.sampled_from(["0.001", "0.1", "0.35", "0.7", "1", "1.1", "3"])


def slowly(n: int, m: int, hidden: int, ratio: str) -> Fraction:
    """The paper's product, in fractions; where no span is left, no more are drawn."""
    q = Fraction(1)
    for t in range(math.ceil(Fraction(ratio) * n)):
        left = Fraction(n * (n + 1), 2) - m - t
        if left > 0:
            q *= 1 - Fraction(hidden) / left
    return q


@given(st.integers(1, 60), st.data(), ratios)
def test_the_probability_is_exact(n, data, ratio):
    spans = n * (n + 1) // 2
    m = data.draw(st.integers(0, min(spans, 2 * n)))
    hidden = data.draw(st.integers(0, min(spans - m, 2 * n)))
    found = probability_of_zero_missampling(SentenceCounts(n, m, hidden), float(ratio))
    assert 0 <= found <= 1
    assert found == pytest.approx(float(slowly(n, m, hidden, ratio)), rel=1e-12, abs=0)


@pytest.mark.parametrize(("n", "hidden"), [(2_000, 44), (20_000, 141)])
def test_long_sentences_lose_no_digits(n, hidden):
    found = probability_of_zero_missampling(SentenceCounts(n, 0, hidden), 0.35)
    assert found == pytest.approx(float(slowly(n, 0, hidden, "0.35")), rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "ratio", "expected"),
    [
        (SentenceCounts(1, 1, 0), 0.35, 1.0),  # nothing to draw from, nothing hidden
        (SentenceCounts(1, 0, 1), 0.35, 0.0),  # the only span is hidden, and is drawn
        (SentenceCounts(2, 1, 1), 5.0, 0.0),  # more is asked for than there is
        (SentenceCounts(2, 3, 0), 5.0, 1.0),
        (SentenceCounts(3, 0, 2.5), 2.0, 0.0),  # a fraction must not make a factor negative
    ],
)
def test_where_all_spans_are_drawn_hidden_ones_are(counts, ratio, expected):
    assert probability_of_zero_missampling(counts, ratio) == expected


def test_it_is_how_often_the_sampler_draws_no_hidden_entity():
    n, hidden, repetitions = 6, {(0, 1), (2, 4)}, 4_000
    lengths = torch.full((repetitions,), n)
    spans = enumerate_spans(lengths)
    step = Step(0, 1, torch.Generator().manual_seed(1))
    drawn = spans[Uniform(ratio=0.5).sample(SamplingContext(spans, spans[:0], lengths, None, None, step, {}))]
    rows = zip(drawn.row.tolist(), drawn.start.tolist(), drawn.end.tolist(), strict=True)
    missed = {row for row, start, end in rows if (start, end) in hidden}
    expected = probability_of_zero_missampling(SentenceCounts(n, 0, 2), 0.5)
    assert 1 - len(missed) / repetitions == pytest.approx(expected, abs=0.03)


@given(st.integers(1, 3_000), ratios)
def test_as_many_are_drawn_as_the_sampler_draws(n, ratio):
    assert negatives_drawn(n, float(ratio)) == Uniform(ratio=float(ratio)).counts(torch.tensor([n])).item()


@given(st.integers(2, 3_000), st.floats(0.0001, 1), st.floats(0, 1))
def test_the_bound_holds_where_it_is_proved(n, ratio, missing):
    assume(bound_is_proved(n, ratio))
    (row,) = theoretical_curve([n], ratio, missing)
    assert row.exact >= row.bound - 1e-12


@given(st.integers(1, 3_000), st.floats(0.0001, 1))
def test_it_is_proved_wherever_a_negative_is_asked_for(n, ratio):
    assume(ratio * n >= 1)
    assert bound_is_proved(n, ratio)


def test_with_a_tiny_ratio_the_paper_promises_too_much():
    (row,) = theoretical_curve([10], 0.001)
    assert row.exact < row.bound
    assert not bound_is_proved(10, 0.001)


@pytest.mark.parametrize("ratio", [0.01, 0.35, 0.5, 0.7, 1.0, 3.0])
def test_the_bound_says_nothing_about_short_sentences(ratio):
    start = first_informative_length(ratio)
    assert start == next(n for n in range(2, 999) if 1 - 4 * ratio * math.sqrt(n) / (n - 1) > 0)
    assert all(lower_bound(n, ratio) == 0 for n in range(start))
    bounds = [lower_bound(n, ratio) for n in range(start, 200)]
    assert bounds == sorted(bounds)
    assert bounds[0] > 0


def test_rows_are_means_over_the_sentences_of_a_length():
    sentences = [SentenceCounts(5, 1, 2), SentenceCounts(5, 1, 2), SentenceCounts(5, 0, 0), SentenceCounts(9, 4, 1)]
    short, long = bound_by_length([*sentences, SentenceCounts(0, 0, 0)], 0.35)
    q = float(slowly(5, 1, 2, "0.35"))
    assert (short.length, short.sentences, short.negatives) == (5, 3, 2)
    assert (short.annotated, short.hidden) == pytest.approx((2 / 3, 4 / 3))
    assert short.exact == pytest.approx((2 * q + 1) / 3)
    assert (short.dense, long.dense, short.exhausted) == (2, 1, 0)  # 3 > √5 twice, 5 > √9 once
    last = float(slowly(9, 4, 1, "0.35"))
    assert mean_probability([short, long]) == pytest.approx((2 * q + 1 + last) / 4)


def test_sentences_that_have_too_few_spans_are_counted():
    (row,) = bound_by_length([SentenceCounts(1, 1, 0), SentenceCounts(1, 0, 0)], 0.35)
    assert row.exhausted == 1
    assert row.vacuous


def test_theory_has_no_sentences_and_the_square_root_of_entities():
    row = theoretical_curve([16], 0.35, missing=0.75)[0]
    assert (row.sentences, row.annotated, row.hidden, row.dense, row.exhausted) == (0, 1, 3, 0, 0)
    assert row.exact == pytest.approx(float(slowly(16, 1, 3, "0.35")))


def test_assumptions_about_what_is_hidden():
    assert as_many_as_allowed(9, 1) == (9, 1, 2)
    assert as_many_as_allowed(9, 7) == (9, 7, 0)
    assumed = with_assumed_fraction([(5, 0), (5, 2), (8, 3)], 0.75)
    assert assumed == [(5, 0, 3), (5, 2, 3), (8, 3, 9)]
    assert with_assumed_fraction([(5, 2)], 0.0) == [(5, 2, 0)]
