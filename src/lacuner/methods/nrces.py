"""NRCES: a loss that tolerates sampled negatives which the model confidently predicts as entities.

Kang, Zhang, Fu: *A Noise-Robust Loss for Unlabeled Entity Problem in Named Entity Recognition*, 2022.
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.heads import WidthConfig
from lacuner.methods.full import summed_cross_entropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Negatives, SamplingContext, SpanLoss, State, Step
from lacuner.methods.uniform import largest_of_each_row, random_keys, rounded_up


class Fraction(Negatives):
    """``fraction``: a random fraction of the unknown spans of each sentence, sampled again in every epoch (§4.2)."""

    name: Literal["fraction"] = "fraction"
    fraction: float = Field(0.5, gt=0, le=1, description="fraction of unlabeled spans used as negatives")

    def sample(self, context: SamplingContext) -> Tensor:
        row = context.unknown.row
        sizes = torch.bincount(row, minlength=len(context.lengths))
        counts = self.expected(sizes, context.lengths)
        return largest_of_each_row(random_keys(row, context.step.generator), row, counts)

    def expected(self, unknown: Tensor, lengths: Tensor) -> Tensor:
        return rounded_up(unknown.cpu().double() * self.fraction).to(
            unknown.device
        )  # in single precision, 0.3 · 50 would be rounded up to 16


class NoiseRobust(SpanLoss):
    """``noise-robust``: cross-entropy in which sampled negatives that look like entities count less and less (§3.2.2).

    A drawn negative costs ``β CE + (1 - β) (1 - σ(z_O))`` with ``β = exp(-c / w)`` in epoch ``c``. The gradient of the
    second term dies out where ``z_O`` is very low, so that late in training a span that is surely an entity is let alone.
    Annotated entities, and negatives that somebody has confirmed, cost their cross-entropy.
    """

    name: Literal["noise-robust"] = "noise-robust"
    w: float = Field(
        5.0,
        gt=0,
        description="time constant, in epochs, with which the cross-entropy of sampled negatives fades; lower "
        "values tolerate more noise",
    )
    separate: bool = Field(
        True, description="apply to sampled negatives only; false: to all spans (the paper's ablation)"
    )
    sigmoid_sign: Literal[-1, 1] = Field(-1, description="-1: 1 - σ(z), as intended; 1: σ(z), as printed in the paper")

    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        cross_entropy = summed_cross_entropy(logits, possible)
        fade = math.exp(-step.epoch / self.w)  # β
        given = logits.masked_fill(~possible, float("-inf")).logsumexp(-1)  # z of the label or labels
        sigmoid = given.sigmoid() if self.sigmoid_sign == 1 else 1 - given.sigmoid()
        mixed = fade * cross_entropy + (1 - fade) * sigmoid
        return torch.where(sampled, mixed, cross_entropy) if self.separate else mixed


PARTS = (Fraction, NoiseRobust)
METHODS = (
    SpanMethod(
        name="nrces",
        paper="Kang et al. 2022, A Noise-Robust Loss for Unlabeled Entity Problem in Named Entity Recognition",
        summary="Half of the unlabeled spans are negatives; late in training, those that look like entities "
        "add little to the loss.",
        head=WidthConfig(max_span_width=10),
        negatives=Fraction(),
        loss=NoiseRobust(),
    ),
)
