"""Several processes that answer on one socket: started together, replaced when one dies, and stopped in order."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType

from lacuner.errors import LacunerError

_LOOK_EVERY = 0.1
_STOP_SECONDS = 5.0
"""Beyond the grace that requests have, after which a process is killed."""

_RETRY_FIRST, _RETRY_LAST = 1.0, 60.0
"""Seconds until a process that ended before it could answer is started again: more each time, up to the last."""

Work = Callable[[int, int, Event], None]
"""Answers until a signal comes; gets its number, the supervisor's process, and what to set once it answers."""


def supervise(
    work: Work, workers: int, started: Callable[[], None], report: Callable[[str], None], grace: float = 2.0
) -> None:
    """Run processes until Ctrl-C or SIGTERM; SIGHUP is passed on to all.

    A process that ends before all of them have answered ends the others, too: the command was wrong. Later, those that are left
    go on, whatever happens to one of them, such as that it cannot be replaced while its model is missing.

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
            for sentence in group.replace_dead():
                report(f"warning: {sentence}")
            group.pass_on_hangups()
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


@dataclass
class _Place:
    """One of the processes, and those that take its place.

    Attributes:
        process: the last one.
        ready: whether it answers.
        hung_up: whether it was told to load its models again before it could be told.
        wait: seconds until the next one is started if this one ends before it answers.
        start_at: when the next one is started; ``None`` while one runs.
    """

    process: BaseProcess
    ready: Event
    hung_up: bool = False
    wait: float = _RETRY_FIRST
    start_at: float | None = None


class _Group:
    def __init__(self, work: Work, workers: int, grace: float) -> None:
        self._work, self._workers, self._grace = work, workers, grace
        self._context = get_context("spawn")
        self._places: list[_Place] = []
        self.stopping = False

    def start_all(self) -> None:
        for index in range(self._workers):
            self._places.append(_Place(*self._started(index)))

    def _started(self, index: int) -> tuple[BaseProcess, Event]:
        ready = self._context.Event()
        process = self._context.Process(target=self._work, args=(index, os.getpid(), ready), name=f"serve-{index + 1}")
        process.start()
        return process, ready

    def are_ready(self) -> bool:
        return all(place.ready.is_set() for place in self._places)

    def check_beginning(self) -> None:
        for place in self._places:
            if not place.process.is_alive() and not place.ready.is_set():
                raise LacunerError("a process ended before it could answer — the line above says why")

    def replace_dead(self) -> list[str]:
        """Start others in place of those that have died, and say so; one that dies again and again has to wait."""
        said = []
        for index, place in enumerate(self._places):
            if place.process.is_alive():
                continue
            if place.start_at is None:
                who = f"process {index + 1} of {self._workers}"
                if place.ready.is_set():
                    said.append(f"{who} has died and is being replaced.")
                    place.wait, place.start_at = _RETRY_FIRST, time.monotonic()
                else:
                    said.append(
                        f"{who} ended before it could answer; the others continue. Next try in {place.wait:g} s."
                    )
                    place.start_at = time.monotonic() + place.wait
                    place.wait = min(2 * place.wait, _RETRY_LAST)
            if time.monotonic() >= place.start_at:
                place.process, place.ready = self._started(index)
                place.hung_up, place.start_at = False, None
        return said

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if number != getattr(signal, "SIGHUP", None):
            self.stopping = True
            return
        for place in self._places:
            place.hung_up = True

    def pass_on_hangups(self) -> None:
        """To those that answer; one that still loads models may have read old ones, and is told afterwards."""
        for place in self._places:
            if place.hung_up and place.ready.is_set():
                place.hung_up = False
                _send(place.process, signal.SIGHUP)

    def stop_all(self) -> None:
        for place in self._places:
            _send(place.process, signal.SIGTERM)
        deadline = time.monotonic() + self._grace + _STOP_SECONDS
        for place in self._places:
            place.process.join(max(0.0, deadline - time.monotonic()))
            if place.process.is_alive():
                place.process.kill()
                place.process.join()


def _send(process: BaseProcess, number: int) -> None:
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, number)


def _signals() -> list[int]:
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
