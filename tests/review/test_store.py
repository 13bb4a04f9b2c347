import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lacuner.review.store import transaction


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "some.sqlite", isolation_level=None)
    opened.execute("PRAGMA foreign_keys = ON")
    opened.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    opened.execute("CREATE TABLE children (text TEXT, parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
    yield opened
    opened.close()


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
