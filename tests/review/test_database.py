import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from handmade_audit import TURIN, finding, small_audit, small_corpus, statuses, write_audit
from lacuner.audit.folder import AuditFolder
from lacuner.errors import DataError
from lacuner.review.database import SCHEMA_VERSION, file_identity, open_database, transaction
from lacuner.review.review import Review

ADA = "ada-12345678"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "some.sqlite", isolation_level=None)
    opened.execute("PRAGMA foreign_keys = ON")
    opened.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    opened.execute("CREATE TABLE children (text TEXT, parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_audit(tmp_path / "audit")


def children(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM children").fetchone()[0])


def fill(connection: sqlite3.Connection) -> None:
    """As many rows as do not fit when the file may not grow."""
    connection.executemany("INSERT INTO children VALUES (?, NULL)", (("x" * 3000,) for _ in range(100)))


def test_what_ends_well_is_stored(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        fill(connection)
    assert children(connection) == 100


def test_what_fails_is_not_stored(connection: sqlite3.Connection) -> None:
    both = ("INSERT INTO children VALUES ('child', NULL)", "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(sqlite3.OperationalError, match="no such table"), transaction(connection):
        list(map(connection.execute, both))
    assert (connection.in_transaction, children(connection)) == (False, 0)


def test_a_full_disk_is_called_a_full_disk(connection: sqlite3.Connection) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="disk is full"), transaction(connection):
        fill(connection)
    assert (connection.in_transaction, children(connection)) == (False, 0)


def test_what_cannot_be_committed_is_taken_back_and_the_next_one_is_stored(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"), transaction(connection):
        connection.execute("INSERT INTO children VALUES ('orphan', 7)")
    assert (connection.in_transaction, children(connection)) == (False, 0)
    with transaction(connection):
        connection.execute("INSERT INTO children VALUES ('child', NULL)")
    assert children(connection) == 1


def test_an_audit_that_changed_under_decisions_is_refused(folder: Path) -> None:
    with Review(AuditFolder.open(folder)) as opened:
        opened.decide(ADA, TURIN, 0, "accept")
    kept = (folder / "findings.jsonl").read_text(encoding="utf-8")
    (folder / "findings.jsonl").write_text(kept.replace("Arsenal", "Chelsea"), encoding="utf-8")
    with pytest.raises(DataError, match=r"findings.jsonl changed after 1 findings .* put the old files back, or move"):
        Review(AuditFolder.open(folder))
    (folder / "findings.jsonl").write_text(kept, encoding="utf-8")
    with Review(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "open": 6}


def test_a_new_audit_takes_the_place_of_one_that_nobody_has_reviewed(folder: Path) -> None:
    Review(AuditFolder.open(folder)).close()
    corpus = small_corpus()
    write_audit(folder, corpus, [finding(corpus, 3, 4, 5, "LOC")])
    with Review(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"open": 1}


def test_files_that_cannot_be_used_are_named_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"this is not an audit \(summary.json is missing\) — give a folder"):
        AuditFolder.open(tmp_path)
    (folder / "review.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataError, match=r"review.sqlite: the decisions cannot be opened"):
        Review(AuditFolder.open(folder))
    (folder / "review.sqlite").unlink()
    with sqlite3.connect(folder / "review.sqlite") as stranger:
        stranger.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(DataError, match="another program's file"):
        Review(AuditFolder.open(folder))
    (folder / "review.sqlite").unlink()
    Review(AuditFolder.open(folder)).close()
    with sqlite3.connect(folder / "review.sqlite") as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="format version 99"):
        Review(AuditFolder.open(folder))


def test_findings_that_do_not_belong_to_the_corpus_are_refused(folder: Path) -> None:
    corpus = small_corpus()
    broken = finding(corpus, 0, 4, 5, "LOC")
    for wrong, message in (
        ({"end": 60}, "points past the last word of line 1 of corpus.jsonl"),
        ({"sentence": 60}, "points past the last word of line 61 of corpus.jsonl"),
        ({"start": 5}, "impossible offsets or an impossible probability"),
        ({"kind": "odd"}, r"findings.jsonl:1: this is not a finding .* there is no kind 'odd'"),
        ({"kind": "label"}, "kind label needs annotated"),
    ):
        shutil.rmtree(folder)
        write_audit(folder, corpus, [broken | wrong])
        with pytest.raises(DataError, match=message):
            Review(AuditFolder.open(folder))


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(folder: Path) -> None:
    connection = open_database(AuditFolder.open(folder))
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert (
        connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    )  # FULL: in WAL mode, anything less may lose commits
    connection.close()


def test_files_are_told_apart_even_if_they_have_the_same_content(folder: Path) -> None:
    audit = AuditFolder.open(folder)
    with Review(audit):
        before = file_identity(audit)
        assert None not in before
        assert file_identity(audit) == before
        for name in ("review.sqlite", "review.sqlite-wal", "review.sqlite-shm"):
            path = folder / name
            shutil.copy(path, folder / "copy")
            path.rename(folder / "kept")
            assert file_identity(audit) != before, "it is gone"
            (folder / "copy").rename(path)
            assert file_identity(audit) != before, "it is another one"
            (folder / "kept").rename(path)
            assert file_identity(audit) == before


def test_a_folder_that_cannot_be_written_can_be_read(folder: Path) -> None:
    with Review(AuditFolder.open(folder), read_only=True) as nothing_decided:
        assert statuses(nothing_decided) == {"open": 7}
    assert not list(folder.glob("review.sqlite*"))
    with Review(AuditFolder.open(folder)) as opened:
        opened.decide(ADA, TURIN, 0, "accept")
        with Review(AuditFolder.open(folder), read_only=True) as meanwhile:
            assert statuses(meanwhile) == {"accepted": 1, "open": 6}
    kept = (folder / "review.sqlite").read_bytes()
    with Review(AuditFolder.open(folder), read_only=True) as reader:
        assert statuses(reader) == {"accepted": 1, "open": 6}
        reader.decide(ADA, TURIN, 1, "reject")
    assert (folder / "review.sqlite").read_bytes() == kept
    assert [path.name for path in folder.glob("review.sqlite*")] == ["review.sqlite"]


def as_version_1(path: Path) -> None:
    """Turn a review into one that an older version has written."""
    with sqlite3.connect(path) as old:
        old.execute("DROP TRIGGER findings_counted")
        for table in ("counts", "labels"):
            old.execute(f"DROP TABLE {table}")
        for index, columns in (
            ("findings_in_order", "status, number"),
            ("findings_counted", "status, kind, label, probability"),
            ("findings_by_surface", "text, kind, label"),
        ):
            old.execute(f"DROP INDEX IF EXISTS {index}")
            old.execute(f"CREATE INDEX {index} ON findings ({columns})")
        old.execute("PRAGMA user_version = 1")
    old.close()


def test_a_review_of_an_older_version_goes_on_with_all_its_decisions(folder: Path) -> None:
    with Review(AuditFolder.open(folder)) as opened:
        opened.decide(ADA, TURIN, 0, "accept", label="CITY")
        counts, labels = [(c.status, c.kind, c.label, c.count) for c in opened.counts()], opened.labels()
    as_version_1(folder / "review.sqlite")
    with Review(AuditFolder.open(folder)) as again:
        assert [(c.status, c.kind, c.label, c.count) for c in again.counts()] == counts
        assert sum(count.expected for count in again.counts()) == pytest.approx(4.65)
        assert again.labels() == labels == ["LOC", "ORG", "PER", "CITY"]
        again.undo(ADA)
        assert statuses(again) == {"open": 7}
    with sqlite3.connect(folder / "review.sqlite") as updated:
        assert updated.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    updated.close()
