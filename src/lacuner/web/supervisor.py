"""Several processes that answer on one socket: started together, replaced when one dies, and stopped in order."""

import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType

from lacuner.errors import LacunerError

_LOOK_EVERY = 0.1
_STOP_SECONDS = 5.0
"""Beyond the grace that requests have, after which a process is killed."""

Work = Callable[[int, int, Event], None]
"""Answers until a signal comes; gets its number, the supervisor's process, and what to set once it answers."""


def supervise(
    work: Work, workers: int, started: Callable[[], None], report: Callable[[str], None], grace: float = 2.0
) -> None:
    """Run processes until Ctrl-C or SIGTERM; SIGHUP is passed on to all.

    Args:
        work: what each does; it is sent to another process.
        workers: how many.
        started: called once all of them answer.
        report: told in a sentence what happens.
        grace: seconds in which they end after a signal.
    """
    group = _Group(work, workers, grace)
    before = {number: signal.signal(number, group.on_signal) for number in _signals()}
    try:
        group.start_all()
        while not group.stopping and not group.are_ready():
            group.check_beginning()
            time.sleep(_LOOK_EVERY)
        if not group.stopping:
            started()
        while not group.stopping:
            for index in group.replace_dead():
                report(f"warning: process {index + 1} of {workers} has died; another takes its place.")
            time.sleep(_LOOK_EVERY)
    finally:
        group.stop_all()
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with(supervisor: int) -> None:
    """End this process if the one that has started it is gone."""

    def watch() -> None:
        while os.getppid() == supervisor:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class _Group:
    def __init__(self, work: Work, workers: int, grace: float) -> None:
        self._work, self._workers, self._grace = work, workers, grace
        self._context = get_context("spawn")
        self._processes: dict[int, tuple[BaseProcess, Event]] = {}
        self.stopping = False

    def start_all(self) -> None:
        for index in range(self._workers):
            self._start(index)

    def _start(self, index: int) -> None:
        ready = self._context.Event()
        process = self._context.Process(target=self._work, args=(index, os.getpid(), ready), name=f"serve-{index + 1}")
        process.start()
        self._processes[index] = process, ready

    def are_ready(self) -> bool:
        return all(ready.is_set() for _, ready in self._processes.values())

    def check_beginning(self) -> None:
        for process, ready in self._processes.values():
            if not process.is_alive() and not ready.is_set():
                raise LacunerError("a process ended before it could answer — the line above says why")

    def replace_dead(self) -> list[int]:
        """Start others in place of those that have died, and return their numbers."""
        dead = [index for index, (process, _) in self._processes.items() if not process.is_alive()]
        self.check_beginning()  # one that dies again and again would be started again and again
        for index in dead:
            self._start(index)
        return dead

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == getattr(signal, "SIGHUP", None):
            self._send(number)
        else:
            self.stopping = True

    def stop_all(self) -> None:
        self._send(signal.SIGTERM)
        deadline = time.monotonic() + self._grace + _STOP_SECONDS
        for process, _ in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _send(self, number: int) -> None:
        for process, ready in self._processes.values():
            if process.pid is not None and process.is_alive() and (ready.is_set() or number == signal.SIGTERM):
                os.kill(process.pid, number)


def _signals() -> list[int]:
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
