import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.errors import ConfigError
from lacuner.methods.full import METHODS, All, CrossEntropy, summed_cross_entropy
from lacuner.methods.parts import SamplingContext, Step
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans

STEP = Step(0, 1, torch.Generator())


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_the_loss_is_minus_the_log_of_the_summed_probability(spans: int, labels: int, seed: int) -> None:
    torch.manual_seed(seed)
    logits = 3 * torch.randn(spans, labels)
    possible = torch.rand(spans, labels) < 0.5
    possible[torch.arange(spans), torch.randint(labels, (spans,))] = True
    expected = []
    for row in range(spans):
        powers = [math.exp(value) for value in logits[row].tolist()]
        summed = sum(power for power, flag in zip(powers, possible[row].tolist(), strict=True) if flag)
        expected.append(-math.log(summed / sum(powers)))
    torch.testing.assert_close(summed_cross_entropy(logits, possible), torch.tensor(expected), rtol=1e-5, atol=1e-5)
    costs = CrossEntropy()(logits, possible, torch.rand(spans) < 0.5, STEP, {})
    torch.testing.assert_close(costs, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_the_loss_of_a_batch_is_divided_by_its_words_by_its_spans_or_by_nothing() -> None:
    costs, words = torch.tensor([1.0, 2.0, 6.0]), torch.tensor(12)
    reduced = {name: CrossEntropy(reduction=name).reduce(costs, words).item() for name in ("words", "mean", "sum")}
    assert reduced == {"words": 0.75, "mean": 3.0, "sum": 9.0}


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_with_one_possible_label_it_is_torchs_cross_entropy(spans: int, labels: int, seed: int) -> None:
    torch.manual_seed(seed)
    logits, label = 3 * torch.randn(spans, labels), torch.randint(labels, (spans,))
    possible = torch.nn.functional.one_hot(label, labels).bool()
    expected = torch.nn.functional.cross_entropy(logits, label, reduction="none")
    torch.testing.assert_close(summed_cross_entropy(logits, possible), expected, rtol=1e-5, atol=1e-5)


def test_a_span_that_may_be_anything_costs_nothing_and_teaches_nothing() -> None:
    logits = torch.randn(3, 4, requires_grad=True)
    cost = summed_cross_entropy(logits, torch.ones(3, 4, dtype=torch.bool))
    cost.sum().backward()
    torch.testing.assert_close(cost, torch.zeros(3))
    torch.testing.assert_close(logits.grad, torch.zeros(3, 4))


def test_extreme_logits_cost_a_finite_amount_and_have_finite_gradients() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    possible = torch.tensor([[True, False, False], [True, False, True]])
    cost = summed_cross_entropy(logits, possible)
    cost.sum().backward()
    torch.testing.assert_close(cost, torch.tensor([0.0, 1e4]))
    assert logits.grad.isfinite().all()


def test_all_samples_every_unknown_span_once() -> None:
    unknown = Spans.of([(0, 0, 1), (0, 1, 2), (2, 0, 3)])
    context = SamplingContext(unknown, Spans.of([]), torch.tensor([2, 0, 3]), None, None, STEP, {})
    assert All().sample(context).tolist() == [0, 1, 2]


def test_cross_entropy_does_not_care_who_drew_a_negative_nor_when() -> None:
    logits, possible = torch.randn(5, 3), torch.eye(3, dtype=torch.bool)[[0, 0, 1, 2, 0]]
    known, drawn = torch.zeros(5, dtype=torch.bool), possible[:, 0]
    costs = {
        tuple(CrossEntropy()(logits, possible, sampled, Step(epoch, 9, torch.Generator()), {}).tolist())
        for sampled in (known, drawn)
        for epoch in (0, 8)
    }
    assert len(costs) == 1


def test_no_other_reduction_is_accepted() -> None:
    with pytest.raises(ConfigError, match=r"loss\.reduction"):
        build_part("loss", {"name": "cross-entropy", "reduction": "none"}, {"cross-entropy": CrossEntropy})


def test_full_is_made_of_these_two() -> None:
    (full,) = METHODS
    assert (full.name, full.negatives, full.loss) == ("full", All(), CrossEntropy(reduction="words"))
    assert full.contrast is None
    assert full.inference is None
