"""Memory that is free inside of the process, given back to the system."""

import ctypes
import time
from collections.abc import Callable
from functools import cache

EVERY = 5.0
"""Seconds between two times that memory is given back: it takes some milliseconds, and some more to get pages again."""


class MemoryRelease:
    """Gives back what is free, at most every so many seconds.

    Tensors of batches, each of another size, lie between small things that stay. glibc keeps what is free between them, finds
    it too small for the next large tensor, and asks the system for more: a server's memory would grow for hours, although
    nothing is kept. Other C libraries are left alone.

    Args:
        every: seconds.
        release: gives back.
    """

    def __init__(self, every: float = EVERY, release: Callable[[], None] | None = None) -> None:
        self._every, self._release = every, release or release_free_memory
        self._next = time.monotonic() + every

    def __call__(self) -> None:
        """Give back, if it is time."""
        if time.monotonic() >= self._next:
            self._release()
            self._next = time.monotonic() + self._every


def release_free_memory() -> None:
    """Give back all pages that are free, where the C library can."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; Windows has none by that name
        return None
    return trim
