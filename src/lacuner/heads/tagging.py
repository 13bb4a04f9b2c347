"""Interface of tag heads: word vectors → tag scores, loss, and entities."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.corpus import Entity
from lacuner.encoders.device import exact_dtype
from lacuner.encoders.words import EncodedWords
from lacuner.heads.linear_chain import forward_backward, viterbi
from lacuner.parts import Part
from lacuner.supervision.tags import TagScheme, TagSet


class TagHeadConfig(Part, ABC):
    """Settings of a head that tags words."""

    scores_outside: ClassVar[bool] = True
    """Whether the score of ``O`` varies between words."""

    scheme: TagScheme = Field(
        "bioes",
        description="tagging scheme: bioes, bio2 or io; with io, adjacent entities with the same label are merged",
    )

    @abstractmethod
    def build(self, size: int, tags: TagSet) -> "TagHead":
        """Build a new head."""


class AngleConfig(TagHeadConfig, ABC):
    """Settings of a head whose decision vectors may be angle-based."""

    angle: bool = Field(
        False, description="angle-based decision vectors: tag scores are projections onto a simplex and sum to zero"
    )
    corner: Literal["first"] | None = Field(
        None,
        description="with angle: use the first corner of the simplex for O, so that small O-values are more "
        "informative; none: use the last corner, with which tags are learned better",
    )

    def corners(self, tags: int) -> Tensor | None:
        """The vectors that outputs are projected onto, ``(tags, tags - 1)``; None without ``angle``.

        With ``angle``, the network has one output fewer than there are tags, and the decision vector is their projection onto
        the corners of a simplex. This removes the redundant degree of freedom, a constant added to all elements, and so makes
        the elements of different words comparable. To increase the score of the first corner's tag, all outputs have to grow
        together, which under Adam occupies all of them if the tag is frequent. So ``O``, the most frequent tag, gets the last
        corner, unless the score of ``O`` is of more interest than those of the other tags.
        """
        if not self.angle:
            return None
        return simplex(tags) if self.corner == "first" else simplex(tags).flip(0)


class TagHead(nn.Module, ABC):
    """Scores the tags of words.

    The decision vector of a word has one element per tag.

    Args:
        size: of a word vector.
        tags: to score.
        corners: ``(T, k)``; the ``k`` outputs of the network are projected onto them. None: the ``T`` outputs are the
            decision vector.
    """

    corners: Tensor | None
    transition_mask: Tensor
    start_mask: Tensor
    end_mask: Tensor

    def __init__(self, size: int, tags: TagSet, corners: Tensor | None = None) -> None:
        super().__init__()
        self.tags = tags
        self.output = nn.Linear(size, len(tags) if corners is None else corners.shape[1])
        self.register_buffer("corners", corners, persistent=False)
        self.register_buffer("transition_mask", tags.steps, persistent=False)
        self.register_buffer("start_mask", tags.begins, persistent=False)
        self.register_buffer("end_mask", tags.ends, persistent=False)

    def forward(self, words: EncodedWords) -> Tensor:
        """Decision vectors: ``(B, n, T)``."""
        output: Tensor = self.output(words.first)
        decisions = output if self.corners is None else output @ self.corners.T
        return decisions.to(torch.promote_types(decisions.dtype, torch.float32))  # half precision is too coarse

    @abstractmethod
    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, ignored: Tensor | None = None) -> Tensor:
        """Return a scalar: the negative log-probability of the allowed tags.

        Args:
            decisions: ``(B, n, T)``.
            weights: ``(B, n, T)`` log-weights of the tags: 0, or minus infinity for tags that a word cannot have.
            lengths: ``(B,)``.
            ignored: ``(B, n)`` bool, words excluded from the loss.
        """

    @abstractmethod
    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        """Expected number of words per sentence with one of the ``counted`` tags ``(T,)``: ``(B,)``."""

    @property
    @abstractmethod
    def transition_scores(self) -> Tensor:
        """Scores from tag to tag, ``(T, T)``; minus infinity where the scheme forbids it."""

    def emissions(self, decisions: Tensor, lengths: Tensor) -> Tensor:
        """Decision vectors plus the scores of starting and ending a sentence with each tag: ``(B, n, T)``."""
        return add_boundary_scores(decisions, lengths, self.start_mask, self.end_mask)

    @torch.no_grad()
    def decode(self, decisions: Tensor, lengths: Tensor, min_score: float = 0.0) -> list[list[Entity]]:
        """Entities of the best sequences, each with the probability of exactly this span and label."""
        emissions, transitions = self.emissions(decisions, lengths), self.transition_scores
        tags = viterbi(emissions, transitions, lengths)
        read = [self.tags.read(row[:length]) for row, length in zip(tags.tolist(), lengths.tolist(), strict=True)]
        spans = [(row, start, end) for row, found in enumerate(read) for start, end, _ in found]
        if not spans:
            return [[] for _ in read]
        scores = iter(
            self._entity_scores(emissions, transitions, lengths, tags, torch.tensor(spans, device=tags.device))
        )
        entities = [
            [
                Entity(start, end, self.tags.labels[label], score=next(scores), source="model")
                for start, end, label in found
            ]
            for found in read
        ]
        return [[entity for entity in found if entity.score is None or entity.score >= min_score] for found in entities]

    @torch.no_grad()
    def probabilities(
        self, decisions: Tensor, lengths: Tensor, entities: Sequence[Sequence[Entity]]
    ) -> list[list[float]]:
        """Probability of each entity with exactly these boundaries and label; those of a sentence must not overlap."""
        spans = [(row, e.start, e.end) for row, found in enumerate(entities) for e in found]
        if not spans:
            return [[] for _ in entities]
        tags = torch.zeros(decisions.shape[:2], dtype=torch.long, device=decisions.device)
        for row, found in enumerate(entities):
            for e in found:
                written = self.tags.write(e.end - e.start, self.tags.labels.index(e.label))
                tags[row, e.start : e.end] = torch.tensor(written, device=tags.device)
        emissions, transitions = self.emissions(decisions, lengths), self.transition_scores
        where = torch.tensor(spans, device=tags.device)
        scores = iter(self._entity_scores(emissions, transitions, lengths, tags, where))
        return [[next(scores) for _ in found] for found in entities]

    def _entity_scores(
        self, emissions: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor, spans: Tensor
    ) -> list[float]:
        """Marginal probability of the entities ``(row, start, end)`` tagged by ``tags``."""
        sums = forward_backward(emissions, transitions, lengths)
        row, start, last = spans[:, 0], spans[:, 1], spans[:, 2] - 1
        taken = emissions.gather(2, tags[..., None]).squeeze(2)  # (B, n) scores along the best sequences
        taken[:, 1:] += transitions[tags[:, :-1], tags[:, 1:]]
        inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
        exact = exact_dtype(tags.device)
        along = taken.masked_fill(~inside, 0.0).to(exact).cumsum(1)
        first_tag, last_tag = tags[row, start], tags[row, last]
        forward = sums.forward[row, start, first_tag].to(exact)
        backward = (sums.backward[row, last, last_tag] - emissions[row, last, last_tag]).to(exact)
        score = forward + along[row, last] - along[row, start] + backward - sums.total[row].to(exact)
        if self.tags.scheme == "bioes":
            return score.exp().clamp(0, 1).tolist()
        # Subtract the sequences in which the entity continues.
        following = (last + 1).clamp(max=tags.shape[1] - 1)
        inside_tag = last_tag  # I of the same label, which in BIO2 follows its B
        if self.tags.scheme == "bio2":
            inside_tag = last_tag + (last_tag - 1).remainder(2).eq(0)
        longer = score - backward + transitions[last_tag, inside_tag] + sums.backward[row, following, inside_tag]
        longer = longer.masked_fill(last + 1 >= lengths[row], float("-inf"))
        alone = (score.exp() - longer.exp()).clamp(0, 1)
        if self.tags.scheme == "io":  # and those in which it begins earlier
            before = sums.forward[row, (start - 1).clamp(min=0), first_tag] + transitions[first_tag, first_tag]
            earlier = (before + emissions[row, start, first_tag] - forward).exp().masked_fill(start == 0, 0.0)
            alone = alone * (1 - earlier).clamp(0, 1)
        return alone.tolist()


def add_boundary_scores(decisions: Tensor, lengths: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Add ``start`` to the scores ``(B, n, T)`` of first words and ``end`` to those of last words, ``(T,)`` each.

    The maximum of each word is subtracted from its scores, which changes no result but improves precision.
    """
    position = torch.arange(decisions.shape[1], device=decisions.device)[:, None]  # (n, 1)
    zero = torch.zeros_like(start)
    at_start = torch.where(position == 0, start, zero)  # (n, T)
    at_end = torch.where((position == lengths[:, None, None] - 1), end, zero)  # (B, n, T)
    return decisions - decisions.detach().amax(-1, keepdim=True) + at_start + at_end


def simplex(corners: int) -> Tensor:
    """``k`` unit vectors in ``k - 1`` dimensions with equal angles, which sum to zero: ``(k, k - 1)``."""
    k = corners
    first = torch.full((1, k - 1), (k - 1) ** -0.5, dtype=torch.float64)
    others = torch.eye(k - 1, dtype=torch.float64) * (k / (k - 1)) ** 0.5 - (1 + k**0.5) / (k - 1) ** 1.5
    return torch.cat([first, others]).float()
