"""Engines: an ordered map, a map over independent items, and independent tasks, on the processes of this machine.

``annotate``, ``predict`` and ``bench`` use only the protocol :class:`Engine`. :mod:`lacuner.streams.ray_engine` implements
it, too: there, ``start`` becomes the constructor of an actor.
"""

import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Literal, Protocol, TypeVar

from lacuner.errors import ConfigError, LacunerError
from lacuner.streams.interrupts import interrupts_deferred
from lacuner.streams.retries import Outcome, PoolWorker, map_with_retries
from lacuner.streams.worker import Answer, Packed, attempt, prepare, run_task, sendable, serve_items

Item = TypeVar("Item")
Result = TypeVar("Result")

StartMethod = Literal["fork", "spawn"]
_PAUSE = 0.2  # seconds between two calls of ``watch``


def available_cores() -> int:
    """Number of cores available to this process, respecting containers and job schedulers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cluster_cores(address: str) -> int:
    """Number of cores of a Ray cluster."""
    from lacuner.streams.ray_engine import RayEngine

    return RayEngine(address=address).workers


class Engine(Protocol):
    """Runs work, in this process or elsewhere."""

    def map(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of all items, in order.

        Items are read only a few ahead, so that a stream of any size needs constant memory. The first error ends the map; it
        is raised with a note that names the item.

        Args:
            start: called once in each worker, to load what it needs; returns the function to apply to items.
            items: work items; ``str(item)`` is used in error messages.
        """
        ...

    def map_each(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        """Process independent items, and yield outcomes as they complete.

        A failing item does not affect others. If its worker dies, it is retried on another, up to three times in all. Only a
        worker that cannot start ends the map, since others would not start either. If the caller closes the iterator, or is
        interrupted, the workers are terminated.

        Args:
            start: called once in each worker, to load what it needs; returns the function to apply to items.
            items: work items, read when a worker is free. An iterator may provide more after an outcome; callers that rely on
                this start another map for items that an engine leaves over.
        """
        ...

    def run_each(
        self, task: Callable[[Item], Result], items: Iterable[Item], watch: Callable[[Item], None] = lambda item: None
    ) -> Generator[Outcome[Item, Result], None, None]:
        """Run independent tasks, each in its own process, and yield outcomes as they complete.

        A task that fails, or whose process is killed, does not affect others. Each process returns its memory, and its peak
        can be measured. If the caller closes the iterator, or is interrupted, all running tasks are terminated.

        Args:
            task: applied to each item. It must not start processes of its own.
            items: work items.
            watch: called a few times per second for every running item, for instance to show its progress.
        """
        ...


ENTRY_POINTS = "lacuner.engines"


def make_engine(
    name: str, workers: int | None = None, start_method: StartMethod | None = None, address: str | None = None
) -> Engine:
    """Create an engine by name: ``local``, ``ray``, or one provided by a package.

    Args:
        name: ``local``, ``ray``, or the name of an entry point of the group ``lacuner.engines``, which is called with
            ``workers``.
        workers: number of processes; by default one per core of this machine, or of the cluster.
        start_method: see :class:`LocalEngine`; other engines ignore it.
        address: of a Ray cluster.
    """
    if name == "ray":
        from lacuner.streams.ray_engine import RayEngine

        return RayEngine(workers, address)
    if address is not None:
        raise ConfigError("--address is the address of a Ray cluster — add --engine ray, or leave it out")
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
        workers: number of processes; 1 runs :meth:`map` and :meth:`map_each` in this process.
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
        running: list[tuple[_Process, Item]] = []
        try:
            while True:
                for item in islice(waiting, self.workers - len(running)):
                    with interrupts_deferred():
                        running.append((self._start(run_task, self._pack((task, item))), item))
                if not running:
                    return
                _wait((process for process, _ in running), _PAUSE)
                for process, item in list(running):
                    answer = process.received()
                    if answer is None and not process.ended:
                        watch(item)
                        continue
                    running.remove((process, item))
                    if answer is None:
                        answer = Answer(error=LacunerError(f"its process {process.how_it_ended()}"))
                    process.end()
                    yield Outcome(item, answer.value, answer.error)
        finally:
            _kill([process for process, _ in running])

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
        except BaseException:  # also if the caller stops iterating: pending results are not needed
            _kill_workers(pool)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _map_each_in_pool(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        packed = self._pack(start)

        def begin() -> _PoolProcess:
            return _PoolProcess(self._start(serve_items, packed, duplex=True))

        def end(workers: Sequence[_PoolProcess]) -> None:
            _kill([each.process for each in workers])

        return map_with_retries(items, self.workers, begin, lambda busy: _wait(each.process for each in busy), end)

    def _start(self, target: Callable[..., None], packed: Packed, duplex: bool = False) -> "_Process":
        context = self._context()
        ours, theirs = context.Pipe(duplex)
        process = context.Process(target=target, args=(theirs, packed, self.threads), daemon=True)
        process.start()
        theirs.close()
        return _Process(process, ours)

    def _context(self) -> SpawnContext:
        context: Any = multiprocessing.get_context(self.start_method)
        return context  # type: ignore[no-any-return]

    def _pack(self, value: object) -> Packed:
        return Packed(value if self.start_method == "fork" else pickle.dumps(value), self.start_method != "fork")


def _kill_workers(pool: ProcessPoolExecutor) -> None:
    """Kill all workers at once. From Python 3.14 on: ``pool.kill_workers()``."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    # A result may be only partly sent. Without a writer, the pool sees the end of it instead of waiting forever.
    results: Any = pool._result_queue
    results._writer.close()


def _default_start_method() -> StartMethod:
    safe = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return "fork" if safe else "spawn"


@dataclass(eq=False)
class _Process:
    """A child process and the connection to it; ``ended`` is set once nothing more can be received."""

    process: Any
    connection: Connection
    ended: bool = False

    def received(self) -> Answer | None:
        """What the process has sent, if anything."""
        ended = self.process.exitcode is not None  # checked first, so that everything it has sent is then available
        try:
            if self.connection.poll():
                answer: Answer = self.connection.recv()
                return answer
        except (EOFError, OSError):
            self.process.join()
            ended = True
        except Exception as error:  # a value that cannot be unpickled
            return Answer(error=sendable(error))
        self.ended = ended
        return None

    def how_it_ended(self) -> str:
        code = self.process.exitcode
        return "was killed (out of memory?)" if code == -signal.SIGKILL else f"ended with code {code}"

    def end(self) -> None:
        self.process.join()
        self.process.close()
        self.connection.close()


class _PoolProcess(PoolWorker):
    """A process that works on one item after the other."""

    def __init__(self, process: _Process) -> None:
        super().__init__()
        self.process = process

    def send(self, item: object) -> None:
        with suppress(OSError):
            self.process.connection.send(item)

    def received(self) -> Answer | None:
        answer = self.process.received()
        self.dead = self.process.ended
        return answer

    def how_it_ended(self) -> str:
        return self.process.how_it_ended()


def _wait(processes: Iterable[_Process], seconds: float | None = None) -> None:
    """Wait until one of them has sent something or ended, or until the timeout."""
    wait([handle for each in processes for handle in (each.process.sentinel, each.connection)], seconds)


def _kill(processes: Sequence[_Process]) -> None:
    for each in processes:
        each.process.kill()
    for each in processes:
        each.end()


@contextmanager
def naming(item: object) -> Iterator[None]:
    """Add a note with the item to unexpected errors; expected ones already name their origin."""
    try:
        yield
    except LacunerError:
        raise
    except Exception as error:
        error.add_note(f"while working on {item}")
        raise


def _submit(pool: ProcessPoolExecutor, item: object) -> Future[Any]:
    try:
        with interrupts_deferred():  # may start a worker
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
"""This worker's start function, and once started, its work function."""


def _start_worker(start: Packed, threads: int) -> None:
    prepare(threads)
    _state.update(start=start)


def _work(item: object) -> object:
    if "task" not in _state:  # deferred to the first item, because an error raised here reaches the parent
        _state["task"] = attempt(lambda start: start.unpack()(), _state["start"]).result()
    return attempt(_state["task"], item).result()
