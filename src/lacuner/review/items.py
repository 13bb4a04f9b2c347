"""A finding that is up for review, a decision about it, and what the decision does to its sentence."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from lacuner.audit.finding import Finding
from lacuner.corpus import OUTSIDE, Entity, Sentence, Span

Action = Literal["accept", "reject", "skip"]
Status = Literal["open", "accepted", "rejected", "skipped"]
STATUS_OF: dict[Action, Status] = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}
REVIEWER = "reviewer"
"""The source of what a person has decided."""


@dataclass(frozen=True, slots=True)
class Case(Finding):
    """A finding with its number.

    Attributes:
        number: its place in the list, from 0; the best is first.
    """

    number: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reviewer has decided about a case.

    Attributes:
        action: to accept, to reject, or to skip.
        start: first word, as the reviewer has moved it.
        end: behind the last word.
        label: as the reviewer has chosen it; ``O``: no entity.
        replaced: entities that overlap the accepted one, and that the reviewer gives up for it.
    """

    action: Action
    start: int
    end: int
    label: str
    replaced: tuple[Entity, ...] = ()

    @classmethod
    def about(cls, case: Case, action: Action, start: int, end: int, label: str) -> "Decision":
        """Only what is accepted can have been changed; a missing entity that is none is a rejected one."""
        if action == "accept" and not (case.kind == "missing" and label == OUTSIDE):
            return cls(action, start, end, label)
        return cls("skip" if action == "skip" else "reject", case.start, case.end, case.label)


@dataclass(frozen=True, slots=True)
class Patch:
    """What becomes of a sentence: entities added (or confirmed), entities removed, spans known to be none."""

    added: tuple[Entity, ...] = ()
    removed: tuple[Entity, ...] = ()
    rejected: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """What stands in the way of a decision.

    Attributes:
        overlapping: entities that share words with the one that would be added.
        denied: entities with the very words that would be known to be none.
        rejected: spans with the very words that would be added, which somebody has rejected.
    """

    overlapping: tuple[Entity, ...] = ()
    denied: tuple[Entity, ...] = ()
    rejected: tuple[Span, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.overlapping or self.denied or self.rejected)

    @property
    def only_one(self) -> bool:
        """Whether the sentence cannot hold both."""
        return bool(self.denied or self.rejected)


def effect_of(case: Case, decision: Decision) -> Patch:
    """The meaning of a decision.

    ========  =====================================================  =================================================
    kind      accept                                                 reject
    ========  =====================================================  =================================================
    missing   the entity is added                                    the span is known to be none
    label     the annotated entity gets the label; if that is ``O``, the annotated entity is confirmed
              it is removed, and its span known to be none
    boundary  the entity takes the annotated one's place, whose      the annotated entity is confirmed, the suggested
              span is known to be none                               span known to be none
    ========  =====================================================  =================================================
    """
    old = case.annotated
    suggested = (case.start, case.end)
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


def apply_decisions(sentence: Sentence, decided: Iterable[tuple[Case, Decision]]) -> Sentence:
    """The sentence after decisions, one after the other."""
    entities = {_key(entity): entity for entity in sentence.entities}
    rejected = {(span.start, span.end): span for span in sentence.non_entities}
    for case, decision in decided:
        effect = effect_of(case, decision)
        for entity in (*effect.removed, *decision.replaced):
            entities.pop(_key(entity), None)
        for entity in effect.added:
            rejected.pop((entity.start, entity.end), None)
            entities[_key(entity)] = replace(entity, source=REVIEWER)
        taken = {(entity.start, entity.end) for entity in entities.values()}
        rejected |= {span: Span(*span, source=REVIEWER) for span in effect.rejected if span not in taken}
    return replace(sentence, entities=tuple(entities.values()), non_entities=tuple(rejected.values()))


def clash_of(sentence: Sentence, case: Case, decision: Decision) -> Conflict:
    """What stands in the way of a decision about a sentence as it is now.

    Entities that overlapped before the decision did not get in its way by it, so they do not count.
    """
    effect = effect_of(case, decision)
    gone = {_key(entity) for entity in effect.removed}
    others = [entity for entity in sentence.entities if _key(entity) not in gone]
    occupied = {(entity.start, entity.end) for entity in sentence.entities}
    overlapping = []
    for new in effect.added:
        if new in sentence.entities:
            continue
        there_before = (new.start, new.end) in occupied
        for other in others:
            same = (other.start, other.end) == (new.start, new.end)
            if same or (not there_before and other.start < new.end and new.start < other.end):
                overlapping.append(other)
    denied = [e for e in others if (e.start, e.end) in effect.rejected and e not in (*effect.added, *overlapping)]
    places = {(new.start, new.end) for new in effect.added}
    rejected = tuple(span for span in sentence.non_entities if (span.start, span.end) in places)
    return Conflict(tuple(overlapping), tuple(denied), rejected)


def _key(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
