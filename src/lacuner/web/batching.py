"""Batching of concurrent requests: a bounded queue, and one compute thread."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lacuner.errors import LacunerError

Query = TypeVar("Query")
Answer = TypeVar("Answer")
IsWanted = Callable[[int], bool]
"""Whether the answer to the query with this index is still wanted."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits of the queue and its batches.

    Attributes:
        window: seconds that the first query waits for others.
        max_batch: maximum number of queries per batch; 1 disables batching.
        max_cost: maximum cost of a batch; a query that exceeds it is answered alone.
        max_waiting: maximum number of waiting queries; a request beyond it is refused.
        timeout: seconds after which a request is given up.
    """

    window: float = 0.01
    max_batch: int = 64
    max_cost: int = 32_768
    max_waiting: int = 1024
    timeout: float = 30.0


class QueueFullError(LacunerError):
    """Nothing was computed, because too many queries are waiting."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"The server is busy — try again in {seconds} second{'' if seconds == 1 else 's'}.")
        self.seconds = seconds


class TooLateError(LacunerError):
    """The request has timed out."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"There was no answer within {seconds:g} seconds — send less text at a time, or try again later."
        )


@dataclass
class _Job(Generic[Query, Answer]):
    """A query and its future answer."""

    query: Query
    cost: int = 1
    answer: Future[Answer] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    given_up: bool = False


class Batcher(Generic[Query, Answer]):
    """Collects queries of many requests, answers them in batches, and returns to each request its answers in order.

    A request that is given up, because of a timeout or a disconnected client, leaves the queue; the computation can check for
    that.

    Args:
        compute: answers queries, in another thread, each with an answer or the exception raised. It also gets a function that
            says whether the answer to the query with a given index is still wanted.
        limits: of the queue.
        cost: the cost of a query.
        observe: called with the size and the seconds of each batch, before its answers are returned.
        clean_up: called in the compute thread after the answers of each batch are returned.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Query], IsWanted], Sequence[Answer | Exception]],
        limits: BatchLimits | None = None,
        cost: Callable[[Query], int] = lambda query: 1,
        observe: Callable[[int, float], None] = lambda size, seconds: None,
        clean_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits or BatchLimits()
        self._compute, self._cost, self._observe, self._clean_up = compute, cost, observe, clean_up
        self._waiting: deque[_Job[Query, Answer]] = deque()
        self._thread = ThreadPoolExecutor(1, "model")
        self._large_goes_next = False
        self._pace = 0.0  # seconds per query in recent batches
        self._task: asyncio.Task[None] | None = None
        self._more: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        """Number of queries not yet started."""
        return len(self._waiting)

    async def run(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer the queries of one request.

        Raises:
            QueueFullError: nothing was computed.
            TooLateError: not everything was computed in time.
        """
        if not queries:
            return []
        if self._waiting and len(self._waiting) + len(queries) > self.limits.max_waiting:
            raise QueueFullError(self._seconds_to_wait())
        jobs: list[_Job[Query, Answer]] = [_Job(query, self._cost(query)) for query in queries]
        answers = [asyncio.wrap_future(job.answer) for job in jobs]
        self._waiting.extend(jobs)
        self._wake()
        try:
            _, late = await asyncio.wait(answers, timeout=self.limits.timeout)
            if late:
                raise TooLateError(self.limits.timeout)
        finally:  # also if the client has disconnected
            for job, answer in zip(jobs, answers, strict=True):
                job.given_up = True  # a running computation cannot be canceled
                answer.cancel()
            if sum(job.answer.cancel() for job in jobs):
                self._waiting = deque(job for job in self._waiting if not job.answer.cancelled())
        errors = [answer.exception() for answer in answers]
        for error in errors:
            if error is not None:
                raise error
        return [answer.result() for answer in answers]

    def _seconds_to_wait(self) -> int:
        return max(1, min(60, round(self._pace * len(self._waiting))))

    def _wake(self) -> None:
        """Start working, in the event loop of the first request."""
        if self._task is None or self._task.done():
            self._more = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._work())
        assert self._more is not None
        self._more.set()

    async def _work(self) -> None:
        """Answer batches until the queue is empty."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._wait_for_company()
            batch = self._next_batch()
            if batch:
                await loop.run_in_executor(self._thread, self._answer, batch)

    async def _wait_for_company(self) -> None:
        """Wait until the batch is full, or the window of the oldest query is over."""
        assert self._more is not None
        if self.limits.max_batch == 1:
            return
        deadline = self._waiting[0].since + self.limits.window
        while 0 < len(self._waiting) < self.limits.max_batch and self._waiting_cost() < self.limits.max_cost:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), left)
            except TimeoutError:
                return

    def _waiting_cost(self) -> int:
        return sum(job.cost for job in self._waiting)

    def _next_batch(self) -> list[_Job[Query, Answer]]:
        """The oldest queries that fit together. Oversized queries get every second turn, alone."""
        large = [job for job in self._waiting if job.cost > self.limits.max_cost][:1]
        batch: list[_Job[Query, Answer]] = []
        left = self.limits.max_cost
        for job in self._waiting:
            if len(batch) < self.limits.max_batch and job.cost <= left:
                batch.append(job)
                left -= job.cost
        if large and (self._large_goes_next or not batch):
            batch = large
        self._large_goes_next = bool(large) and batch is not large
        chosen = set(map(id, batch))
        self._waiting = deque(job for job in self._waiting if id(job) not in chosen)
        return [job for job in batch if job.answer.set_running_or_notify_cancel()]

    def _answer(self, batch: Sequence[_Job[Query, Answer]]) -> None:
        results: Sequence[Any]
        began = time.monotonic()
        try:
            results = self._compute([job.query for job in batch], lambda index: not batch[index].given_up)
        except Exception as error:
            results = [error] * len(batch)
        seconds = time.monotonic() - began
        self._pace = 0.7 * self._pace + 0.3 * seconds / len(batch)
        self._observe(len(batch), seconds)
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                job.answer.set_exception(result)
            else:
                job.answer.set_result(result)
        self._clean_up()
