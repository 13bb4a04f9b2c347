"""Workers that are given one item after the other; an item whose worker dies is tried again, whatever the workers are."""

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
"""How often an item is tried whose worker dies, and how many workers in a row may die as they start."""


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """How a task ended: ``error`` is ``None``, or what it raised, or that its process was killed."""

    item: Item
    result: Result | None = None
    error: BaseException | None = None


@dataclass
class Pending(Generic[Item]):
    """An item that waits for a worker, or has one.

    Attributes:
        item: what to work on.
        deaths: workers that have died of it.
    """

    item: Item
    deaths: int = 0


class WorkersDiedError(LacunerError):
    """An item whose workers have died as often as it was tried."""


class Retries(Generic[Item]):
    """Items that are still to be worked on; those whose worker has died come first.

    Args:
        items: read when they are asked for. When there is none left, it is asked again later: what has ended may bring more.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._waiting: deque[Pending[Item]] = deque()
        self._failed_starts = 0

    def count(self, most: int) -> int:
        """How many items wait, as far as somebody wants to know; no more of them are read."""
        while len(self._waiting) < most:
            try:
                self._waiting.append(Pending(next(self._items)))
            except StopIteration:
                break
        return min(most, len(self._waiting))

    def take(self) -> Pending[Item] | None:
        """The next one; ``None`` if there is none left now."""
        return self._waiting.popleft() if self.count(1) else None

    def started(self) -> None:
        """A worker has loaded what it needs."""
        self._failed_starts = 0

    def died_at_start(self, how: str) -> None:
        """A worker has died before it had loaded what it needs; too many of them in a row are an error."""
        self._failed_starts += 1
        if self._failed_starts >= ATTEMPTS:
            raise LacunerError(
                f"{ATTEMPTS} workers in a row died while starting; the last one {how} — if memory ran out, use "
                "fewer --workers"
            )

    def died(self, pending: Pending[Item], how: str) -> Outcome[Item, Any] | None:
        """A worker has died, so that its item is to be tried again; what to say if it was tried often enough."""
        pending.deaths += 1
        if pending.deaths < ATTEMPTS:
            self._waiting.appendleft(pending)
            return None
        return Outcome(
            pending.item, error=WorkersDiedError(f"{ATTEMPTS} workers died while processing it; the last one {how}")
        )


class PoolWorker(ABC):
    """A worker that loads what it needs, says so, and then answers items one by one.

    Attributes:
        pending: the item that it is to answer; ``None``: it has none.
        started: it has loaded what it needs. Until then it has no item: where there is no place for it, it may never start.
        dead: it answers no more; set by :meth:`received`.
    """

    def __init__(self) -> None:
        self.pending: Pending[Any] | None = None
        self.started = False
        self.dead = False

    @abstractmethod
    def send(self, item: object) -> None:
        """Hand it an item. If it has died meanwhile, :meth:`received` says so."""

    @abstractmethod
    def received(self) -> Answer | None:
        """What it has answered, if it has."""

    @abstractmethod
    def how_it_ended(self) -> str:
        """How a dead worker has ended, in a few words."""

    def give(self, pending: Pending[Any]) -> None:
        """Hand it the next item."""
        self.pending = pending
        self.send(pending.item)

    def outcome(self, waiting: Retries[Any]) -> Outcome[Any, Any] | None:
        """What has become of the item that it was given, if that is known now."""
        pending, answer = self.pending, self.received()
        if answer is None:
            if not self.dead:
                return None
            if pending is not None:
                return waiting.died(pending, self.how_it_ended())
            waiting.died_at_start(self.how_it_ended())
            return None
        if pending is None:
            answer.result()  # an error of the start is raised
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
    """Work on independent items, as ``Engine.map_each`` says; what has ended comes first.

    Only workers that have started are given items, so that one for which there is no place keeps nothing back, and nobody
    waits for it when everything is done.

    Args:
        items: read when a worker is free, or is to be started for it.
        size: workers at a time.
        begin: starts a worker, which answers when it has loaded what it needs.
        wait: returns when one of these workers has answered, or is dead.
        end: ends workers, dead or not.
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
                yield from outcomes  # while everybody is at work again
                outcomes.clear()
                continue  # those who have read them may have brought more items
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
    """An item, and its place among all."""

    number: int
    item: Any

    def __str__(self) -> str:
        return str(self.item)


def in_order(
    run: Callable[[Iterator[Numbered]], Generator[Outcome[Numbered, Any], None, None]], items: Iterable[Any], ahead: int
) -> Generator[Outcome[Numbered, Any], None, None]:
    """The outcomes of :func:`map_with_retries` in the order of the items.

    Args:
        run: gives the outcomes of numbered items, as they come. It asks for items again after each outcome.
        items: to number.
        ahead: how many of them are read at most before the outcome of the first one is known.
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
    """Numbered items; it ends, for now, where nobody may read ahead any further.

    Attributes:
        passed: items whose outcomes were handed on.
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
