"""Requests that come at about the same time, answered together: a queue with a bound, and one thread that computes."""

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
"""Whether somebody still waits for the answer to the query with this number."""


@dataclass(frozen=True)
class BatchLimits:
    """How much waits, and for how long.

    Attributes:
        window: seconds that the first query waits for company.
        max_batch: queries that are answered together; 1 answers each by itself.
        max_cost: of the queries that are answered together; one that costs more is answered by itself.
        max_waiting: queries that wait; a request that would make them more is refused.
        timeout: seconds until a request is given up.
    """

    window: float = 0.01
    max_batch: int = 64
    max_cost: int = 32_768
    max_waiting: int = 1024
    timeout: float = 30.0


class QueueFullError(LacunerError):
    """Nothing was computed, because too much waits already."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"The server is busy — try again in {seconds} second{'' if seconds == 1 else 's'}.")
        self.seconds = seconds


class TooLateError(LacunerError):
    """The time of a request is over."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"There was no answer within {seconds:g} seconds — send less text at a time, or try again later."
        )


@dataclass
class _Job(Generic[Query, Answer]):
    """A query, and where its answer goes."""

    query: Query
    cost: int = 1
    answer: Future[Answer] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    given_up: bool = False


class Batcher(Generic[Query, Answer]):
    """Collects queries of many requests, answers them in batches, and gives each request its own answers in its order.

    A request that is given up, because its time is over or its client has gone, leaves the queue; what is being computed can
    find out.

    Args:
        compute: answers queries, in another thread: for each its answer, or the exception that it raised. It is also given
            a function that says whether somebody still waits for the answer to the query with a number; nobody looks at others.
        limits: of the queue.
        cost: how much work a query is.
        observe: told the number of queries in each batch, and the seconds that it took, before anybody gets an answer.
        clean_up: called in the thread that computes, after the answers of each batch have been given.
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
        self._pace = 0.0  # seconds a query, of the last batches
        self._task: asyncio.Task[None] | None = None
        self._more: asyncio.Event | None = None

    @property
    def waiting(self) -> int:
        """Queries that nobody has begun with."""
        return len(self._waiting)

    async def run(self, queries: Sequence[Query]) -> list[Answer]:
        """The answers to the queries of one request.

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
        finally:  # also if the client has gone
            for job, answer in zip(jobs, answers, strict=True):
                job.given_up = True  # if it is being computed, it cannot be canceled
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
        """Begin to work, in the event loop of the first request."""
        if self._task is None or self._task.done():
            self._more = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._work())
        assert self._more is not None
        self._more.set()

    async def _work(self) -> None:
        """Answer batches until nothing waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._wait_for_company()
            batch = self._next_batch()
            if batch:
                await loop.run_in_executor(self._thread, self._answer, batch)

    async def _wait_for_company(self) -> None:
        """Until the batch is full, or the window of the query that waits longest is over."""
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
        """What waits longest, and what else fits beside it. Queries too large for that have every second turn, alone."""
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
