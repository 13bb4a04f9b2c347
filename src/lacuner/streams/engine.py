"""Where work runs: an ordered map, and independent tasks, over the processes of this machine.

``annotate``, ``predict`` and ``bench`` know the protocol :class:`Engine` only. An engine for a cluster has the same two
methods: ``start`` is the constructor of an actor there.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Generic, Literal, Protocol, TypeVar

from lacuner.errors import ConfigError, LacunerError

Item = TypeVar("Item")
Result = TypeVar("Result")

StartMethod = Literal["fork", "spawn"]
_PAUSE = 0.2  # seconds between two calls of ``watch``


def available_cores() -> int:
    """The cores that this process may use, which containers and job schedulers restrict."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def make_engine(name: str, workers: int, start_method: StartMethod | None = None) -> Engine:
    """The engine that a user names: ``local``, or one that a package brings.

    Args:
        name: ``local``, or the name of an entry point of the group ``lacuner.engines``, which is called with ``workers``.
        workers: processes at a time.
        start_method: see :class:`LocalEngine`; other engines decide for themselves.
    """
    if name == "local":
        return LocalEngine(workers, start_method)
    others = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        raise ConfigError(f"there is no engine {name!r}; choose {', '.join(['local', *sorted(others)])}")
    engine: Engine = others[name].load()(workers)
    return engine


class LocalEngine:
    """Processes of this machine. They end with their parent, however it ends.

    Args:
        workers: processes at a time; 1 runs :meth:`map` in this process.
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

    def run_each(
        self, task: Callable[[Item], Result], items: Iterable[Item], watch: Callable[[Item], None] = lambda item: None
    ) -> Generator[Outcome[Item, Result], None, None]:
        """See :meth:`Engine.run_each`."""
        waiting = iter(items)
        running: list[_Running[Item]] = []
        exhausted = False
        try:
            while running or not exhausted:
                while not exhausted and len(running) < self.workers:
                    try:
                        item = next(waiting)
                    except StopIteration:
                        exhausted = True
                        break
                    running.append(self._begin(task, item))
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
            with _naming(item):
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

    def _begin(self, task: Callable[[Item], Result], item: Item) -> "_Running[Item]":
        context = self._context()
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, self._pack((task, item)), self.threads)
        process = context.Process(target=_run_task, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Running(item, process, ours)

    def _context(self) -> SpawnContext:
        context: Any = multiprocessing.get_context(self.start_method)
        return context  # type: ignore[no-any-return]

    def _pack(self, value: object) -> "_Packed":
        """What a worker is told. A new interpreter unpacks it after its threads are limited, for torch looks only once."""
        return _Packed(value if self.start_method == "fork" else pickle.dumps(value), self.start_method != "fork")


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


@dataclass(frozen=True)
class _Packed:
    value: Any
    pickled: bool

    def unpack(self) -> Any:
        return pickle.loads(self.value) if self.pickled else self.value


@dataclass
class _Running(Generic[Item]):
    item: Item
    process: Any
    connection: Connection

    def outcome(self) -> "Outcome[Item, Any] | None":
        """How it ended; ``None`` while it is running."""
        ended = self.process.exitcode is not None  # asked first: what it has sent is then there
        try:
            if self.connection.poll():
                ok, value = self.connection.recv()
                return Outcome(self.item, result=value) if ok else Outcome(self.item, error=value)
        except EOFError:
            self.process.join()
            ended = True
        if not ended:
            return None
        code = self.process.exitcode
        killed = "was killed (out of memory?)" if code == -signal.SIGKILL else f"ended with code {code}"
        return Outcome(self.item, error=LacunerError(f"its process {killed}"))

    def end(self) -> None:
        self.process.join()
        self.process.close()
        self.connection.close()


@contextmanager
def _naming(item: object) -> Iterator[None]:
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
    with _naming(item):
        try:
            return future.result()
        except BrokenProcessPool:
            raise _killed(item) from None


def _killed(item: object) -> LacunerError:
    return LacunerError(f"a worker process was killed at about {item} — if memory ran out, use fewer --workers")


# In the worker

_state: dict[str, Any] = {}
"""How this worker begins, and, once it has begun, what it does with an item."""


def _start_worker(start: _Packed, threads: int) -> None:
    _prepare(threads)
    _state.update(start=start)


def _work(item: object) -> object:
    if "task" not in _state:  # not before there is an item, because an error that is raised here reaches the parent
        _state["task"] = _state["start"].unpack()()
    return _state["task"](item)


def _run_task(connection: Connection, packed: _Packed, threads: int) -> None:
    _prepare(threads)
    try:
        task, item = packed.unpack()
        answer: tuple[bool, Any] = (True, task(item))
    except Exception as error:
        answer = (False, error)
    try:
        connection.send(answer)
    except Exception as error:  # a result, or an error, that cannot be pickled
        connection.send((False, LacunerError(f"{type(error).__name__}: {error} (of {type(answer[1]).__name__})")))


def _prepare(threads: int) -> None:
    """Ctrl-C is for the parent, who ends the workers; a parent that was killed cannot, so they watch for its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    os.environ["OMP_NUM_THREADS"] = str(min(threads, int(wanted)) if wanted.isdecimal() else threads)
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that wait actively slow down the other processes
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
