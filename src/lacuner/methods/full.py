"""``full``: every unannotated span is a negative. The naive baseline that shows the effect of incomplete annotation."""

from typing import Literal

import torch
from torch import Tensor

from lacuner.heads import WidthConfig
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Negatives, SamplingContext, SpanLoss, State, Step


class All(Negatives):
    """``all``: every unknown span."""

    name: Literal["all"] = "all"

    def sample(self, context: SamplingContext) -> Tensor:
        return torch.arange(len(context.unknown), device=context.unknown.row.device)


class CrossEntropy(SpanLoss):
    """``cross-entropy``: negative log of the summed probability of the labels that a span may have.

    With a single possible label that is the ordinary cross-entropy.
    """

    name: Literal["cross-entropy"] = "cross-entropy"

    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        return summed_cross_entropy(logits, possible)


def summed_cross_entropy(logits: Tensor, possible: Tensor) -> Tensor:
    """Cross-entropy of each span, ``-log Σ_{l possible} p_l``: ``(N, L), (N, L) → (N,)``."""
    return logits.logsumexp(-1) - logits.masked_fill(~possible, float("-inf")).logsumexp(-1)


PARTS = (All, CrossEntropy)
METHODS = (
    SpanMethod(
        name="full",
        paper="the naive baseline of all papers (Span in Xu et al. 2023)",
        summary="Every span without a label is a negative.",
        head=WidthConfig(),
        negatives=All(),
        loss=CrossEntropy(),
    ),
)
