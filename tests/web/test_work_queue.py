import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lacuner.web.work_queue import BusyError, WorkQueue


def one_by_one(works: Sequence[Any]) -> list[Any]:
    return [work() for work in works]


def test_work_is_done_and_its_result_returned() -> None:
    assert asyncio.run(WorkQueue(one_by_one).run(pow, 2, 5)) == 32


def test_what_fails_fails_alone() -> None:
    def do_together(works: Sequence[Any]) -> list[Any]:
        return [ZeroDivisionError("alone") if work.args == (0,) else work() for work in works]

    async def use() -> list[Any]:
        queue = WorkQueue(do_together)
        return await asyncio.gather(*(queue.run(float, number) for number in (1, 0, 2)), return_exceptions=True)

    one, failed, two = asyncio.run(use())
    assert (one, str(failed), two) == (1.0, "alone", 2.0)


def test_if_nothing_could_be_done_everybody_hears_why() -> None:
    def fails(works: Sequence[Any]) -> list[Any]:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        asyncio.run(WorkQueue(fails).run(int))


class Blocked:
    """A queue whose first piece of work takes until it is released."""

    def __init__(self, **limits: Any) -> None:
        self.batches: list[int] = []
        self.begun, self.released = threading.Event(), threading.Event()
        self.queue = WorkQueue(self.do_together, **limits)

    def do_together(self, works: Sequence[Any]) -> list[Any]:
        self.batches.append(len(works))
        return one_by_one(works)

    def block(self) -> str:
        self.begun.set()
        assert self.released.wait(20)
        return "done"

    async def start(self) -> "asyncio.Task[str]":
        first = asyncio.create_task(self.queue.run(self.block))
        await asyncio.to_thread(self.begun.wait, 20)
        return first


def test_what_has_waited_meanwhile_is_done_together() -> None:
    async def use() -> list[int]:
        blocked = Blocked()
        first = await blocked.start()
        others = [asyncio.create_task(blocked.queue.run(int)) for _ in range(20)]
        await asyncio.sleep(0)
        blocked.released.set()
        assert await asyncio.gather(first, *others) == ["done", *[0] * 20]
        return blocked.batches

    assert asyncio.run(use()) == [1, 20]


def test_a_full_queue_refuses_at_once_and_takes_more_when_there_is_room() -> None:
    async def use() -> None:
        blocked = Blocked(max_waiting=3)
        first = await blocked.start()
        others = [asyncio.create_task(blocked.queue.run(int)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="Nothing was stored, because the server is busy"):
            await asyncio.wait_for(blocked.queue.run(int), 5)
        blocked.released.set()
        assert await asyncio.gather(first, *others) == ["done", 0, 0]
        assert await blocked.queue.run(int) == 0

    asyncio.run(use())


def test_what_waits_too_long_is_never_done_but_what_has_begun_is_waited_for() -> None:
    done: list[str] = []

    async def use() -> str:
        blocked = Blocked(max_seconds=0.1)
        first = await blocked.start()
        with pytest.raises(BusyError):
            await blocked.queue.run(done.append, "late")
        blocked.released.set()
        result = await first
        await blocked.queue.run(done.append, "in time")
        return result

    assert (asyncio.run(use()), done) == ("done", ["in time"])
