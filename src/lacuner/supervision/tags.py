"""Words as tags: which there are, which may follow which, and which of them each word of a batch may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lacuner.corpus import OUTSIDE, Entity, Sentence

TagScheme = Literal["bioes", "bio2"]
TAG_SCHEMES: tuple[TagScheme, ...] = get_args(TagScheme)
_ROLES: dict[TagScheme, str] = {"bioes": "BIES", "bio2": "BI"}
_FORBIDDEN = float("-inf")


@dataclass(frozen=True)
class TagSet:
    """The tags of some labels: 0 is ``O``, then those of each label.

    Args:
        scheme: how entities are written as tags.
        labels: names of the labels; the first is ``O``.
        extra: one more label, behind the others, whose entities are none: what a method draws as non-entities.
    """

    scheme: TagScheme
    labels: tuple[str, ...]
    extra: bool = False

    @property
    def roles(self) -> str:
        return _ROLES[self.scheme]

    def __len__(self) -> int:
        return 1 + len(self.roles) * (len(self.labels) - 1 + self.extra)

    @property
    def ordinary(self) -> int:
        """How many tags there are without the extra label's."""
        return 1 + len(self.roles) * (len(self.labels) - 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """``O``, ``B-PER``, …; those of the extra label are ``B-``, ``I-``, …, which no label of a corpus can have."""
        labels = [*self.labels[1:], *([""] if self.extra else [])]
        return (OUTSIDE, *(f"{role}-{label}" for label in labels for role in self.roles))

    def tag(self, role: str, label: int) -> int:
        """The number of a tag."""
        return 1 + (label - 1) * len(self.roles) + self.roles.index(role)

    def write(self, width: int, label: int) -> list[int]:
        """The tags of an entity of ``width`` words."""
        first, inside = self.tag("B", label), self.tag("I", label)
        if self.scheme == "bio2":
            return [first, *[inside] * (width - 1)]
        if width == 1:
            return [self.tag("S", label)]
        return [first, *[inside] * (width - 2), self.tag("E", label)]

    @cached_property
    def label_of(self) -> tuple[int, ...]:
        """The label of each tag; 0 for ``O`` and the extra label."""
        labels = ((tag - 1) // len(self.roles) + 1 for tag in range(len(self)))
        return tuple(label if label < len(self.labels) else 0 for label in labels)

    @cached_property
    def steps(self) -> Tensor:
        """``(T, T)``: 0 where the second tag may follow the first, else minus infinity."""
        group = torch.tensor([0, *(1 + place // len(self.roles) for place in range(len(self) - 1))])
        same = group[:, None] == group
        if self.scheme == "bio2":
            allowed = ~self._has("I")[None, :] | (same & (self._has("B") | self._has("I"))[:, None])
        else:
            open_before = self._has("B") | self._has("I")
            open_behind = self._has("I") | self._has("E")
            allowed = torch.where(open_before[:, None], same & open_behind[None, :], ~open_behind[None, :])
        return torch.zeros(len(self), len(self)).masked_fill(~allowed, _FORBIDDEN)

    @cached_property
    def begins(self) -> Tensor:
        """``(T,)``: 0 where a sentence may begin with the tag, else minus infinity."""
        return torch.zeros(len(self)).masked_fill(self._has("I") | self._has("E"), _FORBIDDEN)

    @cached_property
    def ends(self) -> Tensor:
        """``(T,)``: 0 where a sentence may end with the tag, else minus infinity."""
        unfinished = self._has("B") | self._has("I") if self.scheme == "bioes" else torch.zeros(len(self)).bool()
        return torch.zeros(len(self)).masked_fill(unfinished, _FORBIDDEN)

    def read(self, tags: Sequence[int]) -> list[tuple[int, int, int]]:
        """``(start, end, label)`` of each entity in a legal sequence of tags."""
        found: list[tuple[int, int, int]] = []
        start = 0
        for place, tag in enumerate(tags):
            role, label = self.names[tag][0], self.label_of[tag]
            if role in "BS":
                start = place
            if label and (role in "ES" or (self.scheme == "bio2" and role == "B")):
                found.append((start, place + 1, label))
            elif label and self.scheme == "bio2":
                found[-1] = (start, place + 1, label)
        return found

    def _has(self, role: str) -> Tensor:
        return torch.tensor([name.startswith(f"{role}-") for name in self.names])


@dataclass(frozen=True)
class TagTargets:
    """What is known about the words of a batch: ``B`` sentences of up to ``n`` words, ``T`` tags."""

    lengths: Tensor  # (B,)
    allowed: Tensor  # (B, n, T) bool: the tags of each word, if what nobody tagged is no entity
    possible: Tensor  # (B, n, T) bool: the tags of each word, if what nobody tagged may be anything
    unknown: Tensor  # (B, n) bool: words that nobody has said anything about
    removed: Tensor  # (B, n) bool: words that shall teach nothing
    weights: Tensor | None = None  # (B, n, T) logs of what earlier models think; all minus infinity: they do not say

    def to(self, device: torch.device) -> "TagTargets":
        moved = {name: value.to(device) for name, value in vars(self).items() if value is not None}
        return TagTargets(**moved)


@dataclass(frozen=True, eq=False)
class TokenSupervision:
    """What an earlier stage of training has found out about a sentence of ``n`` words."""

    removed: tuple[int, ...] = ()  # words that shall teach nothing
    open: tuple[int, ...] = ()  # words that may be anything
    weights: Tensor | None = None  # (n, T) logs of what each tag counts, the extra label's left out


def build_tag_targets(
    sentences: Sequence[Sentence], tags: TagSet, advice: Sequence[TokenSupervision | None] | None = None
) -> TagTargets:
    """Targets of a batch.

    A span that somebody rejected is taken as words outside of all entities, unless an annotated entity overlaps it: then it
    was the boundaries that were wrong. Of annotated entities that overlap, tags can hold only one (see :func:`flat`); the
    other's words may be anything, but are not unknown: nobody shall take them for no entity.
    """
    number = {label: index for index, label in enumerate(tags.labels)}
    longest = max(map(len, sentences), default=0)
    # Filled piece by piece, which is several times faster with arrays than with tensors.
    allowed = np.zeros((len(sentences), longest, len(tags)), dtype=bool)
    unknown = np.zeros((len(sentences), longest), dtype=bool)
    removed = np.zeros((len(sentences), longest), dtype=bool)
    onward: list[tuple[int, int, int]] = []  # row, word, tag with which an annotated entity would go on behind its end
    for row, sentence in enumerate(sentences):
        allowed[row, :, 0] = True
        if sentence.annotated_labels is not None:
            unsought = set(tags.labels[1:]) - sentence.annotated_labels
            for label in unsought:
                first = tags.tag("B", number[label])
                allowed[row, : len(sentence), first : first + len(tags.roles)] = True
        if not sentence.complete:
            unknown[row, : len(sentence)] = True
        elif sentence.unknown_tokens:
            unknown[row, sorted(sentence.unknown_tokens)] = True
        for span in sentence.non_entities:
            if not any(span.start < entity.end and entity.start < span.end for entity in sentence.entities):
                unknown[row, span.start : span.end] = False
                allowed[row, span.start : span.end, 1:] = False
        spans = flat(sentence.entities)
        for entity in sentence.entities:
            unknown[row, entity.start : entity.end] = False
            if (entity.start, entity.end) not in spans:
                allowed[row, entity.start : entity.end] = True
        for (start, end), labels in spans.items():
            allowed[row, start:end] = False
            for label in labels:
                allowed[row, range(start, end), tags.write(end - start, number[label])] = True
                if tags.scheme == "bio2" and end < len(sentence):
                    onward.append((row, end, tags.tag("I", number[label])))
    for row, found in enumerate(advice or ()):
        if found is not None:
            removed[row, list(found.removed)] = True
            allowed[row, list(found.open)] = True
            unknown[row, [*found.removed, *found.open]] = False
    possible = allowed | unknown[..., None]
    for place in onward:
        allowed[place] = possible[place] = False
    known = {"allowed": allowed, "possible": possible, "unknown": unknown, "removed": removed}
    return TagTargets(
        lengths=torch.tensor([len(sentence) for sentence in sentences]),
        weights=_weights(torch.from_numpy(possible), tags, advice or ()),
        **{name: torch.from_numpy(table) for name, table in known.items()},
    )


def _weights(possible: Tensor, tags: TagSet, advice: Sequence[TokenSupervision | None]) -> Tensor | None:
    """Weights ``(B, n, T)`` of the tags that are possible, if there is advice with weights."""
    if not any(found is not None and found.weights is not None for found in advice):
        return None
    weights = torch.full(possible.shape, _FORBIDDEN)
    for row, found in enumerate(advice):
        if found is not None and found.weights is not None:
            weights[row, : len(found.weights), : tags.ordinary] = found.weights
    return weights.masked_fill(~possible, _FORBIDDEN)


def flat(entities: Sequence[Entity]) -> dict[tuple[int, int], list[str]]:
    """Labels of the spans that tags can hold: of two that overlap, the wider one, or else the first."""
    labels: dict[tuple[int, int], list[str]] = {}
    for entity in entities:
        labels.setdefault((entity.start, entity.end), []).append(entity.label)
    if len(labels) < 2:
        return labels
    taken: set[int] = set()
    kept: dict[tuple[int, int], list[str]] = {}
    for start, end in sorted(labels, key=lambda span: (span[0] - span[1], span)):
        if taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            kept[start, end] = labels[start, end]
    return kept
