"""Which spans of a sentence overlap, without comparing each with each."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Generic, TypeVar

from lacuner.corpus.sentence import Entity, HasOffsets

S = TypeVar("S", bound=HasOffsets)


class OverlapIndex(Generic[S]):
    """Spans in the order in which they begin, so that those that overlap another are found by bisection.

    Args:
        spans: of one sentence; they may overlap each other.
    """

    def __init__(self, spans: Iterable[S]) -> None:
        self._spans = sorted(spans, key=attrgetter("start", "end"))
        self._starts = [span.start for span in self._spans]
        self._reached = list(accumulate((span.end for span in self._spans), max))  # the last end so far

    def any(self, span: HasOffsets) -> bool:
        """Whether one of the spans shares a word with this one; the time is logarithmic."""
        before = bisect_left(self._starts, span.end)
        return before > 0 and self._reached[before - 1] > span.start

    def all(self, span: HasOffsets) -> list[S]:
        """The spans that share a word with this one, by start and end.

        Looks at what begins after the first of them, so that the time grows with their number and with the width of spans.
        """
        first, before = bisect_right(self._reached, span.start), bisect_left(self._starts, span.end)
        return [other for other in self._spans[first:before] if other.end > span.start]


def without_overlaps(entities: Sequence[Entity]) -> list[Entity]:
    """Entities that do not overlap, the longest first; a span with two labels may be either, and so is none of them.

    Args:
        entities: in the order in which a sentence has them.
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
