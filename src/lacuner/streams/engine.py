"""Where work runs: an ordered map, a map over independent items, and independent tasks, over the processes of this machine.

``annotate``, ``predict`` and ``bench`` know the protocol :class:`Engine` only. :mod:`lacuner.streams.ray_engine` has the same
methods: ``start`` is the constructor of an actor there.
"""

import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Generic, Literal, Protocol, TypeVar

from lacuner.errors import ConfigError, LacunerError
from lacuner.streams.worker import Answer, Packed, attempt, prepare, run_task, serve_items

Item = TypeVar("Item")
Result = TypeVar("Result")

StartMethod = Literal["fork", "spawn"]
_PAUSE = 0.2  # seconds between two calls of ``watch``
ATTEMPTS = 3
"""How often an item is tried whose worker dies, and how many workers in a row may die as they start."""


def available_cores() -> int:
    """The cores that this process may use, which containers and job schedulers restrict."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cluster_cores(address: str) -> int:
    """The cores of a Ray cluster."""
    from lacuner.streams.ray_engine import RayEngine

    return RayEngine(address=address).workers


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """How a task ended: ``error`` is ``None``, or what it raised, or that its process was killed."""

    item: Item
    result: Result | None = None
    error: BaseException | None = None


class Engine(Protocol):
    """Runs work, in this process or elsewhere."""

    def map(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """The results of all items, in their order.

        Items are read a few ahead and no further, so that a stream of any size needs constant memory. The first error
        ends the map; it is raised with a note that names the item.

        Args:
            start: called once in each worker, to load what it needs; returns the function that is applied to items.
            items: what to work on. ``str(item)`` is what error messages call it.
        """
        ...

    def map_each(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        """Work on independent items; what has ended comes first.

        An item that fails takes no other with it. If its worker dies, another one tries it again, three times altogether.
        Only a worker that cannot start ends the map: the others would not either. When the caller closes the iterator,
        or is interrupted, the workers are ended.

        Args:
            start: called once in each worker, to load what it needs; returns the function that is applied to items.
            items: what to work on; read when a worker is free.
        """
        ...

    def run_each(
        self, task: Callable[[Item], Result], items: Iterable[Item], watch: Callable[[Item], None] = lambda item: None
    ) -> Generator[Outcome[Item, Result], None, None]:
        """Run independent tasks, each in a process of its own; what has ended comes first.

        A task that fails, or whose process is killed, takes no other with it. Memory is given back, and its peak can be
        measured. When the caller closes the iterator, or is interrupted, all running tasks are ended.

        Args:
            task: applied to each item. It may not start processes of its own.
            items: what to work on.
            watch: called a few times a second for every item that is running, for instance to show its progress.
        """
        ...


ENTRY_POINTS = "lacuner.engines"


def make_engine(
    name: str, workers: int | None = None, start_method: StartMethod | None = None, address: str | None = None
) -> Engine:
    """The engine that a user names: ``local``, ``ray``, or one that a package brings.

    Args:
        name: ``local``, ``ray``, or the name of an entry point of the group ``lacuner.engines``, which is called with
            ``workers``.
        workers: processes at a time; by default one for each core of this machine, or of the cluster.
        start_method: see :class:`LocalEngine`; other engines decide for themselves.
        address: of a cluster of Ray.
    """
    if name == "ray":
        from lacuner.streams.ray_engine import RayEngine

        return RayEngine(workers, address)
    if address is not None:
        raise ConfigError("--address is that of a Ray cluster — add --engine ray, or leave it out")
    if name == "local":
        return LocalEngine(workers or available_cores(), start_method)
    others = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        raise ConfigError(f"there is no engine {name!r}; choose {', '.join(['local', 'ray', *sorted(others)])}")
    engine: Engine = others[name].load()(workers or available_cores())
    return engine


class LocalEngine:
    """Processes of this machine. They end with their parent, however it ends.

    Args:
        workers: processes at a time; 1 runs :meth:`map` and :meth:`map_each` in this process.
        start_method: ``fork`` copies this process, so that everything in memory is shared; ``spawn`` starts a new
            interpreter, which is the safe way to run torch. By default ``fork`` where it is safe.
        threads: of each worker, for torch and the like; by default workers share the available cores evenly.
    """

    def __init__(self, workers: int = 1, start_method: StartMethod | None = None, threads: int | None = None) -> None:
        if workers < 1:
            raise ValueError("there must be at least one worker")
        self.workers = workers
        self.start_method = start_method or _default_start_method()
        self.threads = threads or max(1, available_cores() // workers)

    def map(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """See :meth:`Engine.map`."""
        return self._map_here(start, items) if self.workers == 1 else self._map_in_pool(start, items)

    def map_each(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        """See :meth:`Engine.map_each`."""
        if self.workers > 1:
            yield from self._map_each_in_pool(start, items)
            return
        work = start()
        for item in items:
            answer = attempt(work, item)
            yield Outcome(item, answer.value, answer.error)

    def run_each(
        self, task: Callable[[Item], Result], items: Iterable[Item], watch: Callable[[Item], None] = lambda item: None
    ) -> Generator[Outcome[Item, Result], None, None]:
        """See :meth:`Engine.run_each`."""
        waiting = iter(items)
        running: list[_Running[Item]] = []
        try:
            while True:
                for item in islice(waiting, self.workers - len(running)):
                    running.append(self._begin(task, item))  # at once: a process that is not known could not be ended
                if not running:
                    return
                wait([each.process.sentinel for each in running] + [each.connection for each in running], _PAUSE)
                for each in list(running):
                    outcome = each.outcome()
                    if outcome is None:
                        watch(each.item)
                    else:
                        running.remove(each)
                        each.end()
                        yield outcome
        finally:
            for each in running:
                each.process.kill()
            for each in running:
                each.end()

    def _map_here(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        work = start()
        for item in items:
            with naming(item):
                result = work(item)
            yield result

    def _map_in_pool(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        pool = ProcessPoolExecutor(self.workers, self._context(), _start_worker, (self._pack(start), self.threads))
        waiting: deque[tuple[Item, Future[Any]]] = deque()
        try:
            for item in items:
                waiting.append((item, _submit(pool, item)))
                if len(waiting) > 2 * self.workers:
                    yield _result(*waiting.popleft())
            while waiting:
                yield _result(*waiting.popleft())
        except BaseException:  # also when the caller stops iterating: nobody wants what is being worked on
            _kill_workers(pool)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _map_each_in_pool(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        waiting, packed = Retries(items), self._pack(start)
        pool: list[_Running[Pending[Item] | None]] = []
        outcomes: list[Outcome[Item, Result]] = []
        try:
            while True:
                free = [each for each in pool if each.started and each.item is None]
                while (len(pool) < self.workers or free) and (pending := waiting.take()) is not None:
                    if free:
                        free.pop().give(pending)
                    else:
                        pool.append(self._start(serve_items, packed, pending, duplex=True))
                yield from outcomes  # while everybody is at work again
                outcomes.clear()
                busy = [each for each in pool if each.item is not None]
                if not busy:
                    return
                wait([each.process.sentinel for each in busy] + [each.connection for each in busy])
                for each in busy:
                    outcome = each.answer(waiting)
                    if each.ended:
                        pool.remove(each)
                        each.end()
                    if outcome is not None:
                        outcomes.append(outcome)
        finally:
            for each in pool:
                each.process.kill()
            for each in pool:
                each.end()

    def _begin(self, task: Callable[[Item], Result], item: Item) -> "_Running[Item]":
        return self._start(run_task, self._pack((task, item)), item)

    def _start(self, target: Callable[..., None], packed: Packed, item: Item, duplex: bool = False) -> "_Running[Item]":
        context = self._context()
        ours, theirs = context.Pipe(duplex)
        process = context.Process(target=target, args=(theirs, packed, self.threads), daemon=True)
        process.start()
        theirs.close()
        return _Running(item, process, ours)

    def _context(self) -> SpawnContext:
        context: Any = multiprocessing.get_context(self.start_method)
        return context  # type: ignore[no-any-return]

    def _pack(self, value: object) -> Packed:
        return Packed(value if self.start_method == "fork" else pickle.dumps(value), self.start_method != "fork")


def _kill_workers(pool: ProcessPoolExecutor) -> None:
    """End all workers at once. From Python 3.14 on: ``pool.kill_workers()``."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    # A result that a worker was sending has no rest. Without a writer the pool sees its end, instead of waiting for ever.
    results: Any = pool._result_queue
    results._writer.close()


def _default_start_method() -> StartMethod:
    safe = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return "fork" if safe else "spawn"


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


@dataclass
class _Running(Generic[Item]):
    """A process of ours: what it works on, and whether it has loaded what it needs, or has ended."""

    item: Item
    process: Any
    connection: Connection
    started: bool = False
    ended: bool = False

    def outcome(self) -> Outcome[Item, Any] | None:
        """How the one item of the process ended; ``None`` while it is running."""
        answer = self._received()
        if answer is not None:
            return Outcome(self.item, answer.value, answer.error)
        return Outcome(self.item, error=LacunerError(f"its process {self._how()}")) if self.ended else None

    def give(self: "_Running[Pending[Any] | None]", pending: Pending[Any]) -> None:
        """Hand it the next of several items. If it has died meanwhile, the answer says so."""
        self.item = pending
        with suppress(OSError):
            self.connection.send(pending.item)

    def answer(self: "_Running[Pending[Any] | None]", waiting: Retries[Any]) -> Outcome[Any, Any] | None:
        """What has become of the item that it was given, if that is known now."""
        answer, pending = self._received(), self.item
        assert pending is not None
        if answer is None:
            return waiting.died(pending, self._how(), not self.started) if self.ended else None
        if not self.started:
            answer.result()  # an error of the start is raised
            self.started = True
            waiting.started()
            self.give(pending)
            return None
        self.item = None
        return Outcome(pending.item, answer.value, answer.error)

    def _received(self) -> Answer | None:
        ended = self.process.exitcode is not None  # asked first: what it has sent is then there
        try:
            if self.connection.poll():
                answer: Answer = self.connection.recv()
                return answer
        except (EOFError, OSError):
            self.process.join()
            ended = True
        self.ended = ended
        return None

    def _how(self) -> str:
        code = self.process.exitcode
        return "was killed (out of memory?)" if code == -signal.SIGKILL else f"ended with code {code}"

    def end(self) -> None:
        self.process.join()
        self.process.close()
        self.connection.close()


@contextmanager
def naming(item: object) -> Iterator[None]:
    """Adds to an unexpected error which item was worked on; the others say where they come from."""
    try:
        yield
    except LacunerError:
        raise
    except Exception as error:
        error.add_note(f"while working on {item}")
        raise


def _submit(pool: ProcessPoolExecutor, item: object) -> Future[Any]:
    try:
        return pool.submit(_work, item)
    except BrokenProcessPool:
        raise _killed(item) from None


def _result(item: object, future: Future[Any]) -> Any:
    with naming(item):
        try:
            return future.result()
        except BrokenProcessPool:
            raise _killed(item) from None


def _killed(item: object) -> LacunerError:
    return LacunerError(f"a worker process was killed at about {item} — if memory ran out, use fewer --workers")


# In the worker

_state: dict[str, Any] = {}
"""How this worker begins, and, once it has begun, what it does with an item."""


def _start_worker(start: Packed, threads: int) -> None:
    prepare(threads)
    _state.update(start=start)


def _work(item: object) -> object:
    if "task" not in _state:  # not before there is an item, because an error that is raised here reaches the parent
        _state["task"] = _state["start"].unpack()()
    return _state["task"](item)
