"""Workers that are given one item after the other; an item whose worker dies is tried again, whatever the workers are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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


class Retries(Generic[Item]):
    """Items that are still to be worked on; those whose worker has died come first.

    Args:
        items: read when they are asked for.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._again: list[Pending[Item]] = []
        self._failed_starts = 0

    def take(self) -> Pending[Item] | None:
        """The next one; ``None`` if there is none left now."""
        if self._again:
            return self._again.pop()
        try:
            return Pending(next(self._items))
        except StopIteration:
            return None

    def started(self) -> None:
        """A worker has loaded what it needs."""
        self._failed_starts = 0

    def died(self, pending: Pending[Item], how: str, starting: bool) -> Outcome[Item, Any] | None:
        """A worker has died, so that its item is to be tried again; what to say if it was tried often enough."""
        if starting:
            self._failed_starts += 1
            if self._failed_starts >= ATTEMPTS:
                raise LacunerError(
                    f"{ATTEMPTS} workers in a row have died as they started; the last one {how} — if memory ran out, use "
                    "fewer --workers"
                )
            self._again.append(pending)
            return None
        pending.deaths += 1
        if pending.deaths < ATTEMPTS:
            self._again.append(pending)
            return None
        return Outcome(pending.item, error=LacunerError(f"{ATTEMPTS} workers have died of it; the last one {how}"))


class PoolWorker(ABC):
    """A worker that loads what it needs, says so, and then answers items one by one.

    Attributes:
        pending: the item that it is to answer; ``None``: it is free.
        started: it has loaded what it needs.
        dead: it answers no more; set by :meth:`received`.
    """

    def __init__(self, pending: Pending[Any]) -> None:
        self.pending: Pending[Any] | None = pending
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
        assert pending is not None, "only busy workers are asked"
        if answer is None:
            return waiting.died(pending, self.how_it_ended(), not self.started) if self.dead else None
        if not self.started:
            answer.result()  # an error of the start is raised
            self.started = True
            waiting.started()
            self.give(pending)
            return None
        self.pending = None
        return Outcome(pending.item, answer.value, answer.error)


Worker = TypeVar("Worker", bound=PoolWorker)


def map_with_retries(
    items: Iterable[Item],
    size: int,
    begin: Callable[[Pending[Item]], Worker],
    wait: Callable[[Sequence[Worker]], None],
    end: Callable[[Sequence[Worker]], None],
) -> Generator[Outcome[Item, Any], None, None]:
    """Work on independent items, as ``Engine.map_each`` says; what has ended comes first.

    Args:
        items: read when a worker is free.
        size: workers at a time.
        begin: starts a worker, which answers when it has loaded what it needs, and is then given the item.
        wait: returns when one of these workers has answered, or is dead.
        end: ends workers, dead or not.
    """
    waiting = Retries(items)
    pool: list[Worker] = []
    outcomes: list[Outcome[Item, Any]] = []
    try:
        while True:
            free = [each for each in pool if each.pending is None]
            while (len(pool) < size or free) and (pending := waiting.take()) is not None:
                if free:
                    free.pop().give(pending)
                    continue
                with interrupts_deferred():
                    pool.append(begin(pending))
            yield from outcomes  # while everybody is at work again
            outcomes.clear()
            busy = [each for each in pool if each.pending is not None]
            if not busy:
                return
            wait(busy)
            for each in busy:
                outcome = each.outcome(waiting)
                if each.dead:
                    pool.remove(each)
                    end([each])
                if outcome is not None:
                    outcomes.append(outcome)
    finally:
        end(pool)
