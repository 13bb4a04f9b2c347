"""A softmax over the tags of each word."""

from typing import Literal

import torch
from torch import Tensor

from lacuner.heads.tagging import AngleConfig, TagHead
from lacuner.supervision.tags import TagSet


class SoftmaxConfig(AngleConfig):
    """``softmax``: a softmax over the tags of each word, independently; decoding makes the tags consistent."""

    name: Literal["softmax"] = "softmax"

    def build(self, size: int, tags: TagSet) -> "SoftmaxHead":
        return SoftmaxHead(size, tags, self.corners(len(tags)))


class SoftmaxHead(TagHead):
    """Scores each word's tag independently."""

    @property
    def transition_scores(self) -> Tensor:
        return self.transition_mask

    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, ignored: Tensor | None = None) -> Tensor:
        taught = torch.arange(decisions.shape[1], device=lengths.device) < lengths[:, None]
        taught = taught & ~(weights == 0).all(-1)  # a word that may have any tag is ignored
        if ignored is not None:
            taught = taught & ~ignored
        decisions, weights = decisions[taught], weights[taught]
        if not len(decisions):
            return decisions.sum()
        return (decisions.logsumexp(-1) - (decisions + weights).logsumexp(-1)).mean()

    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        inside = torch.arange(decisions.shape[1], device=lengths.device) < lengths[:, None]
        return ((decisions.softmax(-1) * counted).sum(-1) * inside).sum(-1)


PARTS = (SoftmaxConfig,)
