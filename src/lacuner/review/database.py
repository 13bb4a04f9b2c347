"""The SQLite file of a review: its tables, and how an audit is loaded into them."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lacuner.audit.finding import Finding
from lacuner.audit.folder import CORPUS, DECISIONS, FINDINGS, AuditFolder
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

APPLICATION = 0x4C41434E  # "LACN"
SCHEMA_VERSION = 2
BUSY_SECONDS = 10.0
"""Seconds to wait for another writing process."""
_SCHEMA = """
CREATE TABLE files (name TEXT PRIMARY KEY, hash TEXT NOT NULL);
CREATE TABLE sentences (number INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE findings (
    number INTEGER PRIMARY KEY,
    sentence INTEGER NOT NULL REFERENCES sentences,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    label TEXT NOT NULL,
    probability REAL NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    old_start INTEGER,
    old_end INTEGER,
    old_label TEXT,
    status TEXT NOT NULL DEFAULT 'open',
    version INTEGER NOT NULL DEFAULT 0,
    decision INTEGER REFERENCES decisions
);
CREATE INDEX findings_by_sentence ON findings (sentence);
CREATE TABLE reviewers (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reviewer TEXT NOT NULL,
    time TEXT NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX steps_by_reviewer ON steps (reviewer, undone, id);
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    step INTEGER NOT NULL REFERENCES steps,
    finding INTEGER NOT NULL REFERENCES findings,
    action TEXT NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    label TEXT NOT NULL,
    replaced TEXT NOT NULL DEFAULT '[]',
    previous INTEGER REFERENCES decisions
);
CREATE INDEX decisions_by_step ON decisions (step);
CREATE TABLE leases (finding INTEGER PRIMARY KEY REFERENCES findings, reviewer TEXT NOT NULL, until REAL NOT NULL);
"""
_DERIVED = """
CREATE INDEX findings_in_order ON findings (status, number, kind, label);
CREATE INDEX findings_by_surface
    ON findings (text, kind, label, status, old_label, old_start - start, old_end - end);
CREATE TABLE labels (label TEXT PRIMARY KEY, suggested INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (
    status TEXT NOT NULL,
    kind TEXT NOT NULL,
    label TEXT NOT NULL,
    count INTEGER NOT NULL,
    expected REAL NOT NULL,
    PRIMARY KEY (status, kind, label)
) WITHOUT ROWID
"""  # added after version 1: response times must not grow with the number of findings
_KEEP_COUNTING = """
CREATE TRIGGER findings_counted AFTER UPDATE OF status ON findings WHEN old.status <> new.status BEGIN
    UPDATE counts SET count = count - 1, expected = CASE count WHEN 1 THEN 0 ELSE expected - old.probability END
        WHERE status = old.status AND kind = old.kind AND label = old.label;
    INSERT INTO counts VALUES (new.status, new.kind, new.label, 1, new.probability)
        ON CONFLICT DO UPDATE SET count = count + 1, expected = expected + excluded.expected;
END
"""


def open_database(folder: AuditFolder, read_only: bool = False) -> sqlite3.Connection:
    """Open the database of a review; a new one is filled with the findings of the audit.

    The audit must be the one that the decisions refer to. If there are no decisions, a new audit replaces the old one.

    Args:
        folder: the audit.
        read_only: do not write to the folder; the database is a copy in memory.
    """
    path = folder.path / DECISIONS
    try:
        connection = sqlite3.connect(
            ":memory:" if read_only else path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if read_only and path.exists():
                _copy(path, connection)
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait, and interruptions are safe
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power failure
            connection.execute("PRAGMA foreign_keys = ON")
            with transaction(connection):
                _prepare(connection, folder, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        remedy = "check that the folder is writable and has room; if the file is damaged, restore a copy of it"
        raise DataError(f"the decisions cannot be opened ({error})", remedy, path) from error
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Store everything in this context, or nothing; other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # if the disk is full, SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise


def file_identity(folder: AuditFolder) -> tuple[tuple[int, int] | None, ...]:
    """Identity of the database file and its two companions; ``None`` for missing ones.

    Used because SQLite silently continues to write to a file that was deleted or moved.
    """
    return tuple(_identity(f"{folder.path / DECISIONS}{suffix}") for suffix in ("", "-wal", "-shm"))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _copy(path: Path, connection: sqlite3.Connection) -> None:
    """Copy a file from a possibly read-only folder."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    if not Path(f"{path}-wal").exists():
        address += "&immutable=1"  # not in use; otherwise SQLite would create companions
    with closing(sqlite3.connect(address, uri=True)) as source:
        source.backup(connection)


def _prepare(connection: sqlite3.Connection, folder: AuditFolder, path: Path) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and application != APPLICATION:
        raise DataError("this is another program's file, not a review", "move it out of the folder", path)
    if version > SCHEMA_VERSION:
        what = f"the review has format version {version}, and this version of lacuner reads {SCHEMA_VERSION}"
        raise DataError(what, "use the version that wrote it, or a newer one", path)
    hashes = folder.hashes()
    if not tables:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    if version < SCHEMA_VERSION:
        _derive(connection)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    if tables:
        known = dict(connection.execute("SELECT name, hash FROM files").fetchall())
        if known == hashes:
            return
        decided = connection.execute("SELECT count(*) FROM findings WHERE decision IS NOT NULL").fetchone()[0]
        if decided:
            names = " and ".join(name for name in hashes if known.get(name) != hashes[name])
            what = f"{names} changed after {decided:,} findings had been decided, so the decisions may be about other words"
            remedy = f"put the old files back, or move {DECISIONS} away to start the review again; nothing was changed"
            raise DataError(what, remedy, folder.path)
        for table in ("leases", "decisions", "steps", "findings", "counts", "labels", "sentences", "files"):
            connection.execute(f"DELETE FROM {table}")
    connection.executemany("INSERT INTO files VALUES (?, ?)", hashes.items())
    _load(connection, folder)


def _load(connection: sqlite3.Connection, folder: AuditFolder) -> None:
    """Store the findings, and their sentences."""
    findings = list(folder.findings())
    ends: dict[int, int] = {}
    for number, finding in enumerate(findings):
        _check(number, finding, folder)
        end = max(finding.end, finding.annotated.end if finding.annotated else 0)
        ends[finding.sentence] = max(ends.get(finding.sentence, 0), end)
    for index, sentence in enumerate(folder.sentences()):
        if index in ends and len(sentence) >= ends[index]:
            del ends[index]
            record = json.dumps(sentence_to_record(sentence), ensure_ascii=False)
            connection.execute("INSERT INTO sentences VALUES (?, ?)", (index, record))
    if ends:
        what = f"a finding points past the last word of line {min(ends) + 1} of {CORPUS}"
        raise DataError(what, "the two files do not belong together: run the audit again", folder.path / FINDINGS)
    connection.executemany(
        "INSERT INTO findings (number, sentence, start, end, label, probability, kind, text, old_start, old_end, old_label)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (number, f.sentence, f.start, f.end, f.label, f.probability, f.kind, f.text)
            + ((f.annotated.start, f.annotated.end, f.annotated.label) if f.annotated else (None, None, None))
            for number, f in enumerate(findings)
        ),
    )
    _count(connection)


def _derive(connection: sqlite3.Connection) -> None:
    """Create derived tables and indices; a review of version 1 has none, or older ones."""
    for index in ("findings_in_order", "findings_counted", "findings_by_surface"):
        connection.execute(f"DROP INDEX IF EXISTS {index}")
    for statement in (*_DERIVED.split(";"), _KEEP_COUNTING):
        connection.execute(statement)
    _count(connection)


def _count(connection: sqlite3.Connection) -> None:
    """Initialize the counts and labels, which are then updated by triggers."""
    connection.execute(
        "INSERT INTO counts SELECT status, kind, label, count(*), sum(probability) FROM findings GROUP BY 1, 2, 3"
    )
    connection.execute(
        "INSERT INTO labels SELECT label, 1 FROM findings"
        " UNION SELECT old_label, 1 FROM findings WHERE old_label IS NOT NULL"
    )
    connection.execute("INSERT OR IGNORE INTO labels SELECT DISTINCT label, 0 FROM decisions")


def _check(number: int, finding: Finding, folder: AuditFolder) -> None:
    if not (finding.sentence >= 0 and 0 <= finding.start < finding.end and 0 <= finding.probability <= 1):
        what = f"finding {number + 1} has impossible offsets or an impossible probability"
        raise DataError(what, "run the audit again", folder.path / FINDINGS)
