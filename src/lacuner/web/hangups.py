"""SIGHUP reloads models. Without a handler it would end the process, also during the initial loading."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Hangups:
    """Calls a function on each SIGHUP, in a thread, so that requests are answered meanwhile.

    A signal received before the function is set is not lost: it is handled afterwards.
    """

    def __init__(self) -> None:
        self._work: Callable[[], None] | None = None
        self._missed = False

    def answer_with(self, work: Callable[[], None]) -> None:
        """Set the function to call."""
        self._work = work  # first, because a signal may arrive in between
        if self._missed:
            self._missed = False
            self.on_signal()

    def on_signal(self, number: int = 0, frame: FrameType | None = None) -> None:
        if self._work is None:
            self._missed = True
        else:
            threading.Thread(target=self._work).start()


@contextmanager
def hangups() -> Iterator[Hangups]:
    """Handle SIGHUP in this context, on systems that have it."""
    caught = Hangups()
    if not hasattr(signal, "SIGHUP"):
        yield caught
        return
    before = signal.signal(signal.SIGHUP, caught.on_signal)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGHUP, before)
