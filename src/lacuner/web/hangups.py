"""SIGHUP: models are loaded again. Without a handler it would end the process, also while the models are loaded first."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Hangups:
    """Calls something for each SIGHUP, in a thread, so that requests are answered meanwhile.

    A signal that comes before it is known what to call is not lost: it is called afterwards.
    """

    def __init__(self) -> None:
        self._work: Callable[[], None] | None = None
        self._missed = False

    def answer_with(self, work: Callable[[], None]) -> None:
        """From now on, this is called."""
        self._work = work  # first, because a signal may come between the two
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
    """Within it, SIGHUP ends nothing; on systems that have the signal."""
    caught = Hangups()
    if not hasattr(signal, "SIGHUP"):
        yield caught
        return
    before = signal.signal(signal.SIGHUP, caught.on_signal)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGHUP, before)
