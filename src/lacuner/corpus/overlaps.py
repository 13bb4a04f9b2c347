"""Finding overlapping spans of a sentence in less than quadratic time."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Generic, TypeVar

from lacuner.corpus.sentence import Entity, HasOffsets

S = TypeVar("S", bound=HasOffsets)


class OverlapIndex(Generic[S]):
    """Spans sorted by start, so that overlaps are found by bisection.

    Args:
        spans: of one sentence; they may overlap each other.
    """

    def __init__(self, spans: Iterable[S]) -> None:
        self._spans = sorted(spans, key=attrgetter("start", "end"))
        self._starts = [span.start for span in self._spans]
        self._reached = list(accumulate((span.end for span in self._spans), max))  # running maximum of ends

    def any(self, span: HasOffsets) -> bool:
        """Whether any of the spans shares a word with this one, in logarithmic time."""
        before = bisect_left(self._starts, span.end)
        return before > 0 and self._reached[before - 1] > span.start

    def all(self, span: HasOffsets) -> list[S]:
        """The spans that share a word with this one, by start and end.

        Scans from the first of them, so the time grows with their number and with the width of spans.
        """
        first, before = bisect_right(self._reached, span.start), bisect_left(self._starts, span.end)
        return [other for other in self._spans[first:before] if other.end > span.start]


def without_overlaps(entities: Sequence[Entity]) -> list[Entity]:
    """Select entities that do not overlap, longest first; a span with two possible labels is dropped.

    Args:
        entities: in the order of the sentence.
    """
    if all(entity.end <= other.start for entity, other in pairwise(entities)):
        return list(entities)
    twice = {entity.span for entity, other in pairwise(entities) if entity.span == other.span}
    chosen: list[Entity] = []
    taken: set[int] = set()
    for entity in sorted(entities, key=lambda entity: (entity.start - entity.end, entity.start)):
        if entity.span not in twice and taken.isdisjoint(range(entity.start, entity.end)):
            chosen.append(entity)
            taken.update(range(entity.start, entity.end))
    return sorted(chosen)
