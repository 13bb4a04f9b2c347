"""Decoding of scored spans into entities."""

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from lacuner.corpus import Entity
from lacuner.heads.scores import SEARCH_CHUNK, SpanScores
from lacuner.supervision.spans import Spans, enumerate_spans

Probabilities = Callable[[SpanScores], Tensor]
"""Span scores → label probabilities ``(N, L)``."""


def softmax_of_logits(scores: SpanScores) -> Tensor:
    """Label probabilities from the classifier alone."""
    return scores.logits.softmax(-1)


def find_entities(
    score: Callable[[Spans], SpanScores],
    lengths: Tensor,
    labels: Sequence[str],
    max_width: int | None = None,
    probabilities: Probabilities = softmax_of_logits,
    nested: bool = False,
    min_score: float = 0.0,
    spans: Spans | None = None,
) -> list[list[Entity]]:
    """Entities of a batch: spans whose best label is not ``O``, by descending score, without overlaps unless ``nested``.

    Args:
        score: scores given spans.
        lengths: sentence lengths in words.
        labels: names of the labels; the first is ``O``.
        max_width: maximum entity width.
        probabilities: scores → label probabilities.
        nested: keep entities that overlap better ones.
        min_score: minimum probability.
        spans: candidate spans; by default all of them.
    """
    kept, found = search_spans(score, lengths, is_entity, max_width, probabilities, spans)
    return decode(kept, found, lengths, labels, nested, min_score)


def is_entity(probabilities: Tensor) -> Tensor:
    """Whether the best label of each span is not ``O``: ``(N, L) → (N,)``."""
    return probabilities.argmax(-1) != 0


def search_spans(
    score: Callable[[Spans], SpanScores],
    lengths: Tensor,
    keep: Callable[[Tensor], Tensor],
    max_width: int | None = None,
    probabilities: Probabilities = softmax_of_logits,
    spans: Spans | None = None,
) -> tuple[Spans, Tensor]:
    """Filter ``spans``, or all spans of a batch, with ``keep``, and return them with their probabilities ``(N, L)``."""
    if spans is None:
        spans = enumerate_spans(lengths, max_width)
    found: list[tuple[Spans, Tensor]] = []
    for begin in range(0, len(spans), SEARCH_CHUNK):
        part = spans[begin : begin + SEARCH_CHUNK]
        probable = probabilities(score(part))
        kept = keep(probable).nonzero().squeeze(1)
        found.append((part[kept], probable[kept]))
    if not found:
        return spans, torch.zeros(0, 1)
    return Spans.concatenate([part for part, _ in found]), torch.cat([probable for _, probable in found])


def decode(
    spans: Spans,
    probabilities: Tensor,
    lengths: Tensor,
    labels: Sequence[str],
    nested: bool = False,
    min_score: float = 0.0,
) -> list[list[Entity]]:
    """Entities among ``spans``, given their label probabilities; see :func:`find_entities`."""
    best, label = probabilities.max(-1) if len(spans) else (probabilities.new_zeros(0), spans.row)
    kept = (label != 0) & (best >= min_score)
    columns = [column[kept].cpu().numpy() for column in (spans.row, spans.start, spans.end, label, best)]
    rows, starts, ends, _, scores = columns
    order = np.lexsort((ends, starts, -scores, rows))
    entities: list[list[Entity]] = [[] for _ in lengths]
    taken = [bytearray(length) for length in lengths.tolist()]  # 1: the word is part of an entity
    for row, start, end, kind, score in zip(*(column[order].tolist() for column in columns), strict=True):
        if not nested:
            if 1 in taken[row][start:end]:
                continue
            taken[row][start:end] = b"\x01" * (end - start)
        entities[row].append(Entity(start, end, labels[kind], score=score, source="model"))
    return [sorted(sentence, key=attrgetter("start", "end")) for sentence in entities]


def shift_outside(probabilities: Tensor, threshold: float) -> Tensor:
    """Probabilities after adding ``threshold`` to the logit of ``O``: ``(N, L) → (N, L)``. Above 0, fewer entities remain."""
    if not threshold:
        return probabilities
    outside = probabilities[:, :1] * math.exp(threshold)
    shifted = torch.cat([outside, probabilities[:, 1:]], dim=-1)
    return shifted * (probabilities.sum(-1, keepdim=True) / shifted.sum(-1, keepdim=True))
