import math
from collections import Counter
from fractions import Fraction as Ratio

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import WidthConfig
from lacuner.methods.full import CrossEntropy
from lacuner.methods.nrces import METHODS, Fraction, NoiseRobust
from lacuner.methods.parts import SamplingContext, Step
from lacuner.parts import build_part
from lacuner.supervision.spans import Spans, enumerate_spans


def at(epoch: int) -> Step:
    return Step(epoch, 100, torch.Generator())


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def slow_loss(logits: Tensor, possible: Tensor, sampled: Tensor, epoch: int, method: NoiseRobust) -> list[float]:
    """Positives: cross-entropy. Drawn negatives: ``β CE + (1 - β) L_sig``, ``β = exp(-c / w)``."""
    costs = []
    for row in range(len(logits)):
        z = logits[row].tolist()
        given = sum(math.exp(value) for value, flag in zip(z, possible[row].tolist(), strict=True) if flag)
        cross_entropy = -math.log(given / sum(math.exp(value) for value in z))
        beta = math.exp(-epoch / method.w)
        l_sig = sigmoid(math.log(given)) if method.sigmoid_sign == 1 else 1 - sigmoid(math.log(given))
        if bool(sampled[row]) or not method.separate:
            costs.append(beta * cross_entropy + (1 - beta) * l_sig)
        else:
            costs.append(cross_entropy)
    return costs


def random_batch(spans: int, labels: int, seed: int, several: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, possible labels, and who was drawn: never an annotated entity."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(spans, labels, dtype=torch.float64, generator=generator)
    label = torch.randint(labels, (spans,), generator=generator)
    possible = torch.nn.functional.one_hot(label, labels).bool()
    if several:
        possible |= torch.rand(spans, labels, generator=generator) < 0.4
    sampled = (label == 0) & (torch.rand(spans, generator=generator) < 0.6)
    return logits, possible, sampled


@pytest.mark.parametrize("fraction", ["0.1", "0.3", "0.35", "0.5", "0.6", "0.9", "1.0"])
def test_a_fraction_is_rounded_up_exactly(fraction: str) -> None:
    spans = torch.arange(5000)
    expected = [math.ceil(Ratio(fraction) * count) for count in spans.tolist()]
    assert Fraction(fraction=float(fraction)).expected(spans, spans).tolist() == expected


METHOD = st.builds(
    NoiseRobust,
    w=st.sampled_from([0.01, 1.0, 2.0, 5.0, 10.0, 1e6]),
    separate=st.booleans(),
    sigmoid_sign=st.sampled_from([-1, 1]),
)


@settings(deadline=None)
@given(METHOD, st.integers(1, 12), st.integers(1, 5), st.integers(0, 40), st.booleans(), st.integers(0, 10**6))
def test_the_loss_is_the_loop_of_the_paper(
    method: NoiseRobust, spans: int, labels: int, epoch: int, several: bool, seed: int
) -> None:
    logits, possible, sampled = random_batch(spans, labels, seed, several)
    found = method(logits, possible, sampled, at(epoch), {}).tolist()
    assert found == pytest.approx(slow_loss(logits, possible, sampled, epoch, method), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("separate", [True, False])
def test_in_the_first_epoch_it_is_the_cross_entropy(separate: bool) -> None:
    batch = random_batch(20, 4, 0, several=True)
    expected = CrossEntropy()(*batch, at(0), {})
    torch.testing.assert_close(NoiseRobust(separate=separate)(*batch, at(0), {}), expected)


def gradient(method: NoiseRobust, logits: list[list[float]], sampled: bool, epoch: int) -> Tensor:
    """Of spans that are given as no entity."""
    z = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    possible = torch.zeros(z.shape, dtype=torch.bool)
    possible[:, 0] = True
    method(z, possible, torch.full((len(z),), sampled), at(epoch), {}).backward()
    return z.grad


def test_late_in_training_a_drawn_negative_that_is_surely_an_entity_is_let_alone() -> None:
    found = gradient(NoiseRobust(w=0.01), [[-40.0, 5.0]], sampled=True, epoch=50)
    assert found.abs().max() < 1e-15
    assert gradient(NoiseRobust(w=0.01), [[0.0, 5.0]], sampled=True, epoch=50)[0, 0].item() == pytest.approx(-0.25)


def test_a_known_negative_is_never_forgiven() -> None:
    found = gradient(NoiseRobust(w=0.01), [[-40.0, 5.0]], sampled=False, epoch=50)
    torch.testing.assert_close(found, torch.tensor([[-1.0, 1.0]], dtype=torch.float64))


def test_known_negatives_and_positives_cost_their_cross_entropy_in_every_epoch() -> None:
    logits, possible, _ = random_batch(20, 4, 0, several=False)
    known = torch.zeros(20, dtype=torch.bool)
    assert possible[:, 0].any()
    for epoch in (0, 7, 99):
        expected = CrossEntropy()(logits, possible, known, at(epoch), {})
        torch.testing.assert_close(NoiseRobust(w=1)(logits, possible, known, at(epoch), {}), expected)
        assert NoiseRobust(w=1, separate=False)(logits, possible, known, at(99), {}).sum() < expected.sum()


def test_the_sigmoid_as_meant_raises_the_logit_of_o_and_as_printed_lowers_it() -> None:
    assert gradient(NoiseRobust(w=0.01), [[0.0, 0.0]], sampled=True, epoch=50)[0, 0] < 0
    assert gradient(NoiseRobust(w=0.01, sigmoid_sign=1), [[0.0, 0.0]], sampled=True, epoch=50)[0, 0] > 0


def test_a_smaller_w_is_more_tolerant() -> None:
    pulls = [gradient(NoiseRobust(w=w), [[-5.0, 5.0]], sampled=True, epoch=3)[0, 0].item() for w in (1, 2, 5, 10, 1e9)]
    assert pulls == sorted(pulls, reverse=True)
    assert len(set(pulls)) == 5
    assert pulls[-1] == pytest.approx(-1, abs=1e-3), "without an end to patience it is the cross-entropy"


@settings(deadline=None)
@given(METHOD, st.integers(0, 50))
def test_extreme_logits_cost_a_finite_amount_and_have_finite_gradients(method: NoiseRobust, epoch: int) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [-1e4, 1e4, 1e4], [200.0, -200.0, 0.0]])
    logits.requires_grad_()
    possible = torch.tensor([[True, False, False], [True, False, True], [False, False, True], [False, True, False]])
    loss = method(logits, possible, torch.tensor([True, True, False, True]), at(epoch), {})
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()


def context_of(lengths: list[int], seed: int) -> SamplingContext:
    unknown = enumerate_spans(torch.tensor(lengths))
    kept = torch.rand(len(unknown), generator=torch.Generator().manual_seed(seed)) < 0.8
    step = Step(0, 1, torch.Generator().manual_seed(seed))
    return SamplingContext(unknown[kept], Spans.of([]), torch.tensor(lengths), None, None, step, {})


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=4),
    st.sampled_from(["0.01", "0.29", "0.5", "0.7", "1"]),
    st.integers(0, 10**6),
)
def test_a_fraction_of_each_sentence_is_drawn_once_each(lengths: list[int], fraction: str, seed: int) -> None:
    context = context_of(lengths, seed)
    found = Fraction(fraction=float(fraction)).sample(context).tolist()
    assert len(found) == len(set(found))
    unknown = Counter(context.unknown.row.tolist())
    counts = Counter(context.unknown.row[found].tolist())
    assert all(counts[row] == math.ceil(Ratio(fraction) * unknown[row]) for row in range(len(lengths)))


def test_every_half_is_equally_likely_and_each_epoch_draws_another() -> None:
    row = torch.arange(4_000).repeat_interleave(4)
    unknown = Spans(row, torch.arange(4).repeat(4_000), torch.zeros_like(row))
    step = Step(0, 1, torch.Generator().manual_seed(0))
    context = SamplingContext(unknown, Spans.of([]), torch.full((4_000,), 4), None, None, step, {})
    first, second = Fraction().sample(context), Fraction().sample(context)
    assert not first.equal(second)
    halves = unknown.start[first].view(-1, 2).sort(1).values.tolist()
    counts = Counter(map(tuple, halves))
    assert len(counts) == 6
    expected = 4_000 / 6
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 25.7, "at 1e-4 with 5 degrees"


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.negatives) == ("nrces", Fraction(fraction=0.5))
    assert method.loss == NoiseRobust(w=5, separate=True, sigmoid_sign=-1)
    assert method.head == WidthConfig(max_span_width=10)


@pytest.mark.parametrize(("key", "value"), [("w", 0), ("w", -1), ("sigmoid_sign", 0)])
def test_impossible_losses_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        build_part("loss", {"name": "noise-robust", key: value}, {"noise-robust": NoiseRobust})


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5])
def test_impossible_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(ConfigError, match=r"negatives\.fraction"):
        build_part("negatives", {"name": "fraction", "fraction": fraction}, {"fraction": Fraction})
