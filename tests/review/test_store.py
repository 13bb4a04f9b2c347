import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from handmade_audit import TEAM, TURIN, small_audit, statuses
from lacuner.audit.folder import AuditFolder
from lacuner.review.decisions import Decision
from lacuner.review.review import Review
from lacuner.review.store import ReviewStore, StorageError

ADA = "ada-12345678"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_audit(tmp_path / "audit")


@pytest.fixture
def store(folder: Path) -> Iterator[ReviewStore]:
    opened = ReviewStore(AuditFolder.open(folder))
    yield opened
    opened.close()


def accept(store: ReviewStore, number: int, step: int) -> None:
    stored = store.item(number)
    assert stored is not None
    item = stored.item
    store.add_decision(step, item, Decision("accept", item.start, item.end, item.label))


def test_a_transaction_is_stored_as_a_whole_or_not_at_all(store: ReviewStore) -> None:
    def decide_and_fail() -> None:
        accept(store, TURIN, store.add_step(ADA))
        with store.transaction():  # part of the larger one
            accept(store, TEAM, store.add_step(ADA))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.transaction():
        decide_and_fail()
    assert statuses(store) == {"open": 7}
    with store.transaction():
        accept(store, TURIN, store.add_step(ADA))
    assert statuses(store) == {"accepted": 1, "open": 6}


def test_what_sqlite_cannot_do_is_a_storage_error_that_says_what_to_do(store: ReviewStore) -> None:
    def fails() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    for block in (store.transaction, store.reading):
        with pytest.raises(StorageError) as failed, block():
            fails()
        assert str(failed.value) == (
            "Nothing was stored, because review.sqlite cannot be used (disk I/O error)"
            " — see that the folder can be written, and try again."
        )


def test_an_undone_decision_is_not_restored(store: ReviewStore) -> None:
    with store.transaction():
        first, second, third = (store.add_step(name) for name in ("ada", "bob", "cy"))
        for step in (first, second, third):
            accept(store, TURIN, step)
        store.mark_undone(second)
        (last,) = store.decisions_of(third)
        store.restore(TURIN, last.previous)
        (first_decision,) = store.decisions_of(first)
    assert first_decision.in_force


def _decide_and_die(folder: Path, ready) -> None:
    opened = Review(AuditFolder.open(folder))
    opened.decide(ADA, TURIN, 0, "accept")
    opened.decide(ADA, TEAM, 0, "reject")
    opened._store._connection.execute("BEGIN IMMEDIATE")  # the next one is half stored
    opened._store._connection.execute("UPDATE findings SET status = 'accepted' WHERE number = 3")
    ready.send(True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_kill_loses_nothing_and_leaves_nothing_half_done(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_decide_and_die, args=(folder, there))
    process.start()
    assert here.recv()
    process.join()
    assert process.exitcode == -9
    with Review(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "rejected": 1, "open": 5}


def test_records_of_the_database_are_json_that_anybody_can_read(folder: Path, store: ReviewStore) -> None:
    with sqlite3.connect(folder / "review.sqlite") as reader:
        (record,) = reader.execute("SELECT record FROM sentences WHERE number = 0").fetchone()
    assert json.loads(record)["tokens"][4] == "Turin"


@pytest.mark.parametrize("name", ["review.sqlite", "review.sqlite-wal", "review.sqlite-shm"])
def test_nothing_is_stored_in_a_file_that_nobody_finds_any_more(folder: Path, store: ReviewStore, name: str) -> None:
    (folder / name).rename(folder / "elsewhere")
    with pytest.raises(StorageError, match="was deleted, moved or replaced"), store.transaction():
        pass
    (folder / "elsewhere").rename(folder / name)

    def decide_and_move() -> None:
        accept(store, TURIN, store.add_step(ADA))
        (folder / name).rename(folder / "elsewhere")  # before the commit

    with pytest.raises(StorageError, match="Nothing was stored"), store.transaction():
        decide_and_move()
    (folder / "elsewhere").rename(folder / name)
    assert statuses(store) == {"open": 7}


@pytest.mark.parametrize("name", ["review.sqlite", "review.sqlite-wal", "review.sqlite-shm"])
def test_nothing_is_read_from_a_file_that_nobody_finds_any_more(folder: Path, store: ReviewStore, name: str) -> None:
    """Otherwise the page would go on showing what cannot be decided."""
    (folder / name).rename(folder / "elsewhere")
    with pytest.raises(StorageError, match="was deleted, moved or replaced"), store.reading():
        pass
    (folder / "elsewhere").rename(folder / name)
    with store.reading():
        assert statuses(store) == {"open": 7}


def test_a_folder_that_became_read_only_is_said(store: ReviewStore) -> None:
    store._connection.execute("PRAGMA query_only = ON")
    with (
        pytest.raises(StorageError, match=r"readonly database\) — see that the folder can be written"),
        store.transaction(),
    ):
        store.set_name(ADA, "Ada")


def test_another_program_that_writes_for_long_is_named(folder: Path, store: ReviewStore) -> None:
    store._connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(folder / "review.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match=r"another program has been writing to review\.sqlite"), store.transaction():
        pass
    other.close()


def counted_anew(store: ReviewStore) -> dict[tuple[str, str, str], tuple[int, float]]:
    query = "SELECT status, kind, label, count(*), sum(probability) FROM findings GROUP BY 1, 2, 3"
    return {tuple(row[:3]): (row[3], pytest.approx(row[4])) for row in store._connection.execute(query)}


def test_counts_are_kept_and_always_those_of_counting_anew(store: ReviewStore) -> None:
    def kept() -> dict[tuple[str, str, str], tuple[int, float]]:
        return {(c.status, c.kind, c.label): (c.count, c.expected) for c in store.counts()}

    assert kept() == counted_anew(store)
    with store.transaction():
        for number in range(7):
            accept(store, number, store.add_step(ADA))
            assert kept() == counted_anew(store)
        for number in range(7):
            store.restore(number, None)
            assert kept() == counted_anew(store)
    assert {count.status for count in store.counts()} == {"open"}


def test_counts_are_not_counted_anew_for_each_answer(store: ReviewStore) -> None:
    """Otherwise each answer takes longer, the more findings there are."""
    asked: list[str] = []
    store._connection.set_trace_callback(asked.append)
    store.counts()
    store.suggested_labels()
    store.chosen_labels()
    store._connection.set_trace_callback(None)
    assert len(asked) == 3
    assert not any("findings" in query or "decisions" in query for query in asked)


def test_part_of_a_transaction_may_fail_alone(store: ReviewStore) -> None:
    def decide_and_fail() -> None:
        accept(store, TEAM, store.add_step(ADA))
        raise ZeroDivisionError

    with store.transaction():
        accept(store, TURIN, store.add_step(ADA))
        with pytest.raises(ZeroDivisionError), store.part():
            decide_and_fail()
    assert statuses(store) == {"accepted": 1, "open": 6}


class _Failing:
    """A connection whose n-th statement fails."""

    def __init__(self, connection: sqlite3.Connection, number: int, error: type[Exception]) -> None:
        self.connection, self.number, self.error, self.statements = connection, number, error, 0

    def execute(self, *arguments):
        self.statements += 1
        if self.statements == self.number:
            raise self.error("disk I/O error")
        return self.connection.execute(*arguments)

    def __getattr__(self, name: str):
        return getattr(self.connection, name)


@pytest.mark.parametrize("error", [sqlite3.OperationalError, MemoryError])
def test_whatever_statement_fails_a_decision_is_stored_as_a_whole_or_not_at_all(folder: Path, error) -> None:
    for number in range(1, 1000):
        with Review(AuditFolder.open(folder)) as review:
            real = review._store._connection
            failing = _Failing(real, number, error)
            review._store._connection = failing
            with suppress(StorageError, MemoryError):
                review.decide(ADA, TURIN, 0, "accept")
            review._store._connection = real
        with Review(AuditFolder.open(folder)) as again:
            found, decisions = statuses(again), again._store._connection.execute("SELECT count(*) FROM decisions")
            assert (found, decisions.fetchone()[0]) in (({"open": 7}, 0), ({"accepted": 1, "open": 6}, 1))
        if found != {"open": 7}:
            break
    assert number > 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits of the system")
def test_a_disk_that_is_full_at_any_byte_keeps_the_decisions_before(folder: Path) -> None:
    import resource

    with Review(AuditFolder.open(folder)) as review:
        review.decide(ADA, TURIN, 0, "accept")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    failures = 0
    try:
        for limit in range(0, 40_000, 1500):
            with Review(AuditFolder.open(folder)) as review:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
                try:
                    review.decide(ADA, TEAM, 0, "reject")
                except StorageError:
                    failures += 1
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            with Review(AuditFolder.open(folder)) as again:
                found = statuses(again)
            assert found in ({"accepted": 1, "open": 6}, {"accepted": 1, "rejected": 1, "open": 5})
            if "rejected" in found:
                break
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert failures
    assert found == {"accepted": 1, "rejected": 1, "open": 5}
