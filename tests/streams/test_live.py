import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.streams.live import chunks_as_they_come


@given(st.lists(st.integers(), max_size=50), st.integers(1, 7))
def test_nothing_is_lost_and_the_order_is_kept(items: list[int], size: int) -> None:
    chunks = list(chunks_as_they_come(items, size))
    assert [item for chunk in chunks for item in chunk] == items
    assert all(0 < len(chunk) <= size for chunk in chunks)


def test_a_quick_stream_comes_in_full_chunks() -> None:
    assert [len(chunk) for chunk in chunks_as_they_come(range(25), 10, patience=10)] == [10, 10, 5]


def test_an_item_does_not_wait_for_the_next_one() -> None:
    answered = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert answered.wait(20), "the first item waits for the second"
        yield 2

    chunks = chunks_as_they_come(items(), 10)
    assert next(chunks) == [1]
    answered.set()
    assert list(chunks) == [[2]]


def test_what_was_read_before_an_error_is_handed_on_first() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("gone")

    chunks = chunks_as_they_come(items(), 3)
    read: list[int] = []
    with pytest.raises(OSError, match="gone"):
        read.extend(item for chunk in chunks for item in chunk)
    assert read == [0, 1, 2, 3, 4]


def test_a_stream_is_read_only_a_little_ahead_and_not_after_its_end() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000_000):
            read.append(number)
            yield number

    chunks = chunks_as_they_come(items(), 10)
    next(chunks)
    time.sleep(0.05)
    assert len(read) <= 10 + 10 + 1
    chunks.close()  # type: ignore[attr-defined]
    time.sleep(0.05)
    count = len(read)
    time.sleep(0.05)
    assert len(read) == count <= 23
    assert not [thread for thread in threading.enumerate() if "_read" in thread.name]
