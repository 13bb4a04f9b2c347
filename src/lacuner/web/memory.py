"""Returning free memory to the operating system."""

import ctypes
import time
from collections.abc import Callable
from functools import cache

EVERY = 5.0
"""Seconds between releases: each takes some milliseconds, and some more to get pages again."""


class MemoryRelease:
    """Returns free memory to the system, at most once per interval.

    Batch tensors of varying sizes fragment the heap between small long-lived objects. glibc keeps the free blocks, finds them
    too small for the next large tensor, and requests more: the memory of a server would grow for hours although nothing is
    leaked. Other C libraries are left alone.

    Args:
        every: interval in seconds.
        release: returns memory.
    """

    def __init__(self, every: float = EVERY, release: Callable[[], None] | None = None) -> None:
        self._every, self._release = every, release or release_free_memory
        self._next = time.monotonic() + every

    def __call__(self) -> None:
        """Release memory, if it is time."""
        if time.monotonic() >= self._next:
            self._release()
            self._next = time.monotonic() + self._every


def release_free_memory() -> None:
    """Return all free pages, if the C library supports it."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc; Windows has no such library
        return None
    return trim
