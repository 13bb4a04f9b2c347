import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import ProductConfig, SpanScores
from lacuner.methods import scl_rai
from lacuner.methods.full import CrossEntropy
from lacuner.methods.parts import StateSizes, Step, TrainingData
from lacuner.methods.scl_rai import METHODS, Prototypes, SpanContrast
from lacuner.methods.uniform import Uniform
from lacuner.parts import build_part

STEP = Step(0, 1, torch.Generator())


def slow_cosine(one: list[float], other: list[float]) -> float:
    lengths = math.sqrt(sum(value**2 for value in one)) * math.sqrt(sum(value**2 for value in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


def slow_contrast(hidden: Tensor, label: Tensor, method: SpanContrast) -> float:
    """``-Σ_l Σ_{a ∈ D_l} 1/(N_l - 1) Σ_{b ∈ D_l, b≠a} log( exp(d_ab/τ) / Σ_m exp(d_am/τ) )``, as a mean over the anchors
    that have both another span of their label and one of another label; ``m`` is any other span, or one of another label.
    """
    vectors, labels = hidden.tolist(), label.tolist()
    places = [place for place in range(len(labels)) if method.contrast_non_entities or labels[place] != 0]
    total, anchors = 0.0, 0
    for a in places:
        same = [b for b in places if labels[b] == labels[a] and b != a]
        others = [m for m in places if labels[m] != labels[a]]
        if not same or not others:
            continue
        anchors += 1
        compared = others if method.denominator == "others" else [m for m in places if m != a]
        below = sum(math.exp(slow_cosine(vectors[a], vectors[m]) / method.temperature) for m in compared)
        for b in same:
            above = math.exp(slow_cosine(vectors[a], vectors[b]) / method.temperature)
            total -= math.log(above / below) / len(same)
    return total / anchors if anchors else 0.0


def random_spans(spans: int, labels: int, size: int, seed: int, zeros: bool = False) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(spans, size, dtype=torch.float64, generator=generator)
    if zeros:
        hidden[torch.rand(spans, generator=generator) < 0.4] = 0
    return hidden, torch.randint(labels, (spans,), generator=generator)


def value_and_gradient(method: SpanContrast, hidden: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    hidden = hidden.clone().requires_grad_()
    loss = method(hidden, label, STEP, {})
    loss.backward()
    return loss.detach(), hidden.grad


def assert_is_the_slow_one(method: SpanContrast, hidden: Tensor, label: Tensor) -> None:
    loss, gradient = value_and_gradient(method, hidden, label)
    assert loss.item() == pytest.approx(slow_contrast(hidden, label, method), rel=1e-8, abs=1e-9)
    assert gradient.isfinite().all()


CONTRASTS = st.builds(
    SpanContrast,
    temperature=st.sampled_from([0.05, 0.1, 1.0, 10.0]),
    contrast_non_entities=st.booleans(),
    denominator=st.sampled_from(["all", "others"]),
)


@settings(deadline=None, max_examples=150)
@given(CONTRASTS, st.integers(0, 14), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
def test_the_contrast_is_the_loop_of_the_paper(
    method: SpanContrast, spans: int, labels: int, size: int, zeros: bool, seed: int
) -> None:
    assert_is_the_slow_one(method, *random_spans(spans, labels, size, seed, zeros))


@pytest.mark.parametrize("non_entities", [True, False])
@pytest.mark.parametrize(
    "labels",
    [
        [],
        [0],
        [2],
        [0, 0, 0],
        [3, 3, 3],
        [0, 1],
        [0, 1, 2, 3],
        [0, 0, 1],
        [0, 1, 1],
        [2, 2, 1],
        [0, 0, 1, 2],
        [1, 1, 4, 4],
    ],
    ids=str,
)
def test_labels_that_occur_once_or_alone_add_nothing_and_no_nan(labels: list[int], non_entities: bool) -> None:
    hidden, _ = random_spans(len(labels), 1, 3, 1)
    method = SpanContrast(contrast_non_entities=non_entities)
    assert_is_the_slow_one(method, hidden, torch.tensor(labels, dtype=torch.long))


@pytest.mark.parametrize("labels", [[], [0], [2], [0, 0, 0], [3, 3], [0, 1, 2]], ids=str)
def test_where_no_anchor_counts_the_contrast_is_zero_and_teaches_nothing(labels: list[int]) -> None:
    hidden, _ = random_spans(len(labels), 1, 3, 1)
    loss, gradient = value_and_gradient(SpanContrast(), hidden, torch.tensor(labels, dtype=torch.long))
    assert loss == 0
    assert not gradient.any()


@settings(deadline=None, max_examples=20)
@given(CONTRASTS, st.integers(2, 7), st.integers(0, 10**6))
def test_the_gradient_is_that_of_finite_differences(method: SpanContrast, spans: int, seed: int) -> None:
    hidden, label = random_spans(spans, 3, 3, seed)
    assert torch.autograd.gradcheck(lambda vectors: method(vectors, label, STEP, {}), (hidden.requires_grad_(),))


def test_in_single_precision_vectors_of_zeros_and_opposites_stay_finite() -> None:
    label = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    one = torch.tensor([1.0, 0.0])
    hidden = torch.stack([one, -one, one * 0, one * 1e-20, one * 1e15, -one, one])
    for temperature in (1e-3, 0.1):
        loss, gradient = value_and_gradient(SpanContrast(temperature=temperature), hidden, label)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_the_denominator_runs_over_all_other_spans_or_over_other_labels_only() -> None:
    """Two spans of a label and one that is at right angles to both."""
    hidden, label = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), torch.tensor([1, 1, 0])
    released = SpanContrast(temperature=0.5)(hidden, label, STEP, {}).item()
    assert released == pytest.approx(-math.log(math.exp(2) / (math.exp(2) + 1)), abs=1e-6)
    printed = SpanContrast(temperature=0.5, denominator="others")(hidden, label, STEP, {}).item()
    assert printed == pytest.approx(-2.0, abs=1e-6)


def test_as_released_it_is_never_negative_and_as_printed_it_is() -> None:
    label = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    clusters = torch.eye(4, dtype=torch.float64)[label]
    assert 0 < SpanContrast()(clusters, label, STEP, {}) < 1
    assert SpanContrast(denominator="others")(clusters, label, STEP, {}) < -5


@pytest.mark.parametrize("denominator", ["all", "others"])
def test_more_pairs_than_fit_are_compared_piece_by_piece(denominator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, label = random_spans(40, 3, 5, 0)
    method = SpanContrast(denominator=denominator)
    whole = value_and_gradient(method, hidden, label)
    monkeypatch.setattr(scl_rai, "_MAX_PAIRS", 100)
    torch.testing.assert_close(value_and_gradient(method, hidden, label), whole)


def test_the_loss_falls_when_a_label_moves_together_and_away_from_the_others() -> None:
    label = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    mixed, _ = random_spans(7, 1, 4, 0)
    apart = torch.eye(4, dtype=torch.float64)[label]
    assert SpanContrast()(apart, label, STEP, {}) < SpanContrast()(mixed, label, STEP, {})


def test_a_batch_twice_as_large_does_not_cost_twice_as_much() -> None:
    hidden, label = random_spans(40, 3, 5, 0)
    once = SpanContrast(temperature=1.0)(hidden, label, STEP, {}).item()
    twice = SpanContrast(temperature=1.0)(hidden.repeat(2, 1), label.repeat(2), STEP, {}).item()
    assert twice == pytest.approx(once + math.log(2), abs=0.2), "a mean over anchors, not a sum"


@pytest.mark.parametrize("non_entities", [True, False])
def test_non_entities_are_left_out_on_demand(non_entities: bool) -> None:
    hidden, label = random_spans(12, 3, 4, 3)
    assert (label == 0).any()
    method = SpanContrast(contrast_non_entities=non_entities)
    _, gradient = value_and_gradient(method, hidden, label)
    assert bool(gradient[label == 0].any()) is non_entities
    if not non_entities:
        kept = label != 0
        expected = SpanContrast()(hidden[kept], label[kept], STEP, {})
        torch.testing.assert_close(method(hidden, label, STEP, {}), expected)


@pytest.mark.parametrize("denominator", ["all", "others"])
def test_no_table_of_all_pairs_of_many_spans_is_made(small_tensors: Any, denominator: str) -> None:
    entities, others, size = 30, 8_000, 48
    hidden = torch.randn(entities + others, size, generator=torch.Generator().manual_seed(0)).requires_grad_()
    label = torch.cat([torch.arange(entities) % 4 + 1, torch.zeros(others, dtype=torch.long)])
    with small_tensors(scl_rai._MAX_PAIRS):
        loss = SpanContrast(denominator=denominator)(hidden, label, STEP, {})
        loss.backward()
    assert loss.isfinite()
    assert hidden.grad.isfinite().all()
    assert hidden.grad[entities:].any(1).all(), "every non-entity is an anchor"


def test_the_contrast_of_many_spans_in_single_precision_is_the_slow_one() -> None:
    hidden, label = random_spans(150, 3, 8, 5)
    found = SpanContrast()(hidden.float(), label, STEP, {}).item()
    assert found == pytest.approx(slow_contrast(hidden, label, SpanContrast()), abs=1e-4)


def in_batches(hidden: Tensor, label: Tensor, sizes: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(hidden.split(sizes), label.split(sizes), strict=True)


def fitted(spans: Iterable[tuple[Tensor, Tensor]], labels: int, size: int) -> dict[str, Tensor]:
    """What the prototypes of so many labels are, once these spans have been seen."""
    state = Prototypes().initial_state(StateSizes(labels, size))
    Prototypes().fit(spans, state)
    return state


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6))
def test_prototypes_are_the_means_of_each_label_however_the_spans_come(
    sizes: list[int], labels: int, size: int, seed: int
) -> None:
    hidden, label = random_spans(sum(sizes), labels, size, seed)
    hidden = hidden.float()
    state = fitted(in_batches(hidden, label, sizes), labels + 1, size)
    assert state["prototypes"].shape == (labels + 1, size)
    for number in range(labels + 1):
        own = [vector for vector, kind in zip(hidden.tolist(), label.tolist(), strict=True) if kind == number]
        assert bool(state["seen"][number]) == bool(own)
        mean = [sum(values) / len(own) for values in zip(*own, strict=True)] or [0.0] * size
        torch.testing.assert_close(state["prototypes"][number], torch.tensor(mean), rtol=1e-6, atol=1e-6)
    whole = fitted([(hidden, label)], labels + 1, size)
    torch.testing.assert_close(state["prototypes"], whole["prototypes"], rtol=1e-6, atol=1e-7)
    assert state["seen"].equal(whole["seen"])


def test_a_mean_of_very_many_spans_is_exact() -> None:
    hidden = torch.full((200_000, 1), 0.1)
    state = fitted(in_batches(hidden, torch.zeros(200_000, dtype=torch.long), [2_000] * 100), 2, 1)
    torch.testing.assert_close(state["prototypes"][0], hidden[0], rtol=1e-7, atol=0)


def slow_mixture(logits: Tensor, hidden: Tensor, prototypes: Tensor, seen: Tensor, alpha: float) -> list[list[float]]:
    """``(1 - α) softmax(V r) + α o_RA``, where ``o_RA`` is a softmax of cosines with 0 put in place of its first."""
    rows = []
    for row in range(len(logits)):
        powers = [math.exp(value) for value in logits[row].tolist()]
        attractions = [
            math.exp(slow_cosine(hidden[row].tolist(), prototypes[label].tolist())) if seen[label] else 0.0
            for label in range(len(powers))
        ]
        retrieved = [attraction / sum(attractions) for attraction in attractions]
        retrieved[0] = 0.0
        rows.append(
            [
                (1 - alpha) * power / sum(powers) + alpha * similarity
                for power, similarity in zip(powers, retrieved, strict=True)
            ]
        )
    return rows


@settings(deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 5),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_probabilities_are_the_mixture_of_the_paper(
    spans: int, labels: int, alpha: float, zeros: bool, unseen: bool, seed: int
) -> None:
    hidden, _ = random_spans(spans, 1, 4, seed, zeros)
    logits, _ = random_spans(spans, 1, labels, seed + 1)
    prototypes, _ = random_spans(labels, 1, 4, seed + 2)
    seen = torch.arange(labels) < labels - unseen
    prototypes[~seen] = 0
    found = Prototypes(alpha=alpha).probabilities(SpanScores(logits, hidden), {"prototypes": prototypes, "seen": seen})
    expected = slow_mixture(logits, hidden, prototypes, seen, alpha)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


SCORES = SpanScores(torch.tensor([[2.0, 1.0, -1.0], [0.0, 0.0, 9.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]]))


def state_of(vectors: list[list[float]], labels: list[int]) -> dict[str, Tensor]:
    return fitted([(torch.tensor(vectors), torch.tensor(labels))], 3, 2)


def test_nothing_is_retrieved_for_o_and_its_part_is_given_to_nobody() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2])
    found = Prototypes(alpha=0.5).probabilities(SCORES, state)
    classified = SCORES.logits.softmax(-1)
    torch.testing.assert_close(found[:, 0], 0.5 * classified[:, 0])
    similarities = torch.tensor([[0.0, 1.0, 0.5**0.5], [1.0, 0.0, 0.5**0.5]]).softmax(-1)
    torch.testing.assert_close(found.sum(-1), 1 - 0.5 * similarities[:, 0])


def test_a_label_that_was_never_seen_is_not_retrieved() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    assert state["seen"].tolist() == [True, True, False]
    found = Prototypes(alpha=0.9).probabilities(SCORES, state)
    assert found.isfinite().all()
    torch.testing.assert_close(found[:, 2], 0.1 * SCORES.logits.softmax(-1)[:, 2])


def test_a_prototype_at_the_origin_is_a_prototype() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 2.0]], [0, 1, 1, 2])
    assert state["seen"].all()
    found = Prototypes().probabilities(SCORES, state)
    assert found.isfinite().all()
    similarities = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).softmax(-1)
    torch.testing.assert_close(found[:, 1], 0.5 * SCORES.logits.softmax(-1)[:, 1] + 0.5 * similarities[:, 1])


def test_with_a_weight_of_zero_the_classifier_alone_decides() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2])
    found = Prototypes(alpha=0.0).probabilities(SCORES, state)
    torch.testing.assert_close(found, SCORES.logits.softmax(-1))


def test_an_entity_that_the_classifier_hesitates_about_is_found_by_its_prototype() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], [0, 1, 2])
    hesitant = SpanScores(torch.tensor([[0.1, 0.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    assert hesitant.logits.argmax() == 0
    assert Prototypes().probabilities(hesitant, state).argmax() == 1


def test_no_spans_have_no_probabilities() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2])
    empty = SpanScores(torch.empty(0, 3), torch.empty(0, 2))
    assert Prototypes().probabilities(empty, state).shape == (0, 3)


def test_before_anything_was_seen_the_classifier_alone_decides() -> None:
    state = Prototypes().initial_state(StateSizes(3, 2))
    assert {name: tuple(value.shape) for name, value in state.items()} == {"prototypes": (3, 2), "seen": (3,)}
    assert not state["seen"].any()
    torch.testing.assert_close(Prototypes(alpha=0.9).probabilities(SCORES, state), SCORES.logits.softmax(-1))


def test_prototypes_are_written_into_the_tensors_that_the_model_keeps() -> None:
    state = Prototypes().initial_state(StateSizes(3, 2))
    kept = dict(state)
    Prototypes().fit([(torch.tensor([[1.0, 3.0]]), torch.tensor([2]))], state)
    assert all(state[name] is tensor for name, tensor in kept.items())
    assert kept["prototypes"].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 3.0]]
    assert kept["seen"].tolist() == [False, False, True]


def test_prototypes_that_are_fitted_again_forget_what_was_seen_before() -> None:
    state = state_of([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    Prototypes().fit([(torch.tensor([[1.0, 3.0]]), torch.tensor([2]))], state)
    assert state["prototypes"].equal(state_of([[1.0, 3.0]], [2])["prototypes"])
    assert state["seen"].tolist() == [False, False, True]


def test_contrasting_entities_alone_needs_two_labels() -> None:
    (method,) = METHODS
    one = Corpus((Sentence(("Ada",), (Entity(0, 1, "PER"),)),))
    both = Corpus((*one, Sentence(("Turin",), (Entity(0, 1, "LOC"),))))
    alone = SpanContrast(contrast_non_entities=False)
    with pytest.raises(ConfigError, match=r"contrast\.contrast_non_entities=false .* there is only PER — leave it out"):
        alone.check(method, TrainingData(one, None))
    alone.check(method, TrainingData(both, None))
    SpanContrast().check(method, TrainingData(one, None))


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.head, method.negatives) == ("scl-rai", ProductConfig(hidden=256), Uniform())
    assert method.loss == CrossEntropy(reduction="mean"), "as the contrast, against which it is weighed"
    assert method.contrast == SpanContrast(weight=0.1, temperature=0.1, contrast_non_entities=True, denominator="all")
    assert method.inference == Prototypes(alpha=0.5)


@pytest.mark.parametrize("alpha", [-0.1, 1, 1.5])
def test_a_weight_that_leaves_nothing_to_the_classifier_is_refused(alpha: float) -> None:
    with pytest.raises(ConfigError, match=r"inference\.alpha"):
        build_part("inference", {"name": "prototypes", "alpha": alpha}, {"prototypes": Prototypes})


@pytest.mark.parametrize(("key", "value"), [("temperature", 0), ("temperature", -1), ("weight", 2)])
def test_impossible_contrasts_are_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        build_part("contrast", {"name": "span-contrast", key: value}, {"span-contrast": SpanContrast})
