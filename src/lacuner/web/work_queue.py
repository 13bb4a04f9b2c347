"""Blocking work in its own thread, batched: for work that waits for the disk or another process."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lacuner.errors import LacunerError

MAX_WAITING = 64
"""Maximum number of queued pieces of work."""
MAX_SECONDS = 10.0
"""Maximum seconds that a piece waits for its turn."""

Work = Callable[[], Any]
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class BusyError(LacunerError):
    """Work that was not started, because the queue is full."""

    def __init__(self) -> None:
        super().__init__("Nothing was stored, because the server is busy — try again in a moment.")


class WorkQueue:
    """A bounded queue, so that a slow database does not occupy the threads that serve files.

    Args:
        do_together: does several pieces of work; returns the result of each, or the exception raised.
        max_waiting: maximum number of queued pieces; more are refused.
        max_seconds: pieces not started after this time are refused.
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
        """Run work through the queue.

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
            if job.cancel():  # not started; running work is awaited, because it may be stored
                raise BusyError
            return await result
        finally:
            self._running -= 1

    def _do_waiting(self) -> None:
        """Do all queued work; often there is none left, because an earlier call has done it."""
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
