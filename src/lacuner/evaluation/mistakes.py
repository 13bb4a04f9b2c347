"""What exactly went wrong: every missed, spurious, wrongly labeled and wrongly bounded entity."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import comparable_entities

Kind = Literal["missed", "spurious", "wrong-label", "wrong-boundary"]


def find_mistakes(pairs: Iterable[tuple[Sentence, Iterable[Entity]]]) -> Iterator[dict[str, Any]]:
    """One record for each mistake, over pairs of (annotated sentence, prediction).

    A prediction is compared with the annotated entity that it shares most words with: the same span is a *wrong label*,
    another one a *wrong boundary* (whose labels may differ, too). What shares no word with anything is *missed* or
    *spurious*; so is a prediction that overlaps only entities that were found. What counts as found is what
    :func:`~lacuner.evaluation.scores.score_entities` counts.
    """
    for index, (sentence, predicted) in enumerate(pairs):
        gold, found = comparable_entities(sentence, predicted)
        missed, spurious = sorted(gold - found), sorted(found - gold)
        explained: set[Entity] = set()
        for guess in spurious:
            other = max(missed, key=partial(_likeness, guess), default=None)
            if other is None or not other.overlaps(guess):
                yield _record(index, sentence, "spurious", None, guess)
                continue
            explained.add(other)
            kind: Kind = "wrong-label" if other.span == guess.span else "wrong-boundary"
            yield _record(index, sentence, kind, other, guess)
        for entity in missed:
            if entity not in explained:
                yield _record(index, sentence, "missed", entity, None)


def _record(
    index: int, sentence: Sentence, kind: Kind, gold: Entity | None, predicted: Entity | None
) -> dict[str, Any]:
    def show(entity: Entity | None) -> dict[str, Any] | None:
        if entity is None:
            return None
        shown = {"start": entity.start, "end": entity.end, "label": entity.label}
        shown["text"] = sentence.text_of(entity.start, entity.end)
        return shown if entity.score is None else shown | {"score": round(entity.score, 4)}

    context = " ".join(sentence.tokens)
    return {"sentence": index, "kind": kind, "gold": show(gold), "predicted": show(predicted), "context": context}


def _likeness(one: Entity, other: Entity) -> tuple[int, bool, int]:
    """Shared words; then whether all are shared; then which is first."""
    shared = min(one.end, other.end) - max(one.start, other.start)
    return max(0, shared), one.span == other.span, -other.start
