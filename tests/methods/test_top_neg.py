import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import SpanScores, WidthConfig
from lacuner.heads.scores import SEARCH_CHUNK
from lacuner.methods.full import CrossEntropy
from lacuner.methods.parts import SamplingContext, Step
from lacuner.methods.top_neg import METHODS, TopSimilar, mean_similarity
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans


def numbered(begin: int, end: int) -> Spans:
    """Spans that are told apart by where they start."""
    start = torch.arange(begin, end)
    return Spans(torch.zeros_like(start), start, start + 1)


def looked_up(vectors: Tensor) -> Callable[[Spans], Tensor]:
    return lambda spans: vectors[spans.start]


def context_of(layers: Tensor, features: Tensor, positives: int, seed: int = 0) -> SamplingContext:
    """The first spans are the positives, all others unknown."""

    def score(spans: Spans, hidden: bool = False) -> SpanScores:
        return SpanScores(torch.zeros(len(spans), 2), layers[spans.start] if hidden else None)

    step = Step(0, 1, torch.Generator().manual_seed(seed))
    unknown = numbered(positives, len(layers))
    return SamplingContext(
        unknown, numbered(0, positives), torch.tensor([len(layers)]), score, looked_up(features), step, {}
    )


def slow_mean_cosine(vectors: list[list[float]], positives: int, place: int) -> float:
    def cosine(one: list[float], other: list[float]) -> float:
        lengths = math.sqrt(sum(value**2 for value in one)) * math.sqrt(sum(value**2 for value in other))
        return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0

    return sum(cosine(vectors[place], vectors[positive]) for positive in range(positives)) / positives


def random_vectors(count: int, size: int, seed: int, zeros: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(count, size, dtype=torch.float64, generator=generator)
    vectors *= torch.rand(count, 1, dtype=torch.float64, generator=generator) * 10  # not only their direction differs
    if zeros:
        vectors[torch.rand(count, generator=generator) < 0.3] = 0
    return vectors


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 12), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
def test_the_similarity_is_the_mean_of_the_cosines_to_all_positives(
    positives: int, others: int, size: int, zeros: bool, seed: int
) -> None:
    vectors = random_vectors(positives + others, size, seed, zeros)
    found = mean_similarity(looked_up(vectors), numbered(0, positives), numbered(positives, positives + others))
    values = vectors.tolist()
    expected = [slow_mean_cosine(values, positives, place) for place in range(positives, positives + others)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.sampled_from(["0.001", "0.05", "0.29", "0.5", "0.99", "1"]),
    st.sampled_from(["hidden", "representation"]),
    st.integers(0, 10**6),
)
def test_the_spans_most_like_the_positives_are_drawn(
    positives: int, unknown: int, fraction: str, similarity: str, seed: int
) -> None:
    hidden, features = random_vectors(positives + unknown, 3, seed), random_vectors(positives + unknown, 4, seed + 1)
    method = TopSimilar(fraction=float(fraction), similarity=similarity)
    found = method.sample(context_of(hidden, features, positives)).tolist()
    values = (hidden if similarity == "hidden" else features).tolist()
    cosines = [slow_mean_cosine(values, positives, positives + place) for place in range(unknown)]
    count = max(1, math.floor(Fraction(fraction) * unknown))
    assert len(found) == len(set(found)) == count
    assert sorted(found) == sorted(sorted(range(unknown), key=lambda place: -cosines[place])[:count])


def test_hidden_layers_are_compared_unless_the_paper_is_followed_to_the_letter() -> None:
    hidden, features = torch.eye(3)[[0, 0, 1]], torch.eye(3)[[0, 1, 0]]
    context = context_of(hidden, features, 1)
    assert TopSimilar().sample(context).tolist() == [0]
    assert TopSimilar(similarity="representation").sample(context).tolist() == [1]


@pytest.mark.parametrize("fraction", ["0.05", "0.07", "0.29", "0.57", "0.7"])
def test_rounding_of_floats_never_takes_a_negative_away(fraction: str) -> None:
    for unknown in range(300):
        context = context_of(torch.zeros(unknown, 1), torch.zeros(unknown, 1), 0)
        expected = min(unknown, max(1, math.floor(Fraction(fraction) * unknown)))
        assert len(TopSimilar(fraction=float(fraction)).sample(context)) == expected


@pytest.mark.parametrize("similarity", ["hidden", "representation"])
@pytest.mark.parametrize("positives", [0, 3])
def test_where_nothing_is_unknown_nothing_is_drawn(similarity: str, positives: int) -> None:
    vectors = random_vectors(positives, 2, 0)
    assert TopSimilar(similarity=similarity).sample(context_of(vectors, vectors, positives)).tolist() == []


def test_without_positives_the_draw_is_random_and_comes_from_the_generator() -> None:
    vectors = random_vectors(100, 2, 0)
    first, again, other = (TopSimilar(fraction=0.1).sample(context_of(vectors, vectors, 0, seed)) for seed in (1, 1, 2))
    assert first.equal(again)
    assert set(first.tolist()) != set(other.tolist())
    assert len(set(first.tolist())) == 10


def test_without_positives_every_span_is_as_likely_as_another() -> None:
    context = context_of(torch.zeros(10, 1), torch.zeros(10, 1), 0, seed=1)
    counts = torch.zeros(10)
    for _ in range(2000):
        counts[TopSimilar(fraction=0.3).sample(context)] += 1
    assert ((counts - 600).square() / 600).sum() < 35, "less than chi-squared with 9 degrees of freedom, at 1e-4"


def test_with_positives_nothing_is_random() -> None:
    vectors = random_vectors(50, 3, 0)
    context = context_of(vectors, vectors, 4)
    before = context.step.generator.get_state()
    assert TopSimilar().sample(context).equal(TopSimilar().sample(context))
    assert context.step.generator.get_state().equal(before)


@pytest.mark.parametrize("similarity", ["hidden", "representation"])
def test_the_selection_carries_no_gradient(similarity: str) -> None:
    vectors = random_vectors(30, 3, 0).requires_grad_()
    states = []

    def watched(spans: Spans) -> Tensor:
        states.append(torch.is_grad_enabled())
        return vectors[spans.start]

    context = SamplingContext(
        numbered(5, 30),
        numbered(0, 5),
        torch.tensor([30]),
        lambda spans, hidden=False: SpanScores(torch.zeros(len(spans), 2), watched(spans) if hidden else None),
        watched,
        Step(0, 1, torch.Generator()),
        {},
    )
    assert not TopSimilar(similarity=similarity).sample(context).requires_grad
    assert states
    assert not any(states)


@pytest.mark.parametrize("similarity", ["hidden", "representation"])
def test_so_many_spans_that_pairs_would_not_fit_are_compared_a_few_at_a_time(
    similarity: str, small_tensors: Any
) -> None:
    positives, unknown, size = 1_000, 50_000, 32
    vectors = random_vectors(positives + unknown, size, 0).float()
    asked: list[int] = []

    def watched(spans: Spans) -> Tensor:
        asked.append(len(spans))
        return vectors[spans.start]

    context = SamplingContext(
        numbered(positives, positives + unknown),
        numbered(0, positives),
        torch.tensor([positives + unknown]),
        lambda spans, hidden=False: SpanScores(torch.zeros(len(spans), 2), watched(spans) if hidden else None),
        watched,
        Step(0, 1, torch.Generator()),
        {},
    )
    began = time.process_time()
    with small_tensors(SEARCH_CHUNK * size):  # neither all vectors nor their products with each positive
        found = TopSimilar(similarity=similarity).sample(context)
    seconds = time.process_time() - began
    assert len(found) == 2_500
    assert max(asked) <= SEARCH_CHUNK
    assert sum(asked) == positives + unknown
    assert seconds < 2


def test_the_best_of_several_chunks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = random_vectors(103, 3, 0)
    expected = TopSimilar(fraction=0.2).sample(context_of(vectors, vectors, 3))
    monkeypatch.setattr("lacuner.methods.top_neg.SEARCH_CHUNK", 7)
    assert TopSimilar(fraction=0.2).sample(context_of(vectors, vectors, 3)).equal(expected)


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.negatives) == ("top-neg", TopSimilar(fraction=0.05, similarity="hidden"))
    assert method.loss == CrossEntropy()
    assert method.head == WidthConfig(max_span_width=8)


@pytest.mark.parametrize(
    ("key", "value"), [("fraction", 0), ("fraction", 1.1), ("fraction", -1), ("similarity", "words")]
)
def test_impossible_fractions_and_unknown_similarities_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        build_part("negatives", {"name": "top-similar", key: value}, {"top-similar": TopSimilar})
