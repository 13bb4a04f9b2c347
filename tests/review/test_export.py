import json
from pathlib import Path

import pytest

from handmade_audit import (
    MAY,
    MONTH,
    NEWSPAPER,
    TEAM,
    TURIN,
    TURIN_AGAIN,
    finding,
    small_audit,
    small_corpus,
    write_audit,
)
from lacuner import Corpus, Entity, Sentence, Span
from lacuner.audit.folder import AuditFolder
from lacuner.errors import DataError
from lacuner.review.export import export_corpus
from lacuner.review.review import Review
from lacuner.supervision.spans import build_targets

ADA = "ada-12345678"


@pytest.fixture
def review(tmp_path: Path):
    with Review(AuditFolder.open(small_audit(tmp_path / "audit"))) as opened:
        yield opened


def decide_some(review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept")
    review.decide(ADA, NEWSPAPER, 0, "accept")
    review.decide(ADA, TEAM, 0, "reject")
    review.decide(ADA, MONTH, 0, "accept")
    review.decide(ADA, TURIN_AGAIN, 0, "skip")
    review.decide(ADA, MAY, 0, "reject")


@pytest.mark.parametrize("name", ["reviewed.jsonl", "reviewed.conll", "reviewed.jsonl.gz"])
def test_decisions_go_into_the_corpus_and_come_back_from_its_file(review: Review, tmp_path: Path, name: str) -> None:
    decide_some(review)
    report = export_corpus(review, tmp_path / name)
    reviewed = Corpus.read(tmp_path / name)
    assert reviewed[0].entities == (Entity(0, 2, "PER"), Entity(4, 5, "LOC"))
    assert [entity.source for entity in reviewed[0].entities] == ["human", "reviewer"]
    assert reviewed[1].entities == (Entity(0, 3, "ORG"),)
    assert reviewed[1].non_entities == (Span(0, 2),)
    assert reviewed[2].entities == (Entity(0, 1, "LOC"),)
    assert reviewed[2].entities[0].source == "reviewer"
    assert reviewed[2].non_entities == (Span(3, 4),)
    assert reviewed[2].non_entities[0].source == "reviewer"
    assert reviewed[3].entities == ()
    assert reviewed[3].non_entities == (Span(0, 1),)
    assert report.as_dict() == {
        "accepted": 3, "rejected": 2, "skipped": 1, "open": 1, "sentences": 4, "entities": 4, "added": 2, "removed": 2,
        "confirmed": 1, "non_entities": 3,
    }  # fmt: skip


def test_fields_of_a_record_that_lacuner_does_not_know_are_exported(tmp_path: Path) -> None:
    known = Entity(0, 2, "PER", extra={"id": "T1"})
    sentence = Sentence(("Ada", "Lovelace", "left", "Turin"), (known,), extra={"id": 7, "meta": {"page": 3}})
    corpus = Corpus((sentence, Sentence(("Oslo",), extra={"id": 8})))
    folder = write_audit(tmp_path / "audit", corpus, [finding(corpus, 0, 3, 4, "LOC")])
    with Review(AuditFolder.open(folder)) as review:
        review.decide(ADA, 0, 0, "accept")
        export_corpus(review, tmp_path / "reviewed.jsonl")
    first, second = map(json.loads, (tmp_path / "reviewed.jsonl").read_text(encoding="utf-8").splitlines())
    assert (first["id"], first["meta"], second["id"]) == (7, {"page": 3}, 8)
    assert first["entities"] == [
        {"start": 0, "end": 2, "label": "PER", "id": "T1"},
        {"start": 3, "end": 4, "label": "LOC", "source": "reviewer"},
    ]


def test_without_decisions_the_corpus_is_as_it_was(review: Review, tmp_path: Path) -> None:
    export_corpus(review, tmp_path / "same.jsonl")
    assert (tmp_path / "same.jsonl").read_bytes() == (tmp_path / "audit" / "corpus.jsonl").read_bytes()


def test_training_is_told_what_was_accepted_and_what_was_rejected(review: Review, tmp_path: Path) -> None:
    decide_some(review)
    export_corpus(review, tmp_path / "reviewed.jsonl")
    corpus = Corpus.read(tmp_path / "reviewed.jsonl")
    targets = build_targets(corpus, ("O", *corpus.labels))
    positives = set(
        zip(
            *(part.tolist() for part in (targets.positives.row, targets.positives.start, targets.positives.end)),
            strict=True,
        )
    )
    rejected = set(
        zip(
            *(part.tolist() for part in (targets.rejected.row, targets.rejected.start, targets.rejected.end)),
            strict=True,
        )
    )
    assert positives >= {(0, 4, 5), (1, 0, 3)}
    assert rejected == {(1, 0, 2), (2, 3, 4), (3, 0, 1)}
    for sentence, start, end in rejected:
        assert corpus[sentence].possible_labels(start, end, corpus.labels) == {"O"}


def test_the_files_of_the_audit_are_never_overwritten(review: Review, tmp_path: Path) -> None:
    (tmp_path / "audit" / "exports").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "audit" / "corpus.jsonl")
    before = (tmp_path / "audit" / "corpus.jsonl").read_bytes()
    names = ("corpus.jsonl", "findings.jsonl", "summary.json", "report.html", "review.sqlite", "exports/prodigy.jsonl")
    for path in (*(tmp_path / "audit" / name for name in names), tmp_path / "link.jsonl"):
        with pytest.raises(DataError, match=r"--export (would overwrite a file of the audit|lies in the folder)"):
            export_corpus(review, path)
    assert (tmp_path / "audit" / "corpus.jsonl").read_bytes() == before
    export_corpus(review, tmp_path / "audit" / "reviewed.jsonl")  # the folder may hold other files


def test_the_audited_corpus_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "train.conll"
    small_corpus().write(source)
    before = source.read_bytes()
    folder = AuditFolder.open(small_audit(tmp_path / "audit", source))
    with Review(folder) as review, pytest.raises(DataError, match="--export would overwrite the audited corpus"):
        export_corpus(review, tmp_path / "audit" / ".." / "train.conll")
    assert source.read_bytes() == before
