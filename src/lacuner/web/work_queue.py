"""Work that waits for a disk or for another process: in a thread of its own, and what waits is done together."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lacuner.errors import LacunerError

MAX_WAITING = 64
"""Pieces of work in the queue."""
MAX_SECONDS = 10.0
"""How long a piece waits for its turn."""

Work = Callable[[], Any]
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class BusyError(LacunerError):
    """Work that was not begun, because too much else has to be done first."""

    def __init__(self) -> None:
        super().__init__("Nothing was stored, because the server is busy — try again in a moment.")


class WorkQueue:
    """A queue with a bound, so that whoever holds the database for long does not occupy the threads that serve files.

    Args:
        do_together: does several pieces of work; returns the result of each, or the exception that it raised.
        max_waiting: pieces of work in the queue; more are refused.
        max_seconds: what has not begun after this time is refused.
    """

    def __init__(
        self,
        do_together: Callable[[Sequence[Work]], Sequence[Any]],
        max_waiting: int = MAX_WAITING,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        self._do_together = do_together
        self._max_waiting, self._max_seconds = max_waiting, max_seconds
        self._running = 0
        self._waiting: deque[tuple[Work, Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, "review")

    async def run(self, work: Callable[_Given, _Result], *given: _Given.args, **named: _Given.kwargs) -> _Result:
        """The result of the work.

        Raises:
            BusyError: nothing was done.
        """
        if self._running >= self._max_waiting:
            raise BusyError
        self._running += 1
        try:
            job: Future[_Result] = Future()
            result = asyncio.wrap_future(job)
            self._waiting.append((partial(work, *given, **named), job))
            self._thread.submit(self._do_waiting)
            await asyncio.wait((result,), timeout=self._max_seconds)
            if job.cancel():  # it has not begun; what has begun is waited for, because it may be stored
                raise BusyError
            return await result
        finally:
            self._running -= 1

    def _do_waiting(self) -> None:
        """Do everything that waits; often, that was done already together with something earlier."""
        begun = []
        while self._waiting:
            work, job = self._waiting.popleft()
            if job.set_running_or_notify_cancel():
                begun.append((work, job))
        if not begun:
            return
        try:
            results = self._do_together([work for work, _ in begun])
        except Exception as error:
            results = [error] * len(begun)
        for (_, job), result in zip(begun, results, strict=True):
            if isinstance(result, Exception):
                job.set_exception(result)
            else:
                job.set_result(result)
