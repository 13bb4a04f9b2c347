"""Several server processes on one socket: started together, replaced when one dies, and stopped in order."""

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
"""Seconds after the grace period of requests before a process is killed."""

_RETRY_FIRST, _RETRY_LAST = 1.0, 60.0
"""Seconds until a process that ended before it was ready is restarted: increasing, up to the last."""

Work = Callable[[int, int, Event], None]
"""Serves requests until a signal; gets its index, the supervisor's process ID, and an event to set when ready."""


def supervise(
    work: Work, workers: int, started: Callable[[], None], report: Callable[[str], None], grace: float = 2.0
) -> None:
    """Run processes until Ctrl-C or SIGTERM; SIGHUP is passed on to all.

    If a process ends before all of them are ready, the others are ended, too, since the command was wrong. Later, the
    remaining ones continue whatever happens to one of them, even if it cannot be replaced because its model is missing.

    Args:
        work: main function of each process; picklable.
        workers: number of processes.
        started: called once all of them are ready.
        report: called with messages about events.
        grace: seconds for them to end after a signal.
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
    """End this process when its parent is gone."""

    def watch() -> None:
        while os.getppid() == supervisor:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@dataclass
class _Place:
    """The slot of a process and its replacements.

    Attributes:
        process: the current one.
        ready: whether it accepts requests.
        hung_up: whether a reload was requested before it was ready.
        wait: seconds until the next start if this one ends before it is ready.
        start_at: time of the next start; ``None`` while one runs.
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
        """Replace dead processes, and report that; those that die repeatedly are delayed."""
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
        """Pass SIGHUP to ready processes; others, which may have read old models, get it later."""
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
