"""Tag heads: word vectors → scores of tags, what a wrong tag costs, and entities."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.corpus import Entity
from lacuner.encoders.words import EncodedWords
from lacuner.heads.crf import best_sequences, expected_count, log_partition, sum_sequences
from lacuner.parts import Part
from lacuner.supervision.tags import TagScheme, TagSet


class TagHeadConfig(Part, ABC):
    """Settings of a head that tags words."""

    scheme: TagScheme = Field("bioes", description="how entities are written as tags: bioes, or bio2")
    angle: bool = Field(
        False, description="angle-based decision vector: scores of the tags are projections that sum to zero"
    )
    corner: Literal["first"] | None = Field(
        None,
        description="angle-based: O has the first corner of the simplex, where small O-values tell more; "
        "none: the last, where tags are learned better",
    )

    @abstractmethod
    def build(self, size: int, tags: TagSet) -> "TagHead":
        """A fresh head."""


class SoftmaxConfig(TagHeadConfig):
    """``softmax``: every word's tag by itself; only decoding sees to it that tags fit together."""

    name: Literal["softmax"] = "softmax"

    def build(self, size: int, tags: TagSet) -> "SoftmaxHead":
        return SoftmaxHead(self, size, tags)


class CrfConfig(TagHeadConfig):
    """``crf``: the tags of a sentence together, as a linear-chain conditional random field."""

    name: Literal["crf"] = "crf"

    def build(self, size: int, tags: TagSet) -> "CrfHead":
        return CrfHead(self, size, tags)


class TagHead(nn.Module, ABC):
    """Scores the tags of words.

    The decision vector of a word has one element for each tag. With ``angle`` the network has one output fewer, and the
    decision vector is its projection onto the corners of a simplex: what cannot matter, a constant added to all elements,
    is not there to be learned, so that the elements of different words can be compared. For a tag to reach the first corner,
    all outputs have to grow together. With Adam each of them is busy with that, if the tag is ``O``, the most frequent one; so
    ``O`` has the last corner, unless somebody wants to know about ``O`` more than about the other tags.
    """

    corners: Tensor | None
    allowed_steps: Tensor
    allowed_begins: Tensor
    allowed_ends: Tensor

    def __init__(self, config: TagHeadConfig, size: int, tags: TagSet) -> None:
        super().__init__()
        self.tags = tags
        self.output = nn.Linear(size, len(tags) - config.angle)
        corners = simplex(len(tags)) if config.corner == "first" else simplex(len(tags)).flip(0)
        self.register_buffer("corners", corners if config.angle else None, persistent=False)
        self.register_buffer("allowed_steps", tags.steps, persistent=False)
        self.register_buffer("allowed_begins", tags.begins, persistent=False)
        self.register_buffer("allowed_ends", tags.ends, persistent=False)

    def forward(self, words: EncodedWords) -> Tensor:
        """Decision vectors: ``(B, n, T)``."""
        output: Tensor = self.output(words.first)
        decisions = output if self.corners is None else output @ self.corners.T
        return decisions.to(torch.promote_types(decisions.dtype, torch.float32))  # half precision is too rough for sums

    @abstractmethod
    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, dropped: Tensor | None = None) -> Tensor:
        """A single number: what it costs not to be sure of tags that a word may have.

        Args:
            decisions: ``(B, n, T)``.
            weights: ``(B, n, T)`` logs of what each tag counts: 0, or minus infinity for those that a word cannot have.
            lengths: ``(B,)``.
            dropped: ``(B, n)`` bool, words that take no part at all.
        """

    @abstractmethod
    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        """How many words of each sentence are expected to have one of the ``counted`` tags ``(T,)``: ``(B,)``."""

    @property
    @abstractmethod
    def steps(self) -> Tensor:
        """``(T, T)``: what it scores to step from a tag to the next; minus infinity where the scheme forbids it."""

    def bounded(self, decisions: Tensor, lengths: Tensor) -> Tensor:
        """Decision vectors with what it scores to begin and to end a sentence with each tag: ``(B, n, T)``."""
        return with_bounds(decisions, lengths, self.allowed_begins, self.allowed_ends)

    @torch.no_grad()
    def decode(self, decisions: Tensor, lengths: Tensor, min_score: float = 0.0) -> list[list[Entity]]:
        """The entities of the best sequences, each with the probability that exactly these words are such an entity."""
        unary, steps = self.bounded(decisions, lengths), self.steps
        tags = best_sequences(unary, steps, lengths)
        read = [self.tags.read(row[:length]) for row, length in zip(tags.tolist(), lengths.tolist(), strict=True)]
        places = [(row, start, end) for row, found in enumerate(read) for start, end, _ in found]
        if not places:
            return [[] for _ in read]
        scores = iter(self._entity_scores(unary, steps, lengths, tags, torch.tensor(places, device=tags.device)))
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
        """The probability that exactly these words are such an entity; those of a sentence must not overlap."""
        places = [(row, e.start, e.end) for row, found in enumerate(entities) for e in found]
        if not places:
            return [[] for _ in entities]
        tags = torch.zeros(decisions.shape[:2], dtype=torch.long, device=decisions.device)
        for row, found in enumerate(entities):
            for e in found:
                written = self.tags.write(e.end - e.start, self.tags.labels.index(e.label))
                tags[row, e.start : e.end] = torch.tensor(written, device=tags.device)
        unary = self.bounded(decisions, lengths)
        scores = iter(self._entity_scores(unary, self.steps, lengths, tags, torch.tensor(places, device=tags.device)))
        return [[next(scores) for _ in found] for found in entities]

    def _entity_scores(
        self, unary: Tensor, steps: Tensor, lengths: Tensor, tags: Tensor, places: Tensor
    ) -> list[float]:
        """The probability of each of the entities ``(row, start, end)`` that ``tags`` have, over all sequences."""
        sums = sum_sequences(unary, steps, lengths)
        row, start, last = places[:, 0], places[:, 1], places[:, 2] - 1
        taken = unary.gather(2, tags[..., None]).squeeze(2)  # (B, n) scores along the best sequences
        taken[:, 1:] += steps[tags[:, :-1], tags[:, 1:]]
        inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
        along = taken.masked_fill(~inside, 0.0).double().cumsum(1)
        first_tag, last_tag = tags[row, start], tags[row, last]
        before = sums.before[row, start, first_tag].double()
        behind = (sums.behind[row, last, last_tag] - unary[row, last, last_tag]).double()
        score = before + along[row, last] - along[row, start] + behind - sums.total[row].double()
        if self.tags.scheme == "bio2":  # without the sequences in which the entity goes on
            following = (last + 1).clamp(max=tags.shape[1] - 1)
            onward = last_tag + (last_tag - 1).remainder(2).eq(0)  # I of the same label: it stands behind its B
            longer = score - behind + steps[last_tag, onward] + sums.behind[row, following, onward]
            longer = longer.masked_fill(last + 1 >= lengths[row], float("-inf"))
            return (score.exp() - longer.exp()).clamp(0, 1).tolist()
        return score.exp().clamp(0, 1).tolist()


class SoftmaxHead(TagHead):
    """Each word for itself."""

    @property
    def steps(self) -> Tensor:
        return self.allowed_steps

    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, dropped: Tensor | None = None) -> Tensor:
        taught = torch.arange(decisions.shape[1], device=lengths.device) < lengths[:, None]
        taught = taught & ~(weights == 0).all(-1)  # a word that may be anything teaches nothing
        if dropped is not None:
            taught = taught & ~dropped
        decisions, weights = decisions[taught], weights[taught]
        if not len(decisions):
            return decisions.sum()
        return (decisions.logsumexp(-1) - (decisions + weights).logsumexp(-1)).mean()

    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        inside = torch.arange(decisions.shape[1], device=lengths.device) < lengths[:, None]
        return ((decisions.softmax(-1) * counted).sum(-1) * inside).sum(-1)


class CrfHead(TagHead):
    """All tags of a sentence together."""

    def __init__(self, config: TagHeadConfig, size: int, tags: TagSet) -> None:
        super().__init__(config, size, tags)
        self.transitions = nn.Parameter(torch.empty(len(tags), len(tags)).uniform_(-0.1, 0.1))
        self.begins = nn.Parameter(torch.empty(len(tags)).uniform_(-0.1, 0.1))
        self.ends = nn.Parameter(torch.empty(len(tags)).uniform_(-0.1, 0.1))

    @property
    def steps(self) -> Tensor:
        return self.transitions + self.allowed_steps

    def bounded(self, decisions: Tensor, lengths: Tensor) -> Tensor:
        return with_bounds(decisions, lengths, self.begins + self.allowed_begins, self.ends + self.allowed_ends)

    def loss(self, decisions: Tensor, weights: Tensor, lengths: Tensor, dropped: Tensor | None = None) -> Tensor:
        unary, linked = self.bounded(decisions, lengths), None
        if dropped is not None and dropped.any():
            # A word without scores of its own, and without steps to it or from it, is the same factor in both sums.
            unary = unary.masked_fill(dropped[..., None], 0.0)
            weights = weights.masked_fill(dropped[..., None], 0.0)
            linked = ~dropped
            linked[:, 1:] &= ~dropped[:, :-1]
            linked = linked.repeat(2, 1)
        both = log_partition(torch.cat([unary + weights, unary]), self.steps, lengths.repeat(2), linked)
        annotated, everything = both.chunk(2)
        return (everything - annotated).mean()

    def expected(self, decisions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
        return expected_count(self.bounded(decisions, lengths), self.steps, lengths, counted)


def with_bounds(decisions: Tensor, lengths: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """Scores ``(B, n, T)`` with ``begins`` added at the first words and ``ends`` at the last ones.

    The greatest score of each word is taken away from all of them: what its tags have in common changes nothing, and small
    numbers add up more exactly.
    """
    place = torch.arange(decisions.shape[1], device=decisions.device)[:, None]  # (n, 1)
    zero = torch.zeros_like(begins)
    at_begin = torch.where(place == 0, begins, zero)  # (n, T)
    at_end = torch.where((place == lengths[:, None, None] - 1), ends, zero)  # (B, n, T)
    return decisions - decisions.detach().amax(-1, keepdim=True) + at_begin + at_end


def simplex(corners: int) -> Tensor:
    """``k`` unit vectors in ``k - 1`` dimensions with equal angles between them, which sum to zero: ``(k, k - 1)``."""
    k = corners
    first = torch.full((1, k - 1), (k - 1) ** -0.5, dtype=torch.float64)
    others = torch.eye(k - 1, dtype=torch.float64) * (k / (k - 1)) ** 0.5 - (1 + k**0.5) / (k - 1) ** 1.5
    return torch.cat([first, others]).float()


TAG_HEADS: dict[str, type[SoftmaxConfig | CrfConfig]] = {"softmax": SoftmaxConfig, "crf": CrfConfig}
