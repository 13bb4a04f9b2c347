"""Decisions of reviewers about items, and how they change the annotation."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lacuner.corpus import OUTSIDE, Entity, Sentence, Source, Span
from lacuner.review.items import ReviewItem, Status

Action = Literal["accept", "reject", "skip"]
STATUS_AFTER: dict[Action, Status] = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A reviewer's decision about an item.

    Attributes:
        action: accept, reject or skip.
        start: first word, as set by the reviewer.
        end: end of the span (exclusive), as set by the reviewer.
        label: as chosen by the reviewer; ``O``: no entity.
        replaced: overlapping entities removed in favor of the accepted one.
    """

    action: Action
    start: int
    end: int
    label: str
    replaced: tuple[Entity, ...] = ()

    @classmethod
    def about(cls, item: ReviewItem, action: Action, start: int, end: int, label: str) -> "Decision":
        """Build a normalized decision.

        Changes of span or label count only if the item is accepted. Accepting a missing entity as ``O`` means rejecting it.
        """
        if action == "accept" and not (item.kind == "missing" and label == OUTSIDE):
            return cls(action, start, end, label)
        return cls("skip" if action == "skip" else "reject", item.start, item.end, item.label)


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes to a sentence by a decision.

    Attributes:
        added: entities that are added, or confirmed if already annotated.
        removed: entities that are removed.
        rejected: spans that are no entities; spans inside them may be.
    """

    added: tuple[Entity, ...] = ()
    removed: tuple[Entity, ...] = ()
    rejected: tuple[Span, ...] = ()


def patch_of(item: ReviewItem, decision: Decision) -> Patch:
    """The patch that a decision makes.

    ========  =====================================================  =================================================
    kind      accept                                                 reject
    ========  =====================================================  =================================================
    missing   the entity is added                                    the span is rejected
    label     the annotated entity gets the label; if that is ``O``, the annotated entity is confirmed
              it is removed, and its span rejected
    boundary  the entity replaces the annotated one, whose span is   the annotated entity is confirmed, the suggested
              rejected                                               span is rejected
    ========  =====================================================  =================================================
    """
    old, suggested = item.annotated, item.span
    if decision.action == "skip":
        return Patch()
    if decision.action == "reject":
        if old is None:
            return Patch(rejected=(suggested,))
        return Patch(added=(old,), rejected=() if suggested == old.span else (suggested,))
    removed = () if old is None else (old,)
    if decision.label == OUTSIDE:
        assert old is not None
        return Patch(removed=removed, rejected=tuple(dict.fromkeys((old.span, suggested))))
    new = Entity(decision.start, decision.end, decision.label)
    return Patch((new,), removed, () if old is None or old.span == new.span else (old.span,))


def apply_decisions(sentence: Sentence, decided: Iterable[tuple[ReviewItem, Decision]]) -> Sentence:
    """The sentence after applying decisions in order.

    Unknown fields are kept on the sentence, on confirmed or corrected entities, and on spans.
    """
    entities = {entity: entity for entity in sentence.entities}
    rejected = {span: span for span in sentence.non_entities}
    for item, decision in decided:
        patch = patch_of(item, decision)
        corrected = next((entities.pop(entity) for entity in patch.removed if entity in entities), None)
        for entity in decision.replaced:
            entities.pop(entity, None)
        for entity in patch.added:
            rejected.pop(entity.span, None)
            entities[entity] = _reviewed(entity, entities.get(entity, corrected))
        annotated = {entity.span for entity in entities}
        for span in patch.rejected:
            if span not in annotated:
                rejected[span] = replace(rejected.get(span, span), source=Source.REVIEWER)
    return replace(sentence, entities=tuple(entities.values()), non_entities=tuple(rejected.values()))


def _reviewed(new: Entity, old: Entity | None) -> Entity:
    """An entity decided by a reviewer, with the fields of the one that it confirms or corrects."""
    if old is None:
        return replace(new, source=Source.REVIEWER)
    return replace(new, source=Source.REVIEWER, text=old.text if new.span == old.span else None, extra=old.extra)
