"""A reviewed corpus: accepted entities added, rejected spans known to be none."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lacuner.audit.folder import CORPUS, DECISIONS, FINDINGS, REPORT, SUMMARY
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import Format, write_sentences
from lacuner.corpus.files import STANDARD_INPUT
from lacuner.errors import ConfigError
from lacuner.review.decisions import Decisions
from lacuner.review.items import Status, apply_decisions


@dataclass
class Exported:
    """What is in the written corpus.

    Attributes:
        accepted: findings that were accepted.
        rejected: findings that were rejected.
        skipped: findings that were put off.
        open: findings that nobody has decided.
        sentences: all of them.
        entities: all of them.
        added: entities that were not there before (with these borders and this label).
        removed: entities that are not there any more.
        confirmed: entities that a reviewer has confirmed.
        non_entities: spans that are known to be none, all of them.
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


def export_corpus(decisions: Decisions, out: Path) -> Exported:
    """Write the audit's copy of the corpus with all decisions applied; the rest of it stays as it is."""
    folder = decisions.folder
    if str(out) != STANDARD_INPUT and out.resolve().parent == folder.path.resolve() and out.name in _OWN:
        raise ConfigError(
            f"--export {out}: this file belongs to the audit, and the review needs it; choose another name"
        )
    counts: dict[Status, int] = {"accepted": 0, "rejected": 0, "skipped": 0, "open": 0}
    report = Exported()
    for tally in decisions.tallies():
        counts[tally.status] += tally.count
    for status, count in counts.items():
        setattr(report, status, count)
    written: Format | None = "jsonl" if str(out) == STANDARD_INPUT else None
    write_sentences(_reviewed(decisions, report), out, written)
    return report


_OWN = (CORPUS, FINDINGS, SUMMARY, REPORT, DECISIONS)


def _reviewed(decisions: Decisions, report: Exported) -> Iterator[Sentence]:
    decided = decisions.all_decided()
    following = next(decided, None)
    for number, sentence in enumerate(decisions.folder.sentences()):
        written = sentence
        if following is not None and following[0] == number:
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
