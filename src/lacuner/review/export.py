"""Export of the reviewed corpus: the audit's copy of the corpus with all decisions applied."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lacuner.corpus import Sentence
from lacuner.corpus.corpus import write_sentences
from lacuner.corpus.files import STANDARD_INPUT, refuse_overwriting
from lacuner.review.decisions import apply_decisions
from lacuner.review.items import Status
from lacuner.review.review import Review


@dataclass
class ExportReport:
    """Counts of the exported corpus.

    Attributes:
        accepted: accepted findings.
        rejected: rejected findings.
        skipped: skipped findings.
        open: findings without a decision.
        sentences: sentences.
        entities: entities.
        added: entities with a span and label that was not annotated before.
        removed: entities that were annotated before, but no longer are.
        confirmed: annotated entities confirmed by a reviewer.
        non_entities: rejected spans, from this review or before.
    """

    accepted: int = 0
    rejected: int = 0
    skipped: int = 0
    open: int = 0
    sentences: int = 0
    entities: int = 0
    added: int = 0
    removed: int = 0
    confirmed: int = 0
    non_entities: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def export_corpus(review: Review, out: Path) -> ExportReport:
    """Write the corpus with all decisions applied; everything else is written as it was read.

    Raises:
        DataError: ``out`` is a file of the audit, or one of the audited files.
    """
    folder = review.folder
    protected = {"a file of the audit": folder.files, "the audited corpus": folder.audited_files}
    refuse_overwriting(out, protected, "--export")
    counts: dict[Status, int] = {"accepted": 0, "rejected": 0, "skipped": 0, "open": 0}
    for count in review.counts():
        counts[count.status] += count.count
    report = ExportReport(**counts)
    written = "jsonl" if str(out) == STANDARD_INPUT else None
    write_sentences(_reviewed(review, report), out, written)
    return report


def _reviewed(review: Review, report: ExportReport) -> Iterator[Sentence]:
    decided = review.decisions_by_sentence()
    following = next(decided, None)
    for index, sentence in enumerate(review.folder.sentences()):
        written = sentence
        if following is not None and following[0] == index:
            written = apply_decisions(sentence, following[1])
            following = next(decided, None)
            before, after = set(sentence.entities), set(written.entities)
            report.added += len(after - before)
            report.removed += len(before - after)
            sources = {entity: entity.source for entity in sentence.entities}
            report.confirmed += sum(sources[e] != e.source for e in written.entities if e in before)
        report.sentences += 1
        report.entities += len(written.entities)
        report.non_entities += len(written.non_entities)
        yield written
