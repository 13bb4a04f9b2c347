"""Methods compute on devices without double precision, too; MPS is one."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from apple import MPS, AppleGpu, OnGpu
from lacuner.heads import SpanScores
from lacuner.methods.autoner import chunk_probabilities
from lacuner.methods.mrc import Known, mean_cost
from lacuner.methods.nrces import Fraction
from lacuner.methods.parts import Negatives, SamplingContext, Step
from lacuner.methods.selective import SelectedNegatives, less_probable
from lacuner.methods.two_step import RandomSpans
from lacuner.methods.uniform import Uniform
from lacuner.methods.weighted import Weighted
from lacuner.supervision.spans import Spans, enumerate_spans

LENGTHS = (5, 3, 8)


def drawn(negatives: Negatives, device: torch.device) -> list[int]:
    lengths = torch.tensor(LENGTHS)
    spans = enumerate_spans(lengths).to(device)

    def score(spans: Spans, hidden: bool = False) -> SpanScores:
        return SpanScores(torch.stack([spans.start.float(), spans.end.float()], dim=-1))

    step = Step(1, 9, torch.Generator().manual_seed(1))
    context = SamplingContext(spans, Spans.of([]).to(device), lengths.to(device), score, lambda _: lengths, step, {})
    found: list[int] = negatives.sample(context).cpu().tolist()
    return found


def sampled_words(device: torch.device) -> list[int]:
    free = torch.arange(8) < torch.tensor(LENGTHS)[:, None]
    step = Step(0, 1, torch.Generator().manual_seed(1))
    found = RandomSpans().sample(free.to(device), torch.tensor(LENGTHS).to(device), step)
    return found.start.tolist()


def chunks(device: torch.device) -> Tensor:
    lengths = torch.tensor(LENGTHS)
    gaps = torch.linspace(-3, 3, 21).reshape(3, 7)
    return chunk_probabilities(gaps.to(device), lengths.to(device), enumerate_spans(lengths).to(device)).cpu()


def answers(device: torch.device) -> Tensor:
    known = Known(Spans.of([]).to(device), torch.tensor([0, 1, 1]).to(device), torch.tensor(2))
    return mean_cost(torch.tensor([-2.0, 0.5, 3.0]).to(device), torch.ones(4).to(device), known).cpu()


def doubted(device: torch.device) -> Tensor:
    label, agrees = torch.tensor([1, 1, 2, 2]), torch.ones(4).bool()
    return less_probable(label.to(device), torch.tensor([0.2, 0.4, 0.3, 0.9]).to(device), agrees.to(device), 0.5).cpu()


COMPUTED: dict[str, Callable[[torch.device], Tensor | list[int]]] = {
    **{
        type(negatives).__name__: partial(drawn, negatives)
        for negatives in (Uniform(), Weighted(), Fraction(), SelectedNegatives(certain=False))
    },
    **{function.__name__: function for function in (sampled_words, chunks, answers, doubted)},
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_without_doubles_is_the_same(name: str) -> None:
    here = COMPUTED[name](torch.device("cpu"))
    with AppleGpu():
        there = COMPUTED[name](MPS)
    torch.testing.assert_close(torch.as_tensor(there), torch.as_tensor(here))


def test_the_device_of_these_tests_has_no_doubles() -> None:
    with AppleGpu():
        numbers = torch.ones(3).to(MPS)
        assert isinstance(numbers + 1, OnGpu)
        assert numbers.device == MPS
        with pytest.raises(TypeError, match="float64"):
            numbers.double()
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(2, dtype=torch.float64).to(MPS)
