"""From scored spans to entities."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from lacuner.corpus import Entity
from lacuner.encoding.spans import Spans, enumerate_spans
from lacuner.heads.scores import SEARCH_CHUNK, SpanScores

Probabilities = Callable[[SpanScores], Tensor]
"""Scores of spans → ``(N, L)`` probabilities of their labels."""


def softmax_of_logits(scores: SpanScores) -> Tensor:
    """What the classifier alone says."""
    return scores.logits.softmax(-1)


def find_entities(
    score: Callable[[Spans], SpanScores],
    lengths: Tensor,
    labels: Sequence[str],
    max_width: int | None = None,
    probabilities: Probabilities = softmax_of_logits,
    nested: bool = False,
    min_score: float = 0.0,
) -> list[list[Entity]]:
    """Entities of a batch: the spans whose best label is not ``O``, by falling score, without overlaps unless ``nested``.

    Args:
        score: scores the spans that it is given.
        lengths: words of each sentence.
        labels: names of the labels; the first is ``O``.
        max_width: no entity is longer.
        probabilities: scores → probabilities of the labels.
        nested: keep entities that overlap better ones.
        min_score: leave out entities that are less probable.
    """
    spans = enumerate_spans(lengths, max_width)
    found: list[tuple[Spans, Tensor, Tensor]] = []
    for begin in range(0, len(spans), SEARCH_CHUNK):
        part = spans[begin : begin + SEARCH_CHUNK]
        best, label = probabilities(score(part)).max(-1)
        kept = ((label != 0) & (best >= min_score)).nonzero().squeeze(1)
        found.append((part[kept], label[kept], best[kept]))
    if not found:
        return [[] for _ in lengths]
    kept_spans = Spans.concatenate([part for part, _, _ in found])
    columns = (kept_spans.row, kept_spans.start, kept_spans.end, torch.cat([label for _, label, _ in found]))
    row, start, end, kind = (column.cpu().numpy() for column in columns)
    scores = torch.cat([best for _, _, best in found]).cpu().numpy()
    order = np.lexsort((end, start, -scores, row))
    entities: list[list[Entity]] = [[] for _ in lengths]
    taken = np.zeros((len(lengths), int(lengths.max())), dtype=bool)
    for index in order:
        where = row[index], slice(start[index], end[index])
        if not nested:
            if taken[where].any():
                continue
            taken[where] = True
        entities[row[index]].append(
            Entity(int(start[index]), int(end[index]), labels[kind[index]], score=float(scores[index]), source="model")
        )
    return [sorted(sentence) for sentence in entities]
