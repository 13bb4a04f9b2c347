"""Chunks of a live stream: large if it is fast, and processed immediately if it pauses."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 0.02
"""Seconds that an item waits for others."""


def chunks_as_they_come(items: Iterable[T], size: int, patience: float = PATIENCE) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` items, in order.

    A thread reads ``items``, at most ``size`` ahead. An error while reading is raised after everything read before it.

    Args:
        items: may block for any time.
        size: of a chunk.
        patience: seconds after which an incomplete chunk is yielded.
    """
    waiting: queue.Queue[T | _End] = queue.Queue(size)
    stopped = threading.Event()
    threading.Thread(target=_read, args=(items, waiting, stopped), daemon=True).start()
    end: _End | None = None
    try:
        while end is None:
            first = waiting.get()
            chunk: list[T] = []
            end = first if isinstance(first, _End) else _fill(chunk, first, waiting, size, patience)
            if chunk:
                yield chunk
        if end.error is not None:
            raise end.error
    finally:
        stopped.set()
        with suppress(queue.Empty):  # the reader may wait for room
            while True:
                waiting.get_nowait()


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def _fill(chunk: list[T], first: T, waiting: "queue.Queue[T | _End]", size: int, patience: float) -> _End | None:
    """Add items that arrive in time; return the end of the stream, if reached."""
    chunk.append(first)
    until = time.monotonic() + patience
    while len(chunk) < size:
        try:
            item = waiting.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None
        if isinstance(item, _End):
            return item
        chunk.append(item)
    return None


def _read(items: Iterable[T], waiting: "queue.Queue[T | _End]", stopped: threading.Event) -> None:
    end = _End()
    try:
        for item in items:
            waiting.put(item)
            if stopped.is_set():
                return
    except BaseException as error:
        end = _End(error)
    if not stopped.is_set():
        waiting.put(end)
