"""Workers that are made up: which of them ever start, and which die, is decided here."""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from lacuner.errors import LacunerError, ModelError
from lacuner.streams.retries import Numbered, Outcome, PoolWorker, in_order, map_with_retries
from lacuner.streams.worker import Answer, attempt

READY = Answer()


class Worker(PoolWorker):
    """Doubles numbers. It answers when it is asked for the second time.

    Args:
        placed: whether it ever starts.
        deadly: items of which it dies.
        start: what it says about its start; ``None``: it dies of it.
    """

    def __init__(self, placed: bool = True, deadly: Iterable[int] = (), start: Answer | None = READY) -> None:
        super().__init__()
        self.placed, self._deadly, self._start = placed, set(deadly), start
        self.ended = False
        self._asked = 0

    def send(self, item: Any) -> None:
        assert self.started, "only workers that have started are given items"
        self._asked = 0

    def received(self) -> Answer | None:
        self._asked += 1
        if not self.placed or self._asked < 2:
            return None
        item = None if self.pending is None else self.pending.item
        number = item.item if isinstance(item, Numbered) else item
        if not self.started:
            self.dead = self._start is None
            return self._start
        self.dead = number in self._deadly
        return None if self.dead else attempt(_double, number)

    def how_it_ended(self) -> str:
        return "fell asleep"


def _double(number: int) -> int:
    return 2 * number


def run(items: Iterable[Any], *workers: Worker, more: Callable[[], Worker] = Worker) -> Iterator[Outcome[Any, Any]]:
    """A map with these workers; those that replace them are made by ``more``."""
    given, everybody = deque(workers), list(workers)

    def begin() -> Worker:
        if not given:
            everybody.append(more())
        return given.popleft() if given else everybody[-1]

    def wait(asked: Sequence[Worker]) -> None:
        assert any(each.placed for each in asked), "it would wait for ever"

    def end(ended: Sequence[Worker]) -> None:
        for each in ended:
            each.ended = True

    yield from map_with_retries(items, len(workers), begin, wait, end)
    assert all(each.ended for each in everybody if each not in given)


def test_a_worker_that_never_starts_keeps_nothing_back() -> None:
    for workers in ([Worker(), Worker(placed=False)], [Worker(placed=False), Worker(), Worker(placed=False)]):
        assert sorted(outcome.result for outcome in run(range(7), *workers)) == list(range(0, 14, 2))


def test_a_dead_worker_that_cannot_be_replaced_leaves_its_item_to_the_others() -> None:
    workers = [Worker(deadly=range(100)), Worker()]
    found = [outcome.result for outcome in run(range(7), *workers, more=lambda: Worker(placed=False))]
    assert sorted(found) == list(range(0, 14, 2))


def test_no_more_workers_are_started_than_there_are_items() -> None:
    workers = [Worker() for _ in range(5)]
    assert [outcome.result for outcome in run([3, 4], *workers)] == [6, 8]
    assert sum(each.started for each in workers) == 2
    assert list(run([], *workers)) == []


def test_an_item_that_kills_three_workers_is_given_up() -> None:
    outcomes = {each.item: each for each in run(range(5), Worker(deadly=[3]), more=lambda: Worker(deadly=[3]))}
    assert [outcomes[number].result for number in range(5)] == [0, 2, 4, None, 8]
    assert str(outcomes[3].error) == "3 workers died while processing it; the last one fell asleep"


def test_three_workers_in_a_row_that_die_as_they_start_end_the_map() -> None:
    with pytest.raises(LacunerError, match=r"^3 workers in a row died while starting; the last one fell asleep —"):
        list(run(count(), Worker(start=None), more=lambda: Worker(start=None)))


def test_an_error_of_the_start_is_raised() -> None:
    with pytest.raises(ModelError, match="no such model"):
        list(run(count(), Worker(), Worker(start=Answer(error=ModelError("there is no such model")))))


def test_outcomes_may_bring_more_items() -> None:
    left, found = deque([8]), []
    for outcome in run(_Left(left), Worker(), Worker()):
        found.append(outcome.item)
        if outcome.item > 1:
            left += [outcome.item // 2] * 2
    assert sorted(found) == [1] * 8 + [2] * 4 + [4] * 2 + [8]


class _Left(Iterator[int]):
    def __init__(self, left: deque[int]) -> None:
        self._left = left

    def __next__(self) -> int:
        if not self._left:
            raise StopIteration
        return self._left.popleft()


def test_numbered_outcomes_come_in_order_and_little_is_read_ahead() -> None:
    read: list[int] = []
    items = (read.append(number) or number for number in count())  # type: ignore[func-returns-value]
    workers = [Worker(), Worker(placed=False), Worker(deadly=[0, 1, 2])]
    outcomes = in_order(lambda numbered: run(numbered, *workers), items, 6)  # type: ignore[arg-type, return-value]
    assert [next(outcomes).result for _ in range(50)] == list(range(0, 100, 2))
    assert len(read) <= 50 + 6
    outcomes.close()


def test_ctrl_c_at_the_start_of_a_worker_ends_that_worker() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun: list[Worker] = []

    def begin() -> Worker:
        begun.append(Worker())
        signal.raise_signal(signal.SIGINT)
        return begun[-1]

    def end(ended: Sequence[Worker]) -> None:
        for each in ended:
            each.ended = True

    try:
        with pytest.raises(KeyboardInterrupt):
            list(map_with_retries([1], 1, begin, lambda asked: None, end))
    finally:
        signal.signal(signal.SIGINT, before)
    assert [each.ended for each in begun] == [True]
