"""Weighted negative sampling.

Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.encoders.device import exact_dtype
from lacuner.heads import ProductConfig
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import SamplingContext
from lacuner.methods.uniform import Uniform, largest_of_each_row


class Weighted(Uniform):
    """``weighted``: ``⌈λ n⌉`` unknown spans, preferring those where the model is uncertain but predicts no entity (§4).

    The weight of a span is ``softmax(r / T)`` with ``r = u (1 + v)^μ``: ``u`` is the entropy of its labels, ``v`` by how
    much ``O`` falls short of the best of them, and ``T = √(C - c)`` in epoch ``c`` of ``C``.
    """

    name: Literal["weighted"] = "weighted"  # type: ignore[assignment]
    mu: float = Field(8.0, ge=0, description="μ: how strongly spans that look like entities are avoided")
    temperature: float | None = Field(
        None, gt=0, description="T: sampling temperature; none: √(C - c), which falls with each epoch"
    )

    @torch.no_grad()
    def sample(self, context: SamplingContext) -> Tensor:
        temperature = self.temperature or (context.step.epochs - context.step.epoch) ** 0.5
        scores = sampling_scores(context.score(context.unknown).logits, self.mu)
        weights = scores.to(exact_dtype(scores.device)) / temperature
        noise = torch.rand(len(weights), generator=context.step.generator, dtype=torch.float64)
        gumbel = -(-noise.clamp(min=1e-300).log()).log()  # the largest sums sample from the softmax
        return largest_of_each_row(weights + gumbel.to(weights), context.unknown.row, self.counts(context.lengths))


def sampling_scores(logits: Tensor, mu: float) -> Tensor:
    """``u (1 + z_O - max z)^μ`` of every span, for label probabilities ``z`` of entropy ``u``: ``(N, L) → (N,)``."""
    logs = logits.log_softmax(-1)
    z = logs.exp()
    entropy = -(z * logs).sum(-1)
    return entropy * (1 + z[:, 0] - z.amax(-1)) ** mu


PARTS = (Weighted,)
METHODS = (
    SpanMethod(
        name="weighted",
        paper="Li et al. 2022, Rethinking Negative Sampling for Handling Missing Entity Annotations (ACL)",
        summary="Negatives are sampled where the model is uncertain, but not where it predicts an entity.",
        head=ProductConfig(),
        negatives=Weighted(),
        loss=CrossEntropy(),
    ),
)
