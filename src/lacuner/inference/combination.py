"""A dictionary and a model together: the list where it knows a name, the model for the rest."""

from collections.abc import Sequence
from dataclasses import replace

from lacuner.corpus import Entity


def combine(matches: Sequence[Entity], found: Sequence[Entity], nested: bool = False) -> list[Entity]:
    """The entities of a sentence, out of a dictionary's matches and what a model has found.

    The match decides wherever the two overlap, except where the model's entity is the longer one and holds every match that
    it overlaps: a list that has *heart* does not cut *heart failure*. A match that the model has found, too, keeps the
    model's score; other matches have none.

    Args:
        matches: of the dictionary; none overlaps another.
        found: by the model.
        nested: entities may overlap, so everything stays; the match decides about the label of its span.

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
