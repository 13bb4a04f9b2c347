"""Worker pools with retries: an item whose worker dies is retried, independent of the kind of worker."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from lacuner.errors import LacunerError
from lacuner.streams.interrupts import interrupts_deferred
from lacuner.streams.worker import Answer

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS = 3
"""Maximum attempts at an item whose worker dies, and maximum number of consecutive workers that die on start."""


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """The outcome of a task: ``error`` is ``None``, the exception raised, or a note that its process was killed."""

    item: Item
    result: Result | None = None
    error: BaseException | None = None


@dataclass
class Pending(Generic[Item]):
    """An item that waits for a worker, or has one.

    Attributes:
        item: the work item.
        deaths: number of workers that died on it.
    """

    item: Item
    deaths: int = 0


class WorkersDiedError(LacunerError):
    """An item whose workers died at every attempt."""


class Retries(Generic[Item]):
    """Items still to be processed; those whose worker died come first.

    Args:
        items: read on demand. After exhaustion they are asked again later, because outcomes may add more.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._waiting: deque[Pending[Item]] = deque()
        self._failed_starts = 0

    def count(self, most: int) -> int:
        """Number of waiting items, up to ``most``; no more are read."""
        while len(self._waiting) < most:
            try:
                self._waiting.append(Pending(next(self._items)))
            except StopIteration:
                break
        return min(most, len(self._waiting))

    def take(self) -> Pending[Item] | None:
        """The next item; ``None`` if there is none at the moment."""
        return self._waiting.popleft() if self.count(1) else None

    def started(self) -> None:
        """A worker has finished loading."""
        self._failed_starts = 0

    def died_at_start(self, how: str) -> None:
        """A worker died while loading; too many of these in a row are an error."""
        self._failed_starts += 1
        if self._failed_starts >= ATTEMPTS:
            raise LacunerError(
                f"{ATTEMPTS} workers in a row died while starting; the last one {how} — if memory ran out, use "
                "fewer --workers"
            )

    def died(self, pending: Pending[Item], how: str) -> Outcome[Item, Any] | None:
        """A worker died: schedule a retry of its item, or return an outcome if there were too many."""
        pending.deaths += 1
        if pending.deaths < ATTEMPTS:
            self._waiting.appendleft(pending)
            return None
        return Outcome(
            pending.item, error=WorkersDiedError(f"{ATTEMPTS} workers died while processing it; the last one {how}")
        )


class PoolWorker(ABC):
    """A worker that loads what it needs, reports that, and then processes items one by one.

    Attributes:
        pending: the item being processed; ``None``: none.
        started: whether it has finished loading. Until then it gets no item: without resources, it may never start.
        dead: whether it has ended; set by :meth:`received`.
    """

    def __init__(self) -> None:
        self.pending: Pending[Any] | None = None
        self.started = False
        self.dead = False

    @abstractmethod
    def send(self, item: object) -> None:
        """Send it an item. If it has died meanwhile, :meth:`received` reports that."""

    @abstractmethod
    def received(self) -> Answer | None:
        """Its answer, if any."""

    @abstractmethod
    def how_it_ended(self) -> str:
        """How a dead worker ended, in a few words."""

    def give(self, pending: Pending[Any]) -> None:
        """Assign the next item."""
        self.pending = pending
        self.send(pending.item)

    def outcome(self, waiting: Retries[Any]) -> Outcome[Any, Any] | None:
        """The outcome of its item, if known."""
        pending, answer = self.pending, self.received()
        if answer is None:
            if not self.dead:
                return None
            if pending is not None:
                return waiting.died(pending, self.how_it_ended())
            waiting.died_at_start(self.how_it_ended())
            return None
        if pending is None:
            answer.result()  # raises an error of the start
            self.started = True
            waiting.started()
            return None
        self.pending = None
        return Outcome(pending.item, answer.value, answer.error)


Worker = TypeVar("Worker", bound=PoolWorker)


def map_with_retries(
    items: Iterable[Item],
    size: int,
    begin: Callable[[], Worker],
    wait: Callable[[Sequence[Worker]], None],
    end: Callable[[Sequence[Worker]], None],
) -> Generator[Outcome[Item, Any], None, None]:
    """Process independent items, as specified by ``Engine.map_each``; outcomes are yielded as they complete.

    Only started workers get items, so that one that waits for resources holds nothing back, and is not waited for at the end.

    Args:
        items: read when a worker is free, or can be started.
        size: number of workers.
        begin: starts a worker, which answers when it has finished loading.
        wait: returns when one of these workers has answered or died.
        end: terminates workers, dead or alive.
    """
    waiting = Retries(items)
    pool: list[Worker] = []
    outcomes: list[Outcome[Item, Any]] = []
    try:
        while True:
            for each in pool:
                if each.started and each.pending is None and (pending := waiting.take()) is not None:
                    each.give(pending)
            starting = sum(not each.started for each in pool)
            while len(pool) < size and waiting.count(starting + 1) > starting:
                with interrupts_deferred():
                    pool.append(begin())
                starting += 1
            if outcomes:
                yield from outcomes  # while everyone is working again
                outcomes.clear()
                continue  # the consumer may have added items
            if not waiting.count(1) and all(each.pending is None for each in pool):
                return
            asked = [each for each in pool if not each.started or each.pending is not None]
            wait(asked)
            for each in asked:
                outcome = each.outcome(waiting)
                if each.dead:
                    pool.remove(each)
                    end([each])
                if outcome is not None:
                    outcomes.append(outcome)
    finally:
        end(pool)


class Numbered(NamedTuple):
    """An item and its index."""

    number: int
    item: Any

    def __str__(self) -> str:
        return str(self.item)


def in_order(
    run: Callable[[Iterator[Numbered]], Generator[Outcome[Numbered, Any], None, None]], items: Iterable[Any], ahead: int
) -> Generator[Outcome[Numbered, Any], None, None]:
    """Reorder the outcomes of :func:`map_with_retries` to the order of the items.

    Args:
        run: yields outcomes of numbered items as they complete. It asks for items again after each outcome.
        items: to number.
        ahead: maximum number of items read before the outcome of the first is known.
    """
    window = _Window(items, ahead)
    known: dict[int, Outcome[Numbered, Any]] = {}
    with closing(run(window)) as ended:
        for outcome in ended:
            known[outcome.item.number] = outcome
            while window.passed in known:
                found = known.pop(window.passed)
                window.passed += 1
                yield found


class _Window(Iterator[Numbered]):
    """Numbered items; ends temporarily when the read-ahead limit is reached.

    Attributes:
        passed: number of items whose outcomes were yielded.
    """

    def __init__(self, items: Iterable[Any], size: int) -> None:
        self.passed = 0
        self._items, self._size, self._read = iter(items), size, 0

    def __next__(self) -> Numbered:
        if self._read - self.passed >= self._size:
            raise StopIteration
        numbered = Numbered(self._read, next(self._items))
        self._read += 1
        return numbered
