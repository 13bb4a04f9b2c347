"""Classification of errors: missed and spurious entities, wrong labels and wrong boundaries."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.evaluation.scores import comparable_entities

Kind = Literal["missed", "spurious", "wrong-label", "wrong-boundary"]
_AROUND = 256
"""Words of context on either side of an error."""


class _Mistake(NamedTuple):
    kind: Kind
    gold: Entity | None
    predicted: Entity | None


def find_mistakes(pairs: Iterable[tuple[Sentence, Iterable[Entity]]]) -> Iterator[dict[str, Any]]:
    """Yield a record of each error, over pairs of (annotated sentence, prediction).

    A prediction is compared with the annotated entity that it shares most words with: the same span is a *wrong label*,
    another one a *wrong boundary* (possibly with a wrong label, too). Entities without overlap are *missed* or *spurious*,
    and so are predictions that overlap only entities that were found. Matches are counted as in
    :func:`~lacuner.evaluation.scores.score_entities`.
    """
    for index, (sentence, predicted) in enumerate(pairs):
        gold, found = comparable_entities(sentence, predicted)
        missed, spurious = sorted(gold - found), sorted(found - gold)
        shown = [*missed, *spurious]
        records = dict(zip(shown, map(_record, shown, sentence.texts_of(shown)), strict=True))
        for kind, annotated, guess in _compare(missed, spurious):
            yield {
                "sentence": index,
                "kind": kind,
                "gold": None if annotated is None else records[annotated],
                "predicted": None if guess is None else records[guess],
                "context": _context(sentence, [entity for entity in (annotated, guess) if entity is not None]),
            }


def _compare(missed: Sequence[Entity], spurious: Sequence[Entity]) -> Iterator[_Mistake]:
    """Yield the kind of each error, with the annotated and the predicted entity; both inputs are ordered by start and end."""
    candidates = OverlapIndex(missed)
    explained: set[Entity] = set()
    for guess in spurious:
        other = max(candidates.all(guess), key=partial(_likeness, guess), default=None)
        if other is None:
            yield _Mistake("spurious", None, guess)
            continue
        explained.add(other)
        yield _Mistake("wrong-label" if other.span == guess.span else "wrong-boundary", other, guess)
    for entity in missed:
        if entity not in explained:
            yield _Mistake("missed", entity, None)


def _record(entity: Entity, text: str) -> dict[str, Any]:
    shown = {"start": entity.start, "end": entity.end, "label": entity.label, "text": text}
    return shown if entity.score is None else shown | {"score": round(entity.score, 4)}


def _context(sentence: Sentence, entities: Sequence[Entity]) -> str:
    """The words of the sentence; if it is very long, those around the entities."""
    begin = max(0, min(entity.start for entity in entities) - _AROUND)
    end = max(entity.end for entity in entities) + _AROUND
    words = " ".join(sentence.tokens[begin:end])
    return f"{'… ' if begin else ''}{words}{' …' if end < len(sentence) else ''}"


def _likeness(one: Entity, other: Entity) -> tuple[int, bool, int]:
    """Sort key: number of shared words, then whether all are shared, then order."""
    shared = min(one.end, other.end) - max(one.start, other.start)
    return max(0, shared), one.span == other.span, -other.start
