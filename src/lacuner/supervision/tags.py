"""Tags: tagging schemes, legal transitions, and the tags that each word of a batch may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from lacuner.corpus import OUTSIDE, Entity, Sentence, Span

TagScheme = Literal["bioes", "bio2", "io"]
TAG_SCHEMES: tuple[TagScheme, ...] = get_args(TagScheme)
_ROLES: dict[TagScheme, str] = {"bioes": "BIES", "bio2": "BI", "io": "I"}
_FORBIDDEN = float("-inf")


@dataclass(frozen=True)
class TagSet:
    """The tags of a set of labels: 0 is ``O``, followed by those of each label.

    Args:
        scheme: tagging scheme.
        labels: names of the labels; the first is ``O``.
        non_entity_class: add one more label, after the others, for spans sampled as non-entities.
    """

    scheme: TagScheme
    labels: tuple[str, ...]
    non_entity_class: bool = False

    @property
    def roles(self) -> str:
        return _ROLES[self.scheme]

    def __len__(self) -> int:
        return 1 + len(self.roles) * (len(self.labels) - 1 + self.non_entity_class)

    @property
    def ordinary(self) -> int:
        """Number of tags without the non-entity class."""
        return 1 + len(self.roles) * (len(self.labels) - 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """``O``, ``B-PER``, …; those of the non-entity class are ``B-``, ``I-``, …, which no corpus label can produce."""
        labels = [*self.labels[1:], *([""] if self.non_entity_class else [])]
        return (OUTSIDE, *(f"{role}-{label}" for label in labels for role in self.roles))

    def tag(self, role: str, label: int) -> int:
        """The index of a tag."""
        return 1 + (label - 1) * len(self.roles) + self.roles.index(role)

    def write(self, width: int, label: int) -> list[int]:
        """The tags of an entity of ``width`` words."""
        inside = self.tag("I", label)
        if self.scheme == "io":
            return [inside] * width
        first = self.tag("B", label)
        if self.scheme == "bio2":
            return [first, *[inside] * (width - 1)]
        if width == 1:
            return [self.tag("S", label)]
        return [first, *[inside] * (width - 2), self.tag("E", label)]

    @cached_property
    def label_of(self) -> tuple[int, ...]:
        """The label of each tag; 0 for ``O`` and the non-entity class."""
        labels = ((tag - 1) // len(self.roles) + 1 for tag in range(len(self)))
        return tuple(label if label < len(self.labels) else 0 for label in labels)

    @cached_property
    def single_word_tags(self) -> tuple[int, ...]:
        """For each label, the tag that a rejected single word cannot have, if the scheme has one."""
        role = {"bioes": "S", "bio2": "", "io": "I"}[self.scheme]
        return tuple(self.tag(role, label) for label in range(1, len(self.labels))) if role else ()

    @cached_property
    def steps(self) -> Tensor:
        """``(T, T)``: 0 where the second tag may follow the first, else minus infinity."""
        group = torch.tensor([0, *(1 + tag // len(self.roles) for tag in range(len(self) - 1))])
        same = group[:, None] == group
        if self.scheme == "io":
            return torch.zeros(len(self), len(self))
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
        inside = torch.zeros(len(self)).bool() if self.scheme == "io" else self._has("I") | self._has("E")
        return torch.zeros(len(self)).masked_fill(inside, _FORBIDDEN)

    @cached_property
    def ends(self) -> Tensor:
        """``(T,)``: 0 where a sentence may end with the tag, else minus infinity."""
        unfinished = self._has("B") | self._has("I") if self.scheme == "bioes" else torch.zeros(len(self)).bool()
        return torch.zeros(len(self)).masked_fill(unfinished, _FORBIDDEN)

    def read(self, tags: Sequence[int]) -> list[tuple[int, int, int]]:
        """``(start, end, label)`` of each entity in a legal tag sequence; in IO, adjacent entities of one label merge."""
        found: list[tuple[int, int, int]] = []
        start = 0
        if self.scheme == "io":
            for word, tag in enumerate(tags):
                if found and found[-1][1:] == (word, self.label_of[tag]):
                    found[-1] = (found[-1][0], word + 1, self.label_of[tag])
                elif self.label_of[tag]:
                    found.append((word, word + 1, self.label_of[tag]))
            return found
        for word, tag in enumerate(tags):
            role, label = self.names[tag][0], self.label_of[tag]
            if role in "BS":
                start = word
            if label and (role in "ES" or (self.scheme == "bio2" and role == "B")):
                found.append((start, word + 1, label))
            elif label and self.scheme == "bio2":
                found[-1] = (start, word + 1, label)
        return found

    def _has(self, role: str) -> Tensor:
        return torch.tensor([name.startswith(f"{role}-") for name in self.names])


@dataclass(frozen=True)
class TagTargets:
    """Supervision of the words of a batch: ``B`` sentences of up to ``n`` words, ``T`` tags."""

    lengths: Tensor  # (B,)
    allowed: Tensor  # (B, n, T) bool: possible tags of each word, if unlabeled words are O
    possible: Tensor  # (B, n, T) bool: possible tags of each word, if unlabeled words may have any tag
    unknown: Tensor  # (B, n) bool: unlabeled words
    ignored: Tensor  # (B, n) bool: words excluded from training
    complete: Tensor  # (B,) bool: sentences that are fully annotated, except for unknown words
    weights: Tensor | None = None  # (B, n, T) log-weights of tags by earlier models; all minus infinity: none given
    numbers: Mapping[str, Tensor] = field(default_factory=dict)  # (B, n) each, see TokenSupervision; 0 if not given

    @property
    def inside(self) -> Tensor:
        """Words that are not padding: ``(B, n)`` bool."""
        return torch.arange(self.ignored.shape[1], device=self.lengths.device) < self.lengths[:, None]

    @property
    def taught(self) -> Tensor:
        """Words that are neither padding nor ignored: ``(B, n)`` bool."""
        return self.inside & ~self.ignored

    @property
    def known(self) -> Tensor:
        """Words of complete sentences whose tag is known: ``(B, n)`` bool."""
        return self.complete[:, None] & ~self.unknown

    def to(self, device: torch.device) -> Self:
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved, numbers={name: value.to(device) for name, value in self.numbers.items()})


@dataclass(frozen=True, eq=False)
class TokenSupervision:
    """Results of an earlier stage about a sentence of ``n`` words."""

    ignored: tuple[int, ...] = ()  # words excluded from training
    unconstrained: tuple[int, ...] = ()  # words that may have any tag
    undecided: tuple[Span, ...] = ()  # spans ignored in training, even if annotated
    tag_weights: Tensor | None = None  # (n, T) log-weights of tags, without the non-entity class
    numbers: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # (n,) each: read by a part of the method under this name


def build_tag_targets(
    sentences: Sequence[Sentence], tags: TagSet, known: Sequence[TokenSupervision | None] | None = None
) -> TagTargets:
    """Targets of a batch.

    A rejected span is no entity, but spans inside it, around it or across its boundaries may be. Tags can express this only
    for single words: in BIOES, the word is not a single-word entity; in IO, where adjacent entities merge, it is in no entity
    at all. Wider rejected spans are ignored. Of overlapping entities, tags can encode only one (see :func:`flat`); the
    remaining words of the others may have any tag, but are not unknown, so they are never sampled as non-entities. The same
    holds for words of undecided spans that are in no other annotated entity.
    """
    number = {label: index for index, label in enumerate(tags.labels)}
    longest = max(map(len, sentences), default=0)
    # Filled in numpy, which is several times faster than in torch for many small assignments.
    allowed = np.zeros((len(sentences), longest, len(tags)), dtype=bool)
    unknown = np.zeros((len(sentences), longest), dtype=bool)
    ignored = np.zeros((len(sentences), longest), dtype=bool)
    rejected = np.zeros((len(sentences), longest), dtype=bool)
    continued: list[
        tuple[int, int, int]
    ] = []  # row, word, tag with which an annotated entity would continue after its end
    for row, sentence in enumerate(sentences):
        allowed[row, :, 0] = True
        if sentence.annotated_labels is not None:
            unsought = set(tags.labels[1:]) - sentence.annotated_labels
            for label in unsought:
                first = tags.tag(tags.roles[0], number[label])
                allowed[row, : len(sentence), first : first + len(tags.roles)] = True
        if not sentence.complete:
            unknown[row, : len(sentence)] = True
        elif sentence.unknown_tokens:
            unknown[row, sorted(sentence.unknown_tokens)] = True
        rejected[row, [span.start for span in sentence.non_entities if span.end - span.start == 1]] = True
        found = None if known is None else known[row]
        undecided: Sequence[Span] = () if found is None else found.undecided
        entities: Sequence[Entity] = sentence.entities
        if undecided:
            entities = [entity for entity in entities if entity.span not in undecided]
        spans = flat(entities)
        for span in (*undecided, *entities):
            unknown[row, span.start : span.end] = False
            rejected[row, span.start : span.end] = False
            if (span.start, span.end) not in spans:
                allowed[row, span.start : span.end] = True
        for (start, end), labels in spans.items():
            allowed[row, start:end] = False
            for label in labels:
                allowed[row, range(start, end), tags.write(end - start, number[label])] = True
                if tags.scheme == "bio2" and end < len(sentence):
                    continued.append((row, end, tags.tag("I", number[label])))
    for row, found in enumerate(known or ()):
        if found is not None:
            ignored[row, list(found.ignored)] = True
            allowed[row, list(found.unconstrained)] = True
            unknown[row, [*found.ignored, *found.unconstrained]] = False
    possible = allowed | unknown[..., None]
    rows, words = np.nonzero(rejected)
    for tag in tags.single_word_tags:
        allowed[rows, words, tag] = possible[rows, words, tag] = False
    for index in continued:
        allowed[index] = possible[index] = False
    tables = {"allowed": allowed, "possible": possible, "unknown": unknown, "ignored": ignored}
    return TagTargets(
        lengths=torch.tensor([len(sentence) for sentence in sentences]),
        complete=torch.tensor([sentence.complete for sentence in sentences], dtype=torch.bool),
        weights=_weights(torch.from_numpy(possible), tags, known or ()),
        numbers=_numbers(unknown.shape, known or ()),
        **{name: torch.from_numpy(table) for name, table in tables.items()},
    )


def rejected_tags(targets: TagTargets, tags: TagSet) -> Tensor:
    """Entity tags of unlabeled words that are excluded because a reviewer rejected them: ``(B, n, T)`` bool.

    Surrounding annotation excludes none: if incomplete, it may be wrong.
    """
    single = torch.zeros(len(tags), dtype=torch.bool, device=targets.unknown.device)
    single[list(tags.single_word_tags)] = True
    return targets.unknown[..., None] & ~targets.possible & single


def _weights(possible: Tensor, tags: TagSet, known: Sequence[TokenSupervision | None]) -> Tensor | None:
    """Weights ``(B, n, T)`` of possible tags, if an earlier stage provides any."""
    if not any(found is not None and found.tag_weights is not None for found in known):
        return None
    weights = torch.full(possible.shape, _FORBIDDEN)
    for row, found in enumerate(known):
        if found is not None and found.tag_weights is not None:
            weights[row, : len(found.tag_weights), : tags.ordinary] = found.tag_weights
    return weights.masked_fill(~possible, _FORBIDDEN)


def _numbers(shape: tuple[int, ...], known: Sequence[TokenSupervision | None]) -> dict[str, Tensor]:
    """Per-word numbers ``(B, n)`` of an earlier stage, by name."""
    tables: dict[str, Tensor] = {}
    for row, found in enumerate(known):
        for name, values in () if found is None else found.numbers.items():
            tables.setdefault(name, torch.zeros(shape))[row, : len(values)] = values
    return tables


def flat(entities: Sequence[Entity]) -> dict[tuple[int, int], list[str]]:
    """Labels of the spans that tags can encode: of two overlapping spans the wider one, or else the first."""
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
