"""Worker code shared by all engines, on this machine or a cluster."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from lacuner.errors import LacunerError, described


class Answer(NamedTuple):
    """A worker's answer about an item, or about its start: a value, or the error raised."""

    value: Any = None
    error: BaseException | None = None

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True)
class Packed:
    """Arguments of a worker. A new interpreter unpickles them after limiting threads, because torch checks that only once."""

    value: Any
    pickled: bool

    def unpack(self) -> Any:
        return pickle.loads(self.value) if self.pickled else self.value


def attempt(work: Callable[[Any], Any], item: object) -> Answer:
    """Apply ``work``, and capture its error."""
    try:
        return Answer(work(item))
    except Exception as error:
        return Answer(error=sendable(error))


def sendable(error: Exception) -> Exception:
    """The error, or one with the same message if it cannot be pickled and unpickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return LacunerError(described(error))
    return error


def limit_threads(threads: int) -> None:
    """Limit threads, for libraries that are imported later."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    os.environ["OMP_NUM_THREADS"] = str(min(threads, int(wanted)) if wanted.isdecimal() else threads)
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # busy-waiting threads slow down other processes
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def prepare(threads: int) -> None:
    """Ignore Ctrl-C, since the parent ends its workers; if the parent is killed, end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit_threads(threads)


def run_task(connection: Connection, packed: Packed, threads: int) -> None:
    """Main function of a process for one item."""
    prepare(threads)
    try:
        task, item = packed.unpack()
        answer = attempt(task, item)
    except Exception as error:
        answer = Answer(error=sendable(error))
    send(connection, answer)


def serve_items(connection: Connection, packed: Packed, threads: int) -> None:
    """Main function of a process for many items. Its first answer is about its start."""
    prepare(threads)
    try:
        work = packed.unpack()()
    except Exception as error:
        send(connection, Answer(error=sendable(error)))
        return
    send(connection, Answer())
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        send(connection, attempt(work, item))


def send(connection: Connection, answer: Answer) -> None:
    """Send an answer, even if its value or error cannot be pickled."""
    try:
        connection.send(answer)
    except Exception as error:
        sent = answer.value if answer.error is None else answer.error
        unfit = LacunerError(f"{type(error).__name__}: {error} (of {type(sent).__name__})")
        connection.send(Answer(error=unfit))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
