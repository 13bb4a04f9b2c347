"""Storage of a review: all data and all queries. Their meaning is defined elsewhere."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from lacuner.audit.folder import CORPUS, DECISIONS, AuditFolder
from lacuner.corpus import OUTSIDE, Entity, Sentence
from lacuner.corpus.formats.records import sentence_from_record
from lacuner.errors import LacunerError
from lacuner.review.database import BUSY_SECONDS, file_identity, open_database, transaction
from lacuner.review.decisions import STATUS_AFTER, Decision
from lacuner.review.items import LEASE_SECONDS, MAX_NUMBER, Count, Filter, ReviewItem, Status


class StorageError(LacunerError):
    """The file of a review could not be read or written; nothing of the transaction was stored."""

    def __init__(self, error: sqlite3.Error) -> None:
        cause, remedy = f"{DECISIONS} cannot be used ({error})", "see that the folder can be written, and try again"
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits are details
        if code == sqlite3.SQLITE_FULL:
            cause, remedy = "the disk is full", "make room, and try again"
        elif code == sqlite3.SQLITE_BUSY:
            cause = f"another program has been writing to {DECISIONS} for {BUSY_SECONDS:.0f} seconds"
            remedy = "try again when it has finished"
        elif isinstance(error, _FileGoneError):
            cause = f"{DECISIONS}, or a companion of it, was deleted, moved or replaced while it was in use"
            remedy = "move it back, or stop lacuner review and start it again"
        super().__init__(f"Nothing was stored, because {cause} — {remedy}.")


class _FileGoneError(sqlite3.OperationalError):
    """The file was deleted or moved, which SQLite does not detect."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item and the decision about it.

    Attributes:
        item: the finding.
        status: of the item.
        version: increases with each change of the decision.
        decision: the one in force, if any.
        reviewer: who made it.
    """

    item: ReviewItem
    status: Status
    version: int
    decision: Decision | None
    reviewer: str | None


@dataclass(frozen=True, slots=True)
class StepDecision:
    """One decision of a step.

    Attributes:
        id: increases with time.
        number: of the item.
        sentence: index of the item's sentence.
        in_force: whether it has not been superseded.
        previous: id of the decision that it replaced.
    """

    id: int
    number: int
    sentence: int
    in_force: bool
    previous: int | None


class ReviewStore:
    """The SQLite file of a review. Several threads and processes may use the same folder concurrently.

    Args:
        folder: the audit.
        read_only: do not write to the folder; changes are lost on exit.
    """

    def __init__(self, folder: AuditFolder, read_only: bool = False) -> None:
        self._folder = folder
        self._corpus: Path = folder.path / CORPUS
        self._lock = threading.RLock()
        self._connection = open_database(folder, read_only)
        self._file = None if read_only else file_identity(folder)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Transaction: everything in this context is stored, or nothing; one thread at a time."""
        with self.reading():
            if self._connection.in_transaction:  # part of an outer transaction
                yield
                return
            with transaction(self._connection):
                yield
                self._check_file()

    @contextmanager
    def part(self) -> Iterator[None]:
        """Savepoint: if this part of a transaction fails, it alone is rolled back."""
        self._connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO part")
                self._connection.execute("RELEASE part")
            raise
        self._connection.execute("RELEASE part")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read only; does not wait for other processes that write."""
        with self._lock:
            try:
                if not self._connection.in_transaction:  # else checked at its start, and again before the commit
                    self._check_file()
                yield
            except sqlite3.Error as error:
                raise StorageError(error) from error

    def _check_file(self) -> None:
        """Refuse to continue with a file that was deleted or moved."""
        if self._file is not None and file_identity(self._folder) != self._file:
            raise _FileGoneError

    # Items

    def counts(self) -> list[Count]:
        query = "SELECT status, kind, label, count, expected FROM counts WHERE count > 0"
        return [Count(*row) for row in self._connection.execute(query)]

    def suggested_labels(self) -> set[str]:
        """Labels of the findings, and of the entities that they are about."""
        query = "SELECT label FROM labels WHERE suggested"
        return {row[0] for row in self._connection.execute(query)} - {OUTSIDE}

    def chosen_labels(self) -> set[str]:
        """Labels in decisions of reviewers that no finding has."""
        query = "SELECT label FROM labels WHERE NOT suggested"
        return {row[0] for row in self._connection.execute(query)} - {OUTSIDE}

    def item(self, number: int) -> StoredItem | None:
        row = self._connection.execute(
            "SELECT f.*, d.action, d.start AS d_start, d.end AS d_end, d.label AS d_label, d.replaced, s.reviewer"
            " FROM findings f LEFT JOIN decisions d ON d.id = f.decision LEFT JOIN steps s ON s.id = d.step"
            " WHERE f.number = ?",
            (number if abs(number) <= MAX_NUMBER else -1,),
        ).fetchone()
        if row is None:
            return None
        decision = None if row["action"] is None else _decision(row)
        return StoredItem(_item(row), row["status"], row["version"], decision, row["reviewer"])

    def next_free(self, reviewer: str, now: float, filter: Filter, after: int, backwards: bool) -> int | None:
        """The item after (or before) another that matches a filter and is held by no other reviewer; cyclic."""
        condition, values = _condition(filter)
        free = f"SELECT number FROM findings WHERE {condition} AND NOT {_HELD}"
        directions = ("number < ? ORDER BY number DESC", "number >= ? ORDER BY number DESC")
        directions = directions if backwards else ("number > ? ORDER BY number", "number <= ? ORDER BY number")
        for direction in directions:
            query = f"{free} AND {direction} LIMIT 1"
            row = self._connection.execute(query, (*values, reviewer, now, now + LEASE_SECONDS, after)).fetchone()
            if row is not None:
                return int(row["number"])
        return None

    def occurrences(self, item: ReviewItem) -> list[ReviewItem]:
        """Other open items with the same words and annotation."""
        query = f"SELECT * FROM findings WHERE {_SAME} ORDER BY number"
        return [_item(row) for row in self._connection.execute(query, _same_as(item)).fetchall()]

    def count_occurrences(self, item: ReviewItem) -> int:
        query = f"SELECT count(*) FROM findings WHERE {_SAME}"
        return int(self._connection.execute(query, _same_as(item)).fetchone()[0])

    def sentence(self, index: int) -> Sentence:
        """A sentence as audited."""
        row = self._connection.execute("SELECT record FROM sentences WHERE number = ?", (index,)).fetchone()
        return sentence_from_record(json.loads(row["record"]), self._corpus, index + 1)

    # Reviewers

    def set_name(self, reviewer: str, name: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO reviewers VALUES (?, ?)", (reviewer, name))

    def name_of(self, reviewer: str) -> str:
        row = self._connection.execute("SELECT name FROM reviewers WHERE id = ?", (reviewer,)).fetchone()
        return str(row["name"]) if row else ""

    def lease(self, reviewer: str, number: int, now: float) -> None:
        """Make the reviewer hold this item and no other."""
        query = f"DELETE FROM leases WHERE reviewer = ? OR NOT ({_VALID})"
        self._connection.execute(query, (reviewer, now, now + LEASE_SECONDS))
        self._connection.execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (number, reviewer, now + LEASE_SECONDS)
        )

    def extend_lease(self, reviewer: str, number: int, now: float) -> None:
        query = "UPDATE leases SET until = ? WHERE finding = ? AND reviewer = ?"
        self._connection.execute(query, (now + LEASE_SECONDS, number, reviewer))

    def held_by_others(self, reviewer: str, now: float) -> set[int]:
        """Numbers of the items held by other reviewers."""
        query = f"SELECT finding FROM leases WHERE reviewer <> ? AND {_VALID}"
        return {row["finding"] for row in self._connection.execute(query, (reviewer, now, now + LEASE_SECONDS))}

    def count_held_by_others(self, reviewer: str, now: float, filter: Filter) -> int:
        condition, values = _condition(filter)
        query = f"SELECT count(*) FROM findings WHERE {condition} AND {_HELD}"
        return int(self._connection.execute(query, (*values, reviewer, now, now + LEASE_SECONDS)).fetchone()[0])

    # Decisions

    def add_step(self, reviewer: str) -> int:
        """Create a step: decisions that are undone together."""
        query = "INSERT INTO steps (reviewer, time) VALUES (?, ?)"
        step = self._connection.execute(query, (reviewer, datetime.now(UTC).isoformat())).lastrowid
        assert step is not None
        return step

    def add_decision(self, step: int, item: ReviewItem, decision: Decision) -> None:
        """Put a decision in force; the previous one is kept."""
        number = item.number
        replaced = json.dumps([[e.start, e.end, e.label] for e in decision.replaced], ensure_ascii=False)
        values = (step, number, decision.action, decision.start, decision.end, decision.label, replaced, number)
        added = self._connection.execute(
            "INSERT INTO decisions (step, finding, action, start, end, label, replaced, previous)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT decision FROM findings WHERE number = ?))",
            values,
        ).lastrowid
        self._connection.execute("INSERT OR IGNORE INTO labels VALUES (?, 0)", (decision.label,))
        self._put_in_force(number, added, STATUS_AFTER[decision.action])

    def decisions_in(
        self, sentence: int, without: int = -1, before: int = MAX_NUMBER
    ) -> list[tuple[ReviewItem, Decision]]:
        """The decisions in force about a sentence, in order.

        Args:
            sentence: its index.
            without: number of an item whose decision is omitted.
            before: id of a decision; this and later ones are omitted.
        """
        query = f"{_DECIDED} WHERE f.sentence = ? AND f.number <> ? AND d.id < ? ORDER BY d.id"
        rows = self._connection.execute(query, (sentence, without, before)).fetchall()
        return [(_item(row), _decision(row)) for row in rows]

    def decisions_by_sentence(self) -> Iterator[tuple[int, list[tuple[ReviewItem, Decision]]]]:
        """Yield the index of each sentence with decisions in force, in order, with these decisions in order."""
        rows = self._connection.execute(f"{_DECIDED} ORDER BY f.sentence, d.id").fetchall()
        for sentence, group in groupby(rows, key=lambda row: int(row["sentence"])):
            yield sentence, [(_item(row), _decision(row)) for row in group]

    def last_step(self, reviewer: str) -> int | None:
        """The reviewer's last step that has not been undone."""
        query = "SELECT max(id) FROM steps WHERE reviewer = ? AND NOT undone"
        step: int | None = self._connection.execute(query, (reviewer,)).fetchone()[0]
        return step

    def decisions_of(self, step: int) -> list[StepDecision]:
        query = (
            "SELECT d.id, d.finding, f.sentence, f.decision IS d.id, d.previous FROM decisions d JOIN findings f"
            " ON f.number = d.finding WHERE d.step = ? ORDER BY d.id"
        )
        rows = self._connection.execute(query, (step,)).fetchall()
        return [StepDecision(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows]

    def restore(self, number: int, decision: int | None) -> None:
        """Reinstate an earlier decision, or the last one before it whose step has not been undone."""
        query = "SELECT d.action, d.previous, s.undone FROM decisions d JOIN steps s ON s.id = d.step WHERE d.id = ?"
        status: Status = "open"
        while decision is not None:
            row = self._connection.execute(query, (decision,)).fetchone()
            if not row["undone"]:
                status = STATUS_AFTER[row["action"]]
                break
            decision = row["previous"]
        self._put_in_force(number, decision, status)

    def mark_undone(self, step: int) -> None:
        self._connection.execute("UPDATE steps SET undone = 1 WHERE id = ?", (step,))

    def _put_in_force(self, number: int, decision: int | None, status: Status) -> None:
        query = "UPDATE findings SET decision = ?, status = ?, version = version + 1 WHERE number = ?"
        self._connection.execute(query, (decision, status, number))


_DECIDED = (
    "SELECT f.*, d.action, d.start AS d_start, d.end AS d_end, d.label AS d_label, d.replaced"
    " FROM findings f JOIN decisions d ON d.id = f.decision"
)
_VALID = "until > ? AND until <= ?"  # a longer lease than any given out is from a clock that was reset since
_HELD = f"number IN (SELECT finding FROM leases WHERE reviewer <> ? AND {_VALID})"
_SAME = (
    "text = ? AND kind = ? AND label = ? AND status = 'open' AND number <> ?"
    " AND old_start - start IS ? AND old_end - end IS ? AND old_label IS ?"
)


def _same_as(item: ReviewItem) -> tuple[object, ...]:
    old = item.annotated
    relative = (None, None, None) if old is None else (old.start - item.start, old.end - item.end, old.label)
    return item.text, item.kind, item.label, item.number, *relative


def _condition(filter: Filter) -> tuple[str, list[str]]:
    conditions, values = ["status = ?"], [str(filter.status)]
    for name, value in (("label", filter.label), ("kind", filter.kind)):
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    return " AND ".join(conditions), values


def _item(row: sqlite3.Row) -> ReviewItem:
    old = None if row["old_label"] is None else Entity(row["old_start"], row["old_end"], row["old_label"])
    names = ("number", "sentence", "start", "end", "label", "probability", "kind", "text")
    return ReviewItem(**{name: row[name] for name in names}, annotated=old)


def _decision(row: sqlite3.Row) -> Decision:
    replaced = tuple(Entity(*entity) for entity in json.loads(row["replaced"]))
    return Decision(row["action"], row["d_start"], row["d_end"], row["d_label"], replaced)
