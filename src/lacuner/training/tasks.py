"""Models that a stage trains independently of each other, several at a time."""

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
"""``keep(name, compute)``: what ``compute()`` returns; after an interruption, what it returned before."""


def run_tasks(
    tasks: Mapping[str, Compute],
    keep: Keep,
    workers: int,
    has_result: Callable[[str], bool] = lambda name: False,
    resuming: str = "the same command with --resume continues",
) -> list[dict[str, Tensor]]:
    """What each task returns, in order; several of them at a time, each in a process of its own.

    Args:
        tasks: by the name that a result is kept under.
        keep: is called in the process of a task.
        workers: tasks at a time; 1: in this process.
        has_result: whether something is kept under a name, so that a task has nothing to do; it is read in this process.
        resuming: what errors say about how to go on after a process has died.
    """
    left = {name: compute for name, compute in tasks.items() if not has_result(name)}
    if workers == 1 or len(left) <= 1:
        return [keep(name, compute) for name, compute in tasks.items()]
    found = run_at_a_time(left, keep, make_engine("local", workers, "spawn"), resuming)
    return [found[name] if name in found else keep(name, compute) for name, compute in tasks.items()]


def run_at_a_time(
    tasks: Mapping[str, Compute], keep: Keep, engine: Engine, resuming: str
) -> dict[str, dict[str, Tensor]]:
    """What each task returns, by name; they run on an engine. The other arguments are those of :func:`run_tasks`."""
    try:
        packed = [_Task(name, pickle.dumps(partial(keep, name, compute))) for name, compute in tasks.items()]
    except Exception as error:  # of whatever kind a part of somebody else's raises
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
    """In the process of a task."""
    with on_device(device):
        result: dict[str, Tensor] = pickle.loads(task.content)()
    return {key: value.cpu().numpy() for key, value in result.items()}
