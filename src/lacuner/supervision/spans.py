"""Spans as tensors: enumeration, and division into annotated, negative and unknown spans."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from lacuner.corpus import OUTSIDE, Sentence
from lacuner.supervision.tags import TokenSupervision


@dataclass(frozen=True)
class Spans:
    """``N`` spans of a batch: words ``[start, end)`` of the sentence in ``row``.

    If some words of a batch have been filtered out, ``start`` and ``end - 1`` index the remaining words, and ``widths`` holds
    the original width of each span.
    """

    row: Tensor  # (N,)
    start: Tensor  # (N,)
    end: Tensor  # (N,)
    widths: Tensor | None = None  # (N,)

    @property
    def width(self) -> Tensor:
        """Width of each span in words: ``(N,)``."""
        return self.end - self.start if self.widths is None else self.widths

    def __len__(self) -> int:
        return self.row.shape[0]

    def __getitem__(self, index: Tensor | slice) -> "Spans":
        widths = None if self.widths is None else self.widths[index]
        return Spans(self.row[index], self.start[index], self.end[index], widths)

    def to(self, device: torch.device) -> "Spans":
        return Spans(self.row.to(device), self.start.to(device), self.end.to(device))

    @staticmethod
    def of(triples: Iterable[tuple[int, int, int]]) -> "Spans":
        """Build from ``(row, start, end)`` triples."""
        table = torch.tensor(list(triples), dtype=torch.long).reshape(-1, 3)
        return Spans(table[:, 0], table[:, 1], table[:, 2])

    @staticmethod
    def concatenate(parts: "Sequence[Spans]") -> "Spans":
        return Spans(*(torch.cat([getattr(part, name) for part in parts]) for name in ("row", "start", "end")))


def enumerate_spans(lengths: Tensor, max_width: int | None = None) -> Spans:
    """Every span of sentences with these lengths, ordered by row, start and end."""
    longest = int(lengths.max()) if len(lengths) else 0
    grid = _short_grid if longest <= _SHORT else _grid
    start, end = (side.to(lengths.device) for side in grid(longest, max_width))
    row, index = (end[None, :] <= lengths[:, None]).nonzero(as_tuple=True)
    return Spans(row, start[index], end[index])


def pair_words(starts: Tensor, ends: Tensor, max_width: int | None, inside: Tensor) -> Spans:
    """All spans from a word in ``starts`` to a word in ``ends`` whose words are all ``inside``, ``(B, n)`` bool each.

    They are ordered by row, start and end.
    """
    longest = starts.shape[1]
    first, last = starts.flatten().nonzero().squeeze(1), ends.flatten().nonzero().squeeze(1)
    row = first.div(max(1, longest), rounding_mode="floor")
    outside = (~inside).flatten().nonzero().squeeze(1)
    outside = torch.cat([outside, outside.new_full((1,), inside.numel())])
    beyond = torch.minimum((row + 1) * longest, outside[torch.searchsorted(outside, first)])
    if max_width is not None:
        beyond = torch.minimum(beyond, first + max_width)
    begin = torch.searchsorted(last, first)
    count = torch.searchsorted(last, beyond) - begin  # number of last words that each first word is paired with
    which = torch.arange(len(first), device=first.device).repeat_interleave(count)
    before = count.cumsum(0) - count
    partner = torch.arange(len(which), device=first.device) - before[which] + begin[which]
    offset = row[which] * longest
    return Spans(row[which], first[which] - offset, last[partner] - offset + 1)


def _grid(length: int, max_width: int | None) -> tuple[Tensor, Tensor]:
    """``start`` and ``end`` of all spans of a sentence; with a width limit, memory is linear in its length."""
    if max_width is None or max_width >= length:
        start, last = torch.triu_indices(length, length).unbind()
        return start, last + 1
    start = torch.arange(length).repeat_interleave(max_width)
    end = start + torch.arange(1, max_width + 1).repeat(length)
    inside = end <= length
    return start[inside], end[inside]


_SHORT = 128
_short_grid = lru_cache(maxsize=_SHORT)(_grid)


@dataclass(frozen=True)
class SpanTargets:
    """Supervision of the spans of a batch: ``B`` sentences of up to ``n`` words, ``L`` labels (``O`` is 0)."""

    lengths: Tensor  # (B,)
    positives: Spans  # the annotated spans, P of them
    possible: Tensor  # (P, L) bool: the labels that each may have
    rejected: Spans  # known non-entities
    complete: Tensor  # (B,) bool
    unknown_tokens: Tensor  # (B, n) bool
    negative: Tensor  # (B, L) bool: labels that a known negative may have: O, and unannotated labels

    def partition(self, max_width: int | None = None) -> "Partition":
        """All spans of up to ``max_width`` words, by status."""
        spans = enumerate_spans(self.lengths, max_width)
        longest = self.unknown_tokens.shape[1]
        widest = longest if max_width is None else min(max_width, longest)
        narrow = _narrow(self.positives, max_width)
        positives, rejected = self.positives[narrow], self.rejected[_narrow(self.rejected, max_width)]

        def cell(spans: Spans) -> Tensor:  # (row · longest + start) · widest + width
            return spans.end.add(spans.start, alpha=widest - 1).add_(spans.row, alpha=longest * widest)

        free = torch.ones(len(self.lengths) * longest * widest + 1, dtype=torch.bool, device=spans.row.device)
        free[cell(positives)] = False
        free[cell(rejected)] = False
        unannotated = free[cell(spans)]
        known = (self.complete & ~self.negative.all(1))[spans.row]  # without any annotated label, nothing is known
        if self.unknown_tokens.any():
            # A span consists of unknown words only if their number equals its width.
            count = torch.nn.functional.pad(self.unknown_tokens.long().cumsum(1), (1, 0))  # (B, n + 1)
            inside = count[spans.row, spans.end] - count[spans.row, spans.start] == spans.end - spans.start
            known = known & ~inside
        return Partition(
            positives=positives,
            possible=self.possible[narrow],
            negatives=Spans.concatenate([rejected, spans[unannotated & known]]),
            unknown=spans[unannotated & ~known],
            rejected=len(rejected),
        )

    def to(self, device: torch.device) -> "SpanTargets":
        moved = {name: value.to(device) for name, value in vars(self).items()}
        return SpanTargets(**moved)


def _narrow(spans: Spans, max_width: int | None) -> Tensor | slice:
    return slice(None) if max_width is None else spans.end - spans.start <= max_width


@dataclass(frozen=True)
class Partition:
    """The spans of a batch: annotated, known negatives, and unknown."""

    positives: Spans
    possible: Tensor  # (P, L) bool
    negatives: Spans  # the first ``rejected`` of them were rejected for every label
    unknown: Spans
    rejected: int


def build_targets(
    sentences: Sequence[Sentence], labels: Sequence[str], known: Sequence[TokenSupervision | None] | None = None
) -> SpanTargets:
    """Targets of a batch. ``labels[0]`` is ``O``; entities with a label not in ``labels`` are an error.

    An undecided span may have any label, including ``O``, so its loss is 0.
    """
    index = {label: number for number, label in enumerate(labels)}
    assert labels[0] == OUTSIDE
    longest = max((len(sentence) for sentence in sentences), default=0)
    possible: dict[tuple[int, int, int], set[int]] = {}
    rejected: dict[tuple[int, int, int], None] = {}
    unknown_tokens = torch.zeros(len(sentences), longest, dtype=torch.bool)
    negative = torch.zeros(len(sentences), len(labels), dtype=torch.bool)
    negative[:, 0] = True
    for row, sentence in enumerate(sentences):
        for entity in sentence.entities:
            possible.setdefault((row, entity.start, entity.end), set()).add(index[entity.label])
        found = None if known is None else known[row]
        for span in () if found is None else found.undecided:
            possible[row, span.start, span.end] = set(index.values())
        rejected |= dict.fromkeys((row, span.start, span.end) for span in sentence.non_entities)
        if sentence.unknown_tokens:
            unknown_tokens[row, sorted(sentence.unknown_tokens)] = True
        if sentence.annotated_labels is not None:
            unsought = set(labels[1:]) - sentence.annotated_labels
            negative[row, [index[label] for label in unsought]] = True
    mask = torch.zeros(len(possible), len(labels), dtype=torch.bool)
    for number, options in enumerate(possible.values()):
        mask[number, sorted(options)] = True
    return SpanTargets(
        lengths=torch.tensor([len(sentence) for sentence in sentences]),
        positives=Spans.of(possible),
        possible=mask,
        rejected=Spans.of(rejected),
        complete=torch.tensor([sentence.complete for sentence in sentences], dtype=torch.bool),
        unknown_tokens=unknown_tokens,
        negative=negative,
    )
