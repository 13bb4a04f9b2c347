"""What a reviewer decides about an item, and how the decision changes the annotation of its sentence."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lacuner.corpus import OUTSIDE, Entity, Sentence, Span
from lacuner.review.items import ReviewItem, Status

Action = Literal["accept", "reject", "skip"]
STATUS_AFTER: dict[Action, Status] = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}
REVIEWER = "reviewer"
"""The source of everything that a person has decided."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reviewer has decided about an item.

    Attributes:
        action: accept, reject or skip.
        start: first word, as the reviewer has set it.
        end: end of the span (exclusive), as the reviewer has set it.
        label: as the reviewer has chosen it; ``O``: no entity.
        replaced: entities that overlap the accepted one and are removed for it.
    """

    action: Action
    start: int
    end: int
    label: str
    replaced: tuple[Entity, ...] = ()

    @classmethod
    def about(cls, item: ReviewItem, action: Action, start: int, end: int, label: str) -> "Decision":
        """A decision in its normal form.

        Changes of span or label count only if the item is accepted. Accepting a missing entity as ``O`` is rejecting it.
        """
        if action == "accept" and not (item.kind == "missing" and label == OUTSIDE):
            return cls(action, start, end, label)
        return cls("skip" if action == "skip" else "reject", item.start, item.end, item.label)


@dataclass(frozen=True, slots=True)
class Patch:
    """How a decision changes a sentence.

    Attributes:
        added: entities that are added, or confirmed if they are annotated already.
        removed: entities that are removed.
        rejected: ``(start, end)`` of spans that are no entities. Nothing is said about the spans inside them.
    """

    added: tuple[Entity, ...] = ()
    removed: tuple[Entity, ...] = ()
    rejected: tuple[tuple[int, int], ...] = ()


def patch_of(item: ReviewItem, decision: Decision) -> Patch:
    """The patch that a decision stands for.

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
    old = item.annotated
    suggested = (item.start, item.end)
    if decision.action == "skip":
        return Patch()
    if decision.action == "reject":
        if old is None:
            return Patch(rejected=(suggested,))
        return Patch(added=(old,), rejected=() if suggested == (old.start, old.end) else (suggested,))
    removed = () if old is None else (old,)
    if decision.label == OUTSIDE:
        assert old is not None
        return Patch(removed=removed, rejected=tuple(dict.fromkeys([(old.start, old.end), suggested])))
    new = Entity(decision.start, decision.end, decision.label)
    moved = old is not None and (old.start, old.end) != (new.start, new.end)
    return Patch((new,), removed, ((old.start, old.end),) if old is not None and moved else ())


def apply_decisions(sentence: Sentence, decided: Iterable[tuple[ReviewItem, Decision]]) -> Sentence:
    """The sentence after decisions, applied in their order."""
    entities = {entity_key(entity): entity for entity in sentence.entities}
    rejected = {(span.start, span.end): span for span in sentence.non_entities}
    for item, decision in decided:
        patch = patch_of(item, decision)
        for entity in (*patch.removed, *decision.replaced):
            entities.pop(entity_key(entity), None)
        for entity in patch.added:
            rejected.pop((entity.start, entity.end), None)
            entities[entity_key(entity)] = replace(entity, source=REVIEWER)
        annotated = {(entity.start, entity.end) for entity in entities.values()}
        rejected |= {span: Span(*span, source=REVIEWER) for span in patch.rejected if span not in annotated}
    return replace(sentence, entities=tuple(entities.values()), non_entities=tuple(rejected.values()))


def entity_key(entity: Entity) -> tuple[int, int, str]:
    """What identifies an entity in its sentence."""
    return entity.start, entity.end, entity.label
