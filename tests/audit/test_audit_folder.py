from pathlib import Path

from handmade_audit import small_audit, small_corpus
from lacuner import Entity
from lacuner.audit.audit import Audit
from lacuner.audit.finding import Finding
from lacuner.audit.folder import AuditFolder, hash_of_files
from lacuner.audit.model import Estimate
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
