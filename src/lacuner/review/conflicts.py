"""Why a decision is not stored, in words."""

from lacuner.corpus import Entity, Sentence
from lacuner.review.items import Case, Conflict, Decision, effect_of


class ConflictError(Exception):
    """A decision that was not stored.

    Attributes:
        reason: ``decided`` (by somebody, meanwhile), ``overlap``, ``nothing`` (to undo), ``unknown`` (there is no such
            finding) or ``wrong`` (makes no sense).
        message: says it in words.
        clash: what stands in the way, if ``reason`` is ``overlap``.
    """

    def __init__(self, reason: str, message: str, clash: Conflict | None = None) -> None:
        super().__init__(message)
        self.reason, self.message, self.clash = reason, message, clash


def refuse_nonsense(decision: Decision, sentence: Sentence) -> None:
    """Spans outside the sentence, and labels that no file could hold."""
    if not 0 <= decision.start < decision.end <= len(sentence):
        raise ConflictError("wrong", f"The sentence has no words {decision.start} to {decision.end}.")
    if not decision.label or decision.label != "".join(decision.label.split()):
        raise ConflictError("wrong", "A label has at least one character, and no spaces.")


def refuse_clash(sentence: Sentence, case: Case, decision: Decision, clash: Conflict) -> None:
    """A question that the reviewer has to answer first."""
    parts = []
    for new in effect_of(case, decision).added:
        if clash.overlapping:
            parts.append(f"{_quoted(sentence, new)} overlaps {_list(sentence, clash.overlapping)} already.")
        if clash.rejected:
            parts.append(f"“{sentence.text_of(new.start, new.end)}” was rejected before.")
    if clash.denied:
        parts.append(f"What you are about to reject is {_list(sentence, clash.denied)} already.")
    raise ConflictError("overlap", " ".join(parts), clash)


def refuse_new_overlaps(before: Sentence, after: Sentence) -> None:
    """Undoing must not let two entities overlap that did not."""
    for one, other in sorted(_overlaps(after) - _overlaps(before)):
        both = f"{_quoted(after, one)} and {_quoted(after, other)}"
        raise ConflictError("overlap", f"Undoing this would let {both} overlap; change the later one of them first.")


def _list(sentence: Sentence, entities: tuple[Entity, ...]) -> str:
    verb = "is" if len(entities) == 1 else "are"
    return f"{', '.join(_quoted(sentence, entity) for entity in entities)}, which {verb} annotated or accepted"


def _quoted(sentence: Sentence, entity: Entity) -> str:
    return f"“{sentence.text_of(entity.start, entity.end)}” ({entity.label})"


def _overlaps(sentence: Sentence) -> set[tuple[Entity, Entity]]:
    """Pairs of entities that share words."""
    found = set()
    for index, one in enumerate(sentence.entities):
        for other in sentence.entities[index + 1 :]:
            if other.start >= one.end:
                break
            found.add((one, other))
    return found
