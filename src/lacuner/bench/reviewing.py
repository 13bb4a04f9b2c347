"""A simulated reviewer with access to the complete labels, to measure the benefit of a review."""

from collections.abc import Sequence
from pathlib import Path

from lacuner.audit.folder import AuditFolder
from lacuner.corpus import OUTSIDE, Corpus, Entity
from lacuner.review.export import export_corpus
from lacuner.review.items import ReviewItem
from lacuner.review.review import Review

NAME = "perfect"


def review_perfectly(folder: Path, gold: Corpus, max_findings: int) -> Corpus:
    """Decide about the first findings of an audit by the complete labels, as on the review page; return the new corpus."""
    with Review(AuditFolder.open(folder)) as review:
        for _ in range(max_findings):
            view, _ = review.next(NAME)
            if view is None:
                break
            item = view.item
            truth = true_entity(item, gold[item.sentence].entities)
            if truth is None and item.annotated is None:
                review.decide(NAME, item.number, view.version, "reject")
            elif truth == item.annotated:
                review.decide(NAME, item.number, view.version, "reject", on_overlap="replace")
            else:
                start, end, label = (
                    (item.start, item.end, OUTSIDE) if truth is None else (truth.start, truth.end, truth.label)
                )
                review.decide(NAME, item.number, view.version, "accept", start, end, label, on_overlap="replace")
        out = folder / "reviewed.jsonl"
        export_corpus(review, out)
    return Corpus.read(out)


def true_entity(item: ReviewItem, entities: Sequence[Entity]) -> Entity | None:
    """The gold entity that a finding is about: the overlapping one that shares most words with it."""

    def shared(entity: Entity) -> tuple[int, int]:
        common = min(entity.end, item.end) - max(entity.start, item.start)
        return common, common - (entity.end - entity.start)

    return max((e for e in entities if e.overlaps(item)), key=shared, default=None)
