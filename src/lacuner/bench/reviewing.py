"""A reviewer who is always right, because the complete labels are known: what would a review bring?"""

from collections.abc import Sequence
from pathlib import Path

from lacuner.audit.folder import AuditFolder
from lacuner.corpus import OUTSIDE, Corpus, Entity
from lacuner.review.decisions import Decisions
from lacuner.review.export import export_corpus
from lacuner.review.items import Case

NAME = "perfect"


def review_perfectly(folder: Path, gold: Corpus, most: int) -> Corpus:
    """Decide about the first findings of an audit as the complete labels say, in the way that the page does; the new corpus."""
    with Decisions(AuditFolder.open(folder)) as decisions:
        for _ in range(most):
            shown, _ = decisions.next(NAME)
            if shown is None:
                break
            case = shown.case
            truth = true_entity(case, gold[case.sentence].entities)
            if truth is None and case.annotated is None:
                decisions.decide(NAME, case.number, shown.version, "reject")
            elif truth == case.annotated:
                decisions.decide(NAME, case.number, shown.version, "reject", overlaps="replace")
            else:
                start, end, label = (case.start, case.end, OUTSIDE) if truth is None else _place(truth)
                decisions.decide(NAME, case.number, shown.version, "accept", start, end, label, overlaps="replace")
        out = folder / "reviewed.jsonl"
        export_corpus(decisions, out)
    return Corpus.read(out)


def true_entity(case: Case, entities: Sequence[Entity]) -> Entity | None:
    """The entity that a finding is about: of those that overlap it, the one that shares most words with it."""

    def shared(entity: Entity) -> tuple[int, int]:
        common = min(entity.end, case.end) - max(entity.start, case.start)
        return common, common - (entity.end - entity.start)

    return max((e for e in entities if e.start < case.end and case.start < e.end), key=shared, default=None)


def _place(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
