"""Ctrl-C at the moment when a process is started."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C waits until the block has ended, in which a process is started and noted.

    Python calls functions of other modules whenever a process is forked (one of ``logging`` among them), and ignores what
    they raise. A ``KeyboardInterrupt`` there would be lost: the command would go on as if nobody had pressed anything.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # the handler runs in the main thread; one that is no function of Python raises nothing
        return
    pressed = False

    def note(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)
