import math
from collections import Counter
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.errors import ConfigError
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import SamplingContext, Step
from lacuner.methods.registry import registry
from lacuner.methods.uniform import METHODS, Uniform, largest_of_each_row, rounded_up
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans, build_targets

LABELS = ("O", "PER", "LOC")


@st.composite
def sentences_with_gaps(draw: st.DrawFn) -> Sentence:
    length = draw(st.integers(1, 9))
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    places = draw(st.lists(st.sampled_from(every), max_size=len(every)))
    rejected = [Span(*place) for place in draw(st.lists(st.sampled_from(every), max_size=9)) if place not in places]
    return Sentence(
        ("w",) * length,
        tuple(Entity(start, end, draw(st.sampled_from(LABELS[1:]))) for start, end in places),
        tuple(rejected),
        complete=draw(st.booleans()),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1))),
    )


def drawn(sentences: list[Sentence], ratio: float, seed: int) -> list[tuple[int, int, int]]:
    targets = build_targets(sentences, LABELS)
    parts = targets.partition()
    step = Step(0, 1, torch.Generator().manual_seed(seed))
    context = SamplingContext(parts.unknown, parts.positives, targets.lengths, None, None, step, {})
    spans = parts.unknown[Uniform(ratio=ratio).sample(context)]
    return list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))


@settings(deadline=None)
@given(
    st.lists(sentences_with_gaps(), min_size=1, max_size=4),
    st.sampled_from(["0.001", "0.01", "0.35", "0.7", "1.1", "5", "100"]),
    st.integers(0, 10**6),
)
def test_exactly_the_ceiling_of_lambda_n_unknown_spans_are_drawn_once_each(
    sentences: list[Sentence], ratio: str, seed: int
) -> None:
    found = drawn(sentences, float(ratio), seed)
    assert len(found) == len(set(found))
    counts = Counter(row for row, _, _ in found)
    for row, sentence in enumerate(sentences):
        unknown = {
            (row, start, end)
            for start in range(len(sentence))
            for end in range(start + 1, len(sentence) + 1)
            if sentence.possible_labels(start, end, LABELS[1:]) == frozenset(LABELS)
        }
        assert {span for span in found if span[0] == row} <= unknown
        assert counts[row] == min(math.ceil(Fraction(ratio) * len(sentence)), len(unknown))


def test_annotated_rejected_and_trusted_spans_are_never_drawn() -> None:
    gaps = Sentence(("a",) * 3, (Entity(0, 1, "PER"),), (Span(1, 3),))
    trusted = Sentence(("a",) * 3, (Entity(0, 1, "PER"),), complete=True)
    for seed in range(20):
        found = drawn([gaps, trusted], 100.0, seed)
        assert sorted(found) == [(0, 0, 2), (0, 0, 3), (0, 1, 2), (0, 2, 3)]


@pytest.mark.parametrize("ratio", ["0.07", "0.35", "0.55", "0.7", "1.1"])
def test_rounding_of_floats_never_adds_a_negative(ratio: str) -> None:
    lengths = range(1, 500)
    expected = [math.ceil(Fraction(ratio) * length) for length in lengths]
    assert Uniform(ratio=float(ratio)).counts(torch.tensor(lengths)).tolist() == expected


def test_the_same_generator_draws_the_same_and_another_draws_others() -> None:
    sentences = [Sentence(("w",) * 12) for _ in range(5)]
    assert drawn(sentences, 0.35, 1) == drawn(sentences, 0.35, 1)
    assert set(drawn(sentences, 0.35, 1)) != set(drawn(sentences, 0.35, 2))


def test_a_generator_that_continues_draws_others() -> None:
    targets = build_targets([Sentence(("w",) * 20)], LABELS)
    parts = targets.partition()
    context = SamplingContext(
        parts.unknown, parts.positives, targets.lengths, None, None, Step(0, 1, torch.Generator().manual_seed(1)), {}
    )
    assert set(Uniform().sample(context).tolist()) != set(Uniform().sample(context).tolist())


def test_drawing_does_not_touch_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    drawn([Sentence(("w",) * 20)], 0.35, 1)
    assert torch.rand(1).equal(expected)


def test_all_subsets_are_equally_likely() -> None:
    sentences = 9_000
    found = drawn([Sentence(("w",) * 4)] * sentences, 0.5, 42)  # 2 of 10 spans in each
    subsets: dict[int, list[tuple[int, int]]] = {}
    for row, start, end in found:
        subsets.setdefault(row, []).append((start, end))
    counts = Counter(tuple(sorted(pair)) for pair in subsets.values())
    assert len(counts) == math.comb(10, 2) == 45
    expected = sentences / 45
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_squared < 78.7, "the 99.9th percentile with 44 degrees of freedom"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=30), st.lists(st.integers(0, 6), min_size=5))
def test_the_largest_of_each_row_are_those_that_sorting_gives(pairs: list[tuple[int, int]], counts: list[int]) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[0])
    row = torch.tensor([pair[0] for pair in pairs], dtype=torch.long)
    keys = torch.tensor([pair[1] for pair in pairs], dtype=torch.float64)
    expected = []
    for number, count in enumerate(counts):
        own = [index for index in range(len(pairs)) if pairs[index][0] == number]
        expected += sorted(own, key=lambda index: (-pairs[index][1], index))[:count]
    assert largest_of_each_row(keys, row, torch.tensor(counts)).tolist() == expected


def test_no_unknown_spans_draw_nothing() -> None:
    context = SamplingContext(
        Spans.of([]), Spans.of([]), torch.tensor([3, 4]), None, None, Step(0, 1, torch.Generator()), {}
    )
    assert Uniform().sample(context).tolist() == []


@pytest.mark.parametrize("rate", ["0.07", "0.29", "1.1", "3"])
def test_rounding_up_is_that_of_fractions(rate: str) -> None:
    counts = torch.arange(300)
    expected = [math.ceil(Fraction(rate) * count) for count in range(300)]
    assert rounded_up(counts * float(rate)).tolist() == expected


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.negatives) == ("uniform", Uniform(ratio=0.35))


@pytest.mark.parametrize("ratio", [-1, 0, math.inf, math.nan])
@pytest.mark.parametrize("name", ["uniform", "weighted"])
def test_a_lambda_that_draws_nothing_or_has_no_end_is_refused(name: str, ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"negatives\.ratio"):
        build_part("negatives", {"name": name, "ratio": ratio}, registry().choices("negatives", SpanMethod))
