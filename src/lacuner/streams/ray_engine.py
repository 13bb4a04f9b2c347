"""Ray engine: the same work in actors and tasks on a cluster or this machine. Uses Ray Core only, not Ray Data."""

import gc
import logging
import os
import pickle
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from lacuner.errors import LacunerError
from lacuner.streams.engine import available_cores, naming
from lacuner.streams.ray_cluster import connect, import_ray
from lacuner.streams.retries import Numbered, Outcome, PoolWorker, WorkersDiedError, in_order, map_with_retries
from lacuner.streams.worker import Answer, attempt, limit_threads, sendable

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_PAUSE = 0.5  # seconds between two calls of ``watch``
_LATE = 30.0  # seconds after which an actor without a process is reported as waiting for resources
_GRACE = 5.0  # seconds for killed processes of this machine to end
_GRACE_ELSEWHERE = 0.5  # seconds for those of other machines, which cannot be observed


class RayEngine:
    """Workers are Ray actors, and tasks are Ray tasks. They end with the driver, however it ends.

    Every machine of the cluster needs Lacuner, and must see the input and output files: on a shared disk, or as URLs.

    Args:
        workers: number of actors or tasks at a time; by default one per core of the cluster.
        address: of a running cluster (``auto``, ``HOST:6379``, ``ray://HOST:10001``). By default Ray is started on this
            machine, and ends with this process.
        threads: cores of each worker; by default workers share those of the cluster evenly.
    """

    def __init__(self, workers: int | None = None, address: str | None = None, threads: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError("there must be at least one worker")
        self.address = address
        self._ray = import_ray()
        self._workers, self._threads = workers, threads

    @property
    def workers(self) -> int:
        """Number of actors or tasks at a time."""
        return self._workers or self._cores()

    @property
    def threads(self) -> int:
        """Cores per worker: an even share, or fewer if only then all workers fit onto the machines."""
        if self._threads is not None:
            return self._threads
        machines, workers = self._machines(), self.workers
        most = sum(machines) // workers
        return next((share for share in range(most, 1, -1) if sum(cores // share for cores in machines) >= workers), 1)

    def map(self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]) -> Iterator[Result]:
        """See :meth:`Engine.map`; an item whose worker dies is retried, as by :meth:`map_each`."""
        run = partial(self.map_each, partial(_start_for_numbered, start))
        with closing(in_order(run, items, 2 * self.workers)) as outcomes:
            for outcome in outcomes:
                item, error = outcome.item.item, outcome.error
                if isinstance(error, WorkersDiedError):
                    raise LacunerError(f"{item}: {error} — if memory ran out, use fewer --workers")
                with naming(item):
                    result: Result = Answer(outcome.result, error).result()
                yield result

    def map_each(
        self, start: Callable[[], Callable[[Item], Result]], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Result], None, None]:
        """See :meth:`Engine.map_each`."""
        make, size, said = self._actor_maker(start), self.workers, False

        def begin() -> _Actor:
            return _Actor(make(), self._ray)

        def wait(asked: Sequence[_Actor]) -> None:
            nonlocal said
            answered = False
            while not answered:
                answered = bool(self._ray.wait([each.call for each in asked], num_returns=1, timeout=_LATE)[0])
                if not said and (late := sum(each.has_no_place() for each in asked)):
                    said = True
                    logger.warning(
                        "%d of %d workers are waiting for free cores on the cluster (cores of one machine: %d). "
                        "The others continue without them.",
                        late,
                        size,
                        self.threads,
                    )

        return map_with_retries(items, size, begin, wait, self._end)

    def run_each(
        self, task: Callable[[Item], Result], items: Iterable[Item], watch: Callable[[Item], None] = lambda item: None
    ) -> Generator[Outcome[Item, Result], None, None]:
        """See :meth:`Engine.run_each`."""
        ray = self._connected()
        # One process per task, with its own memory; retries are up to the caller.
        run = ray.remote(num_cpus=self.threads, max_calls=1, max_retries=0)(_run_task)
        waiting, running = iter(items), dict[Any, Item]()
        surroundings = self._surroundings()
        try:
            while True:
                for item in islice(waiting, self.workers - len(running)):
                    running[run.remote(_pack((task, item)), surroundings)] = item
                if not running:
                    return
                ended, _ = ray.wait(list(running), num_returns=1, timeout=_PAUSE)
                for call in ended:
                    yield self._outcome(running.pop(call), call)
                for item in running.values():
                    watch(item)
        finally:
            for call in running:
                with suppress(Exception):  # tasks of a lost cluster end by themselves
                    ray.cancel(call, force=True)

    def _outcome(self, item: Item, call: Any) -> Outcome[Item, Any]:
        try:
            answer: Answer = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            return Outcome(item, error=LacunerError(f"its process {_how(error)}"))
        return Outcome(item, answer.value, answer.error)

    def _actor_maker(self, start: Callable[[], Any]) -> Callable[[], Any]:
        ray = self._connected()
        packed = ray.put(_pack(start))  # once for all actors of a machine
        actor = ray.remote(num_cpus=self.threads, max_restarts=0)(_Worker)
        surroundings = self._surroundings()
        return lambda: actor.remote(packed, surroundings)

    def _surroundings(self) -> "_Surroundings":
        return _Surroundings(self.threads, os.getcwd())

    def _end(self, actors: Sequence["_Actor"]) -> None:
        """Kill actors, and wait for the processes of busy ones, so that they write no more.

        Ray does not wait: for Ray, the calls of an actor end before its process does.
        """
        processes = [actor.process() for actor in actors if actor.pending is not None]
        for actor in actors:
            with suppress(Exception):  # actors of a lost cluster end by themselves
                self._ray.kill(actor.handle)
        began = time.monotonic()
        while any(process is not None and process.may_run(time.monotonic() - began) for process in processes):
            time.sleep(_PAUSE / 20)

    def _cores(self) -> int:
        return max(1, sum(self._machines()))

    def _machines(self) -> list[int]:
        """Number of cores of each machine."""
        if self.address is None:
            return [available_cores()]
        alive = [node["Resources"] for node in self._connected().nodes() if node["Alive"]]
        return [int(resources.get("CPU", 0)) for resources in alive]

    def _connected(self) -> Any:
        if not self._ray.is_initialized():
            connect(self._ray, self.address, max(self._workers or 1, available_cores()))
        return self._ray


class _Actor(PoolWorker):
    """An actor and its pending call."""

    def __init__(self, handle: Any, ray: Any) -> None:
        super().__init__()
        self.handle, self._ray = handle, ray
        self._placed, self.call = handle.is_there.remote(), handle.begin.remote()
        self._began = time.monotonic()
        self._error = ""

    def has_no_place(self) -> bool:
        """Whether it has waited so long for resources that it may wait forever."""
        late = not self.started and time.monotonic() - self._began >= _LATE
        return late and not self._ray.wait([self._placed], timeout=0)[0]

    def process(self) -> "_Process | None":
        """Its process, if any."""
        try:
            found: _Process = self._ray.get(self._placed, timeout=1)
        except Exception:  # it is dead, or the cluster is lost
            return None
        return found

    def send(self, item: object) -> None:
        self.call = self.handle.work.remote(item)

    def received(self) -> Answer | None:
        if not self._ray.wait([self.call], timeout=0)[0]:
            return None
        try:
            answer: Answer = self._ray.get(self.call)
        except self._ray.exceptions.RayActorError as error:
            self.dead, self._error = True, _how(error)
            return None
        except self._ray.exceptions.RayError as error:  # its answer cannot be read
            return Answer(error=LacunerError(f"its answer is lost ({_how(error)})"))
        return answer

    def how_it_ended(self) -> str:
        return self._error


def _pack(value: object) -> bytes:
    from ray import cloudpickle

    packed: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return packed


def _how(error: BaseException) -> str:
    """How a Ray process ended, in a few words."""
    if type(error).__name__ == "OutOfMemoryError":
        return "was killed, because the memory of its machine ran out"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"died ({lines[0][:200]})" if lines else "died"


# In the worker


class _Process(NamedTuple):
    """A process on some machine."""

    machine: str
    number: int

    def may_run(self, seconds: float) -> bool:
        """Whether it may still be running this many seconds after it was killed."""
        if self.machine != socket.gethostname():
            return seconds < _GRACE_ELSEWHERE
        try:
            os.kill(self.number, 0)
        except OSError:
            return False
        return seconds < _GRACE


def _start_for_numbered(start: Callable[[], Callable[[Any], Any]]) -> Callable[[Numbered], Any]:
    work = start()
    return lambda numbered: work(numbered.item)


class _Surroundings(NamedTuple):
    """Environment that a worker shares with the main process."""

    threads: int
    folder: str

    def enter(self) -> None:
        """Limit threads, and change to the main process's folder, so that relative paths are valid."""
        limit_threads(self.threads)
        with suppress(OSError):  # without that folder, URLs and absolute paths still work
            os.chdir(self.folder)


class _Worker:
    """An actor. It loads what it needs in its first call, so that errors are reported like any other."""

    def __init__(self, packed: bytes, surroundings: _Surroundings) -> None:
        surroundings.enter()
        self._packed: bytes | None = packed
        self._task: Callable[[Any], Any] | None = None

    def is_there(self) -> _Process:
        """Return its process, which shows that it has one."""
        return _Process(socket.gethostname(), os.getpid())

    def begin(self) -> Answer:
        """Load what is needed, unless already done."""
        return attempt(lambda _: self._load(), None)._replace(value=None)

    def work(self, item: object) -> Answer:
        """Process an item."""
        try:
            task = self._load()
        except Exception as error:
            return Answer(error=sendable(error))
        return attempt(task, item)

    def _load(self) -> Callable[[Any], Any]:
        if self._task is None:
            assert self._packed is not None
            self._task, self._packed = pickle.loads(self._packed)(), None
            gc.freeze()  # otherwise every full collection visits all that Ray has imported
        assert self._task is not None
        return self._task


def _run_task(packed: bytes, surroundings: _Surroundings) -> Answer:
    surroundings.enter()
    try:
        task, item = pickle.loads(packed)
    except Exception as error:
        return Answer(error=sendable(error))
    return attempt(task, item)
