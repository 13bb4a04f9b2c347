"""Uniform negative sampling.

Li, Liu, Shi: *Empirical Analysis of Unlabeled Entity Problem in Named Entity Recognition*, ICLR 2021.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.encoders.device import exact_dtype
from lacuner.heads import ProductConfig
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Negatives, SamplingContext


class Uniform(Negatives):
    """``uniform``: ``⌈λ n⌉`` unknown spans of a sentence with ``n`` words, sampled uniformly in every epoch (§2.2).

    Few spans are entities, so few of the few drawn are: most unlabeled entities never become negatives.
    """

    name: Literal["uniform"] = "uniform"
    ratio: float = Field(0.35, ge=1e-6, allow_inf_nan=False, description="λ: negatives per word of a sentence")

    def sample(self, context: SamplingContext) -> Tensor:
        row = context.unknown.row
        return largest_of_each_row(random_keys(row, context.step.generator), row, self.counts(context.lengths))

    def counts(self, lengths: Tensor) -> Tensor:
        """``⌈λ n⌉`` for each sentence."""
        return rounded_up(lengths.cpu().double() * self.ratio).to(lengths.device)

    def expected(self, unknown: Tensor, lengths: Tensor) -> Tensor:
        return self.counts(lengths).minimum(unknown)


def rounded_up(counts: Tensor) -> Tensor:
    """``⌈x⌉``, robust to floating-point error: ``1.1 * 50`` is slightly more than 55."""
    exact = counts.cpu().double()  # not every device supports doubles
    return exact.clamp(max=2.0**53).round(decimals=9).ceil().long().to(counts.device)


def random_keys(row: Tensor, generator: torch.Generator) -> Tensor:
    """A random number in [0, 1) for each element of ``row``, identical on all devices."""
    keys = torch.rand(len(row), generator=generator, dtype=torch.float64)
    return keys.to(row.device, exact_dtype(row.device))


def largest_of_each_row(keys: Tensor, row: Tensor, counts: Tensor) -> Tensor:
    """Indices of the ``counts[r]`` largest keys of each row ``r``, or of all if there are fewer: ``(N,), (N,), (B,)``.

    ``row`` must be ascending. With random keys, this samples without replacement from all sentences at once.
    """
    order = keys.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]  # by row, then by descending key
    sizes = torch.bincount(row, minlength=len(counts))
    begins = sizes.cumsum(0) - sizes
    rank = torch.arange(len(row), device=row.device) - begins[row[order]]
    return order[rank < counts[row[order]]]


PARTS = (Uniform,)
METHODS = (
    SpanMethod(
        name="uniform",
        paper="Li et al. 2021, Empirical Analysis of Unlabeled Entity Problem in Named Entity Recognition (ICLR)",
        summary="Only a few random unlabeled spans are negatives, so few of them are entities that the "
        "annotation missed.",
        head=ProductConfig(),
        negatives=Uniform(),
        loss=CrossEntropy(),
    ),
)
