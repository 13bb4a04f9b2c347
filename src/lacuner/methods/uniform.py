"""Negative sampling, uniform and weighted.

Li, Liu, Shi: *Empirical Analysis of Unlabeled Entity Problem in Named Entity Recognition*, ICLR 2021.
Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.heads import ProductConfig
from lacuner.methods.composition import Draw, Negatives, SpanMethod
from lacuner.methods.full import CrossEntropy


class Uniform(Negatives):
    """``uniform``: of a sentence with ``n`` words, ``⌈λ n⌉`` unknown spans, all equally likely, drawn anew every epoch (§2.2).

    Few spans are entities, so few of the few drawn are: most unlabelled entities never become negatives.
    """

    name: Literal["uniform"] = "uniform"
    ratio: float = Field(0.35, ge=1e-6, allow_inf_nan=False, description="λ: negatives for each word of a sentence")

    def draw(self, draw: Draw) -> Tensor:
        keys = torch.rand(len(draw.unknown), generator=draw.step.generator, dtype=torch.float64)
        return largest_of_each_row(keys.to(draw.unknown.row.device), draw.unknown.row, self.counts(draw.lengths))

    def counts(self, lengths: Tensor) -> Tensor:
        """``⌈λ n⌉`` of every sentence."""
        return rounded_up(lengths.double() * self.ratio)


class Weighted(Uniform):
    """``weighted``: ``⌈λ n⌉`` unknown spans, those more likely that the model is unsure of but takes for non-entities (§4).

    The weight of a span is ``softmax(r / T)`` with ``r = u (1 + v)^μ``: ``u`` is the entropy of its labels, ``v`` by how
    much ``O`` falls short of the best of them, and ``T = √(C - c)`` in epoch ``c`` of ``C``.
    """

    name: Literal["weighted"] = "weighted"  # type: ignore[assignment]
    mu: float = Field(8.0, ge=0, description="μ: how strongly spans that look like entities are avoided")
    temperature: float | None = Field(None, gt=0, description="T; none: falls with the epochs, √(C - c)")

    @torch.no_grad()
    def draw(self, draw: Draw) -> Tensor:
        temperature = self.temperature or (draw.step.epochs - draw.step.epoch) ** 0.5
        weights = sampling_scores(draw.score(draw.unknown).logits, self.mu).double() / temperature
        noise = torch.rand(len(weights), generator=draw.step.generator, dtype=torch.float64).to(weights.device)
        gumbel = -(-noise.clamp(min=1e-300).log()).log()  # the largest of weight + noise are a draw from the softmax
        return largest_of_each_row(weights + gumbel, draw.unknown.row, self.counts(draw.lengths))


def sampling_scores(logits: Tensor, mu: float) -> Tensor:
    """``u (1 + z_O - max z)^μ`` of every span, ``z`` its label probabilities and ``u`` their entropy: ``(N, L) → (N,)``."""
    logs = logits.log_softmax(-1)
    z = logs.exp()
    entropy = -(z * logs).sum(-1)
    return entropy * (1 + z[:, 0] - z.amax(-1)) ** mu


def rounded_up(counts: Tensor) -> Tensor:
    """``⌈x⌉``; rounded first, because ``1.1 * 50`` is a little more than 55 to a computer."""
    return counts.double().clamp(max=2.0**53).round(decimals=9).ceil().long()


def largest_of_each_row(keys: Tensor, row: Tensor, counts: Tensor) -> Tensor:
    """Indices of the ``counts[r]`` largest keys in each row ``r`` (all of them where there are fewer): ``(N,), (N,), (B,)``.

    ``row`` ascends. With random keys that is drawing without replacement, for all sentences at once.
    """
    order = keys.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]  # by row, and by falling key within a row
    sizes = torch.bincount(row, minlength=len(counts))
    begins = sizes.cumsum(0) - sizes
    rank = torch.arange(len(row), device=row.device) - begins[row[order]]
    return order[rank < counts[row[order]]]


PARTS = (Uniform, Weighted)
METHODS = (
    SpanMethod(
        name="uniform",
        paper="Li et al. 2021, Empirical Analysis of Unlabeled Entity Problem in Named Entity Recognition (ICLR)",
        summary="Only a few random unlabelled spans are negatives, so few of them are entities that somebody forgot.",
        head=ProductConfig(),
        negatives=Uniform(),
        loss=CrossEntropy(),
    ),
    SpanMethod(
        name="weighted",
        paper="Li et al. 2022, Rethinking Negative Sampling for Handling Missing Entity Annotations (ACL)",
        summary="Negatives are drawn where the model is unsure, but not where it sees an entity.",
        head=ProductConfig(),
        negatives=Weighted(),
        loss=CrossEntropy(),
    ),
)
