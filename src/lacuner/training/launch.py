"""Launches several processes on this machine that train one model together."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial

from lacuner.errors import ConfigError, LacunerError, ProcessLostError, TrainingError
from lacuner.streams.engine import LocalEngine

_RESUME = "the same command with --resume continues after the last complete epoch"


def launched_processes() -> int | None:
    """Number of processes started by ``accelerate launch`` or :func:`run_together`; None if started by neither."""
    count = os.environ.get("WORLD_SIZE", "")
    return int(count) if count.isdecimal() else None


def run_together(task: Callable[[], None], count: int) -> None:
    """Run a task in ``count`` new, connected processes; if one fails, all are terminated.

    Only the first process prints and logs.

    Args:
        task: what each process runs; picklable.
        count: number of processes.

    Raises:
        LacunerError: the error of the first process to fail by itself, or a note that one was killed.
    """
    if launched_processes() is not None:
        raise ConfigError(
            "--processes starts processes itself, but this one was started by another launcher already — "
            "leave it out, and give the launcher the number (accelerate launch --num_processes)"
        )
    failed: list[tuple[int, BaseException]] = []
    run = partial(_run_as, task, count, _free_port())
    with closing(LocalEngine(count, "spawn").run_each(run, range(count))) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                failed.append((outcome.item, outcome.error))
            if failed and not isinstance(failed[-1][1], ProcessLostError):
                break  # terminates the others
    if failed:
        raise _described(*failed[-1], count)


def _described(index: int, error: BaseException, count: int) -> BaseException:
    if type(error) is not LacunerError:  # already a user-facing message
        return error
    return TrainingError(f"process {index + 1} of {count}: {error}, and the others were ended — {_RESUME}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# In the new process


def _run_as(task: Callable[[], None], count: int, port: int, index: int) -> None:
    names = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()}, MASTER_ADDR="127.0.0.1")
    if index:
        silent = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout = sys.stderr = silent
    task()
