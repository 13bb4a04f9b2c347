"""Combination of dictionary matches with model predictions."""

from collections.abc import Sequence
from dataclasses import replace

from lacuner.corpus import Entity


def combine(matches: Sequence[Entity], found: Sequence[Entity], nested: bool = False) -> list[Entity]:
    """Merge a dictionary's matches and a model's predictions for a sentence.

    Where they overlap, the match wins, except over a longer predicted entity that contains every match it overlaps: a
    dictionary with *heart* does not truncate *heart failure*. A match that the model also predicts gets the model's score;
    other matches have none.

    Args:
        matches: from the dictionary, without overlaps.
        found: the model's predictions.
        nested: keep everything, since entities may overlap; a match overrides the label of its span.

    >>> heart, aspirin = Entity(3, 4, "ORGAN"), Entity(6, 8, "DRUG")
    >>> combine([heart, aspirin], [Entity(0, 1, "DRUG"), Entity(3, 5, "DISEASE"), Entity(5, 7, "DRUG")])
    [Entity(start=0, end=1, label='DRUG'), Entity(start=3, end=5, label='DISEASE'), Entity(start=6, end=8, label='DRUG')]
    """
    if not matches or not found:
        return list(matches or found)
    scores = {entity: entity.score for entity in found}
    scored = [replace(match, score=scores[match]) if match in scores else match for match in matches]
    if nested:
        spans = {match.span for match in matches}
        return sorted([*scored, *(entity for entity in found if entity.span not in spans)])
    match_at = {word: index for index, match in enumerate(matches) for word in range(match.start, match.end)}
    replaced: set[int] = set()
    kept: list[Entity] = []
    for entity in found:
        overlapped = {match_at[word] for word in range(entity.start, entity.end) if word in match_at}
        if all(_is_inside(matches[index], entity) for index in overlapped):
            replaced |= overlapped
            kept.append(entity)
    return sorted([*(match for index, match in enumerate(scored) if index not in replaced), *kept])


def _is_inside(match: Entity, entity: Entity) -> bool:
    return entity.start <= match.start and match.end <= entity.end and entity.span != match.span
