"""Audits written by hand, in the format of ``lacuner audit``."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from lacuner import Corpus, Entity, Sentence
from lacuner.review.decisions import Decision
from lacuner.review.items import ReviewItem
from lacuner.review.review import Review


def finding(
    corpus: Corpus, sentence: int, start: int, end: int, label: str, probability: float = 0.9, old: Entity | None = None
) -> dict[str, Any]:
    record: dict[str, Any] = {"sentence": sentence, "start": start, "end": end, "label": label}
    record |= {"probability": probability, "kind": "missing", "text": corpus[sentence].text_of(start, end)}
    if old is not None:
        same = (old.start, old.end) == (start, end)
        record["kind"] = "label" if same else "boundary"
        record["annotated"] = {"start": old.start, "end": old.end, "label": old.label}
    return record


def write_audit(folder: Path, corpus: Corpus, findings: list[dict[str, Any]], source: Path | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    corpus.write(folder / "corpus.jsonl")
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in findings)
    (folder / "findings.jsonl").write_text("".join(lines), encoding="utf-8")
    each = {label: {"total": 3.0, "low": 2.0, "high": 4.0} for label in corpus.labels}
    estimate = {"total": 12.0, "low": 8.0, "high": 16.0, "labels": each, "annotated_share": 0.7}
    summary: dict[str, Any] = {"format_version": 1, "findings": len(findings), "kinds": {}}
    summary |= {"estimated_missing": estimate, "corpus": str(source or "names.conll"), "hash": "0"}
    if source is not None:
        inner = hashlib.sha256(source.read_bytes()).digest()
        summary |= {"hash": hashlib.sha256(inner).hexdigest(), "files": [str(source)]}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder


OLD_NEWSPAPER = Entity(0, 2, "LOC")
OLD_TEAM = Entity(0, 1, "LOC")
OLD_MONTH = Entity(0, 1, "PER")


def small_corpus() -> Corpus:
    return Corpus(
        (
            Sentence(("Ada", "Lovelace", "moved", "to", "Turin", "."), (Entity(0, 2, "PER", source="human"),)),
            Sentence(("New", "York", "Times", "readers", "love", "Turin", "."), (OLD_NEWSPAPER,)),
            Sentence(("Arsenal", "won", "in", "May", "in", "Turin", "."), (OLD_TEAM,)),
            Sentence(("May", "is", "warm", "in", "Oslo", "."), (OLD_MONTH,)),
        )
    )


def small_audit(folder: Path, source: Path | None = None) -> Path:
    """Seven findings: Turin thrice, a newspaper with wrong borders, a team that is no place, a month that is nobody, May."""
    corpus = small_corpus()
    findings = [
        finding(corpus, 0, 4, 5, "LOC", 0.95),
        finding(corpus, 1, 0, 3, "ORG", 0.9, OLD_NEWSPAPER),
        finding(corpus, 2, 0, 1, "ORG", 0.8, OLD_TEAM),
        finding(corpus, 3, 0, 1, "O", 0.7, OLD_MONTH),
        finding(corpus, 1, 5, 6, "LOC", 0.6),
        finding(corpus, 2, 5, 6, "LOC", 0.5),
        finding(corpus, 2, 3, 4, "PER", 0.2),
    ]
    return write_audit(folder, corpus, findings, source)


TURIN, NEWSPAPER, TEAM, MONTH, TURIN_AGAIN, TURIN_THIRD, MAY = range(7)


def statuses(review: Review) -> dict[str, int]:
    """How many findings have each status."""
    counts: Counter[str] = Counter()
    for count in review.counts():
        counts[count.status] += count.count
    return dict(counts)


@st.composite
def decided_items(draw: st.DrawFn, items: tuple[ReviewItem, ...]) -> tuple[ReviewItem, Decision]:
    """An item in a sentence of six words with any decision about it."""
    item = draw(st.sampled_from(items))
    start = draw(st.integers(0, 5))
    end = draw(st.integers(start + 1, 6))
    label = draw(st.sampled_from(("LOC", "ORG", "O")))
    return item, Decision.about(item, draw(st.sampled_from(("accept", "reject", "skip"))), start, end, label)
