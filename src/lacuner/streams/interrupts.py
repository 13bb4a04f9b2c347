"""Safe handling of Ctrl-C while a process is started."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C until the end of the block, in which a process is started and registered.

    On each fork, Python calls hooks of other modules (one of ``logging`` among them), and ignores their exceptions. A
    ``KeyboardInterrupt`` there would be lost, and the command would continue.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # handlers run in the main thread; one not written in Python raises nothing
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
