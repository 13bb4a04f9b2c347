"""Parallel training of a stage's independent models."""

import logging
import pickle
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lacuner.encoders.device import default_device, on_device
from lacuner.errors import LacunerError, TrainingError
from lacuner.methods.stages import Compute
from lacuner.streams.engine import Engine, make_engine

logger = logging.getLogger(__name__)

Keep = Callable[[str, Compute], dict[str, Tensor]]
"""``keep(name, compute)`` returns ``compute()``, or its stored result after an interruption."""


def run_tasks(
    tasks: Mapping[str, Compute],
    keep: Keep,
    workers: int,
    has_result: Callable[[str], bool] = lambda name: False,
    resuming: str = "the same command with --resume continues",
) -> list[dict[str, Tensor]]:
    """Return the results of all tasks, in order; several run at a time, each in its own process.

    Args:
        tasks: by the key of their result.
        keep: stores a result; called in the task's process.
        workers: tasks at a time; 1: in this process.
        has_result: whether a result is already stored, so that the task can be skipped; the result is read in this process.
        resuming: how to continue after a process has died, for error messages.
    """
    left = {name: compute for name, compute in tasks.items() if not has_result(name)}
    if workers == 1 or len(left) <= 1:
        return [keep(name, compute) for name, compute in tasks.items()]
    found = run_at_a_time(left, keep, make_engine("local", workers, "spawn"), resuming)
    return [found[name] if name in found else keep(name, compute) for name, compute in tasks.items()]


def run_at_a_time(
    tasks: Mapping[str, Compute], keep: Keep, engine: Engine, resuming: str
) -> dict[str, dict[str, Tensor]]:
    """Return the results of tasks run on an engine, by name. Other arguments are those of :func:`run_tasks`."""
    try:
        packed = [_Task(name, pickle.dumps(partial(keep, name, compute))) for name, compute in tasks.items()]
    except Exception as error:  # parts from other packages may raise any kind
        logger.warning("%s are trained one after the other, because they cannot be pickled (%s).", _named(tasks), error)
        return {name: keep(name, compute) for name, compute in tasks.items()}
    logger.info("%s are trained several at a time.", _named(tasks))
    found: dict[str, dict[str, Tensor]] = {}
    with closing(engine.run_each(partial(_run, str(default_device())), packed)) as outcomes:
        for outcome in outcomes:
            if type(outcome.error) is LacunerError:  # of the engine
                raise TrainingError(
                    f"{outcome.item}: {outcome.error} — {resuming}; if memory ran out, use fewer --workers"
                )
            if outcome.error is not None:
                raise outcome.error
            assert outcome.result is not None
            found[outcome.item.name] = {key: torch.from_numpy(value) for key, value in outcome.result.items()}
            logger.info("%s is done (%d of %d).", outcome.item, len(found), len(tasks))
    return found


@dataclass(frozen=True)
class _Task:
    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


def _named(tasks: Mapping[str, Compute]) -> str:
    names = list(tasks)
    return f"{len(names)} models ({names[0]} to {names[-1]})"


def _run(device: str, task: _Task) -> dict[str, Any]:
    """Entry point in a task's process."""
    with on_device(device):
        result: dict[str, Tensor] = pickle.loads(task.content)()
    return {key: value.cpu().numpy() for key, value in result.items()}
