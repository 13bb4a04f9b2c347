"""A linear-chain conditional random field over the tags of a sentence."""

from typing import Literal

import torch
from torch import Tensor, nn

from lacuner.heads.linear_chain import expected_count, log_partition
from lacuner.heads.tagging import AngleConfig, TagHead, add_boundary_scores
from lacuner.supervision.tags import TagSet


class CrfConfig(AngleConfig):
    """``crf``: a linear-chain conditional random field over the tags of a sentence."""

    name: Literal["crf"] = "crf"

    def build(self, size: int, tags: TagSet) -> "CrfHead":
        return CrfHead(size, tags, self.corners(len(tags)))


class CrfHead(TagHead):
    """Scores the tag sequence of a sentence jointly."""

    def __init__(self, size: int, tags: TagSet, corners: Tensor | None = None) -> None:
        super().__init__(size, tags, corners)
        self.transitions = nn.Parameter(torch.empty(len(tags), len(tags)).uniform_(-0.1, 0.1))
        self.start_transitions = nn.Parameter(torch.empty(len(tags)).uniform_(-0.1, 0.1))
        self.end_transitions = nn.Parameter(torch.empty(len(tags)).uniform_(-0.1, 0.1))

    @property
    def transition_scores(self) -> Tensor:
        return self.transitions + self.transition_mask

    def emissions(self, decisions: Tensor, lengths: Tensor) -> Tensor:
        start, end = self.start_transitions + self.start_mask, self.end_transitions + self.end_mask
        return add_boundary_scores(decisions, lengths, start, end)

    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, ignored: Tensor | None = None) -> Tensor:
        emissions, linked = self.emissions(decisions, lengths), None
        if ignored is not None and ignored.any():
            # Without emissions and transitions, an ignored word contributes the same factor to both partition functions.
            emissions = emissions.masked_fill(ignored[..., None], 0.0)
            weights = weights.masked_fill(ignored[..., None], 0.0)
            linked = ~ignored
            linked[:, 1:] &= ~ignored[:, :-1]
            linked = linked.repeat(2, 1)
        # The first half of the batch sums over the allowed sequences, the second half over all of them.
        both = log_partition(
            torch.cat([emissions + weights, emissions]), self.transition_scores, lengths.repeat(2), linked
        )
        annotated, everything = both.chunk(2)
        return (everything - annotated).mean()

    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        return expected_count(self.emissions(decisions, lengths), self.transition_scores, lengths, counted)


PARTS = (CrfConfig,)
