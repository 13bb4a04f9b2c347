import json
from pathlib import Path

import pytest

from handmade_audit import small_audit, small_corpus
from lacuner import Entity
from lacuner.audit.audit import Audit
from lacuner.audit.finding import Finding
from lacuner.audit.folder import AuditFolder, hash_of_files
from lacuner.audit.model import Estimate
from lacuner.errors import DataError
from lacuner.review.review import Review


def test_a_corpus_that_changed_since_the_audit_is_said_and_nothing_else_happens(tmp_path: Path) -> None:
    source = tmp_path / "train.conll"
    small_corpus().write(source)
    folder = AuditFolder.open(small_audit(tmp_path / "audit", source))
    assert folder.warning() is None
    source.write_text("Chelsea\tB-ORG\n", encoding="utf-8")
    assert "has changed since the audit" in (folder.warning() or "")
    source.unlink()
    assert folder.warning() is None


def test_an_audit_that_lacuner_writes_can_be_reviewed(tmp_path: Path) -> None:
    corpus = small_corpus()
    old = Entity(0, 2, "LOC")
    found = (
        Finding(0, 4, 5, "LOC", 0.9, "missing", "Turin"),
        Finding(1, 0, 3, "ORG", 0.8, "boundary", "New York Times", old),
    )
    about = {"corpus": "names.conll", "hash": "0", "sentences": 4, "entities": 4}
    Audit(corpus, found, Estimate(2.0, 1.0, 3.0, {"LOC": (2.0, 1.0, 3.0)}, 0.6), about).write(tmp_path / "audit")
    names = {path.name for path in (tmp_path / "audit").iterdir()}
    assert names == {"corpus.jsonl", "findings.jsonl", "summary.json", "report.html", "exports"}
    with Review(AuditFolder.open(tmp_path / "audit")) as opened:
        assert sum(count.count for count in opened.counts()) == 2
        view = opened.view("ada-12345678", 1)
        assert (view.item.kind, view.item.annotated) == ("boundary", Entity(0, 2, "LOC"))


def test_a_folder_has_changed_when_a_file_in_it_has(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("Ada")
    (data / "b.ann").write_text("T1\tPER 0 3\tAda\n")
    before = hash_of_files([data])
    assert before == hash_of_files([data / "a.txt", data / "b.ann"])
    (data / "b.ann").write_text("")
    assert hash_of_files([data]) != before


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ({"format_version": 2}, "the audit has format version 2, not 1 — run the audit again with this version, or"),
        ({}, "the audit has format version None, not 1 — run the audit again"),
        ([1], "the audit has format version None, not 1 — run the audit again"),
    ],
)  # fmt: skip
def test_an_audit_of_another_version_is_refused(tmp_path: Path, summary: object, message: str) -> None:
    folder = small_audit(tmp_path / "audit")
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DataError, match=f"^{folder}: {message}"):
        AuditFolder.open(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "findings.jsonl"])
def test_an_audit_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = small_audit(tmp_path / "audit")
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"the audit is incomplete \({name} is missing\) — give a folder written by"):
        AuditFolder.open(folder)


def test_a_file_is_no_audit(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("Ada\tB-PER\n")
    with pytest.raises(DataError, match=r"train.conll: this is a file, not an audit — give a folder written by"):
        AuditFolder.open(tmp_path / "train.conll")


def test_a_summary_that_is_there_but_damaged_is_not_said_to_be_missing(tmp_path: Path) -> None:
    folder = small_audit(tmp_path / "audit")
    (folder / "summary.json").write_text("{")
    with pytest.raises(DataError, match=r"this is not an audit \(Expecting property name"):
        AuditFolder.open(folder)
