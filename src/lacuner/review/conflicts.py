"""Conflicts: decisions that cannot be stored as they are, and how they are explained to the reviewer."""

from dataclasses import dataclass
from typing import Literal

from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.errors import LacunerError
from lacuner.review.decisions import Decision, patch_of
from lacuner.review.items import ReviewItem

_JOINERS = "\u200c\u200d"
Reason = Literal["already_decided", "overlap", "nothing_to_undo", "unknown_item", "invalid"]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflicts of a decision with the annotation of its sentence.

    Attributes:
        overlapping: entities that overlap the one to be added.
        contradicted: entities with exactly the span to be rejected.
        rejected: earlier rejected spans with exactly the words of the entity to be added.
    """

    overlapping: tuple[Entity, ...] = ()
    contradicted: tuple[Entity, ...] = ()
    rejected: tuple[Span, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.overlapping or self.contradicted or self.rejected)

    @property
    def can_keep_both(self) -> bool:
        """Whether both sides of the conflict can coexist: entities may overlap, but not be rejected as well."""
        return not (self.contradicted or self.rejected)


class ConflictError(LacunerError):
    """A decision that was not stored.

    Attributes:
        reason: ``already_decided`` (since the reviewer saw the item), ``overlap``, ``nothing_to_undo``, ``unknown_item``
            (there is no such item) or ``invalid`` (impossible span or label).
        message: the reason as a sentence.
        conflict: details, if ``reason`` is ``overlap``.
    """

    def __init__(self, reason: Reason, message: str, conflict: Conflict | None = None) -> None:
        super().__init__(message)
        self.reason, self.message, self.conflict = reason, message, conflict


def find_conflict(sentence: Sentence, item: ReviewItem, decision: Decision) -> Conflict:
    """Conflicts of a decision with the current annotation of a sentence.

    Existing overlaps are not counted, since the decision does not cause them.
    """
    patch = patch_of(item, decision)
    others = [entity for entity in sentence.entities if entity not in patch.removed]
    annotated = {entity.span for entity in sentence.entities}
    overlapping = []
    for new in patch.added:
        if new not in sentence.entities:
            known = new.span in annotated
            overlapping += [e for e in others if e.span == new.span or (not known and e.overlaps(new))]
    contradicted = [e for e in others if e.span in patch.rejected and e not in (*patch.added, *overlapping)]
    added = {new.span for new in patch.added}
    rejected = tuple(span for span in sentence.non_entities if span in added)
    return Conflict(tuple(overlapping), tuple(contradicted), rejected)


def check_decision(decision: Decision, sentence: Sentence) -> None:
    """Reject spans outside the sentence, and labels that no file can represent."""
    if not 0 <= decision.start < decision.end <= len(sentence):
        raise ConflictError("invalid", f"The sentence has no words {decision.start} to {decision.end}.")
    if not decision.label or not all(map(_fits_a_label, decision.label)):
        raise ConflictError("invalid", "A label has at least one character, and no spaces or control characters.")


def overlap_error(sentence: Sentence, item: ReviewItem, decision: Decision, conflict: Conflict) -> ConflictError:
    """Build the question that the reviewer must answer before the decision can be stored."""
    parts = []
    for new in patch_of(item, decision).added:
        if conflict.overlapping:
            parts.append(f"{_quoted(sentence, new)} overlaps {_list(sentence, conflict.overlapping)} already.")
        if conflict.rejected:
            parts.append(f"“{sentence.text_of(new.start, new.end)}” was rejected before.")
    if conflict.contradicted:
        parts.append(f"What you are about to reject is {_list(sentence, conflict.contradicted)} already.")
    return ConflictError("overlap", " ".join(parts), conflict)


def check_undo(earlier: Sentence, before: Sentence, after: Sentence) -> None:
    """Refuse to undo a step if a restored entity overlaps one that was added after the step.

    Args:
        earlier: the sentence with the decisions made before the step; its overlaps may be restored.
        before: the current sentence.
        after: the sentence without the step.
    """
    for one, other in sorted(_overlaps(after) - _overlaps(before) - _overlaps(earlier)):
        both = f"{_quoted(after, one)} and {_quoted(after, other)}"
        raise ConflictError("overlap", f"Undoing this would let {both} overlap; change the later one of them first.")


def _fits_a_label(character: str) -> bool:
    """Whether the character is visible; some scripts need joiners inside words."""
    return character in _JOINERS or (character.isprintable() and not character.isspace())


def _list(sentence: Sentence, entities: tuple[Entity, ...]) -> str:
    verb = "is" if len(entities) == 1 else "are"
    return f"{', '.join(_quoted(sentence, entity) for entity in entities)}, which {verb} annotated or accepted"


def _quoted(sentence: Sentence, entity: Entity) -> str:
    return f"“{sentence.text_of(entity.start, entity.end)}” ({entity.label})"


def _overlaps(sentence: Sentence) -> set[tuple[Entity, Entity]]:
    """Pairs of overlapping entities."""
    index = OverlapIndex(sentence.entities)
    return {(one, other) for one in sentence.entities for other in index.all(one) if one < other}
