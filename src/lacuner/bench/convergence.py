"""Convergence check: a run that still improves when its epochs end says little about its method.

The learning rate decays to zero, so the last epochs are nearly always slightly better than those before; that alone means
little. But the last fifth of training contains only a twenty-fifth of all learning (the area under the rest of the schedule).
A run that still gains more than a point of dev F1 there would gain more from longer training, unless the dev set is too small
to measure F1 that precisely. A run that never finds anything has not started to learn, however flat its curve.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

TAIL = 0.2
"""Fraction of the planned epochs in which a converged model no longer improves much."""
MAX_GAIN = 0.01
"""Maximum gain of dev F1 in the tail over the best earlier epoch; or a standard error of F1, if greater."""


def tail_length(planned: int) -> int:
    """Number of planned epochs that are the tail.

    >>> tail_length(15), tail_length(6), tail_length(1)
    (3, 2, 1)
    """
    return math.ceil(TAIL * planned)


def gain_in_tail(history: Sequence[float], planned: int) -> float | None:
    """Gain of the best epoch of the tail over all before it; None if training stopped earlier, or has no earlier epochs.

    >>> round(gain_in_tail([0.5, 0.6, 0.7, 0.8, 0.9], 5), 3), gain_in_tail([0.5, 0.6, 0.7], 5)
    (0.1, None)

    Args:
        history: F1 on dev data after every epoch.
        planned: number of epochs without early stopping.
    """
    tail = tail_length(planned)
    if len(history) < planned or planned <= tail:
        return None
    return max(history[-tail:]) - max(history[:-tail])


def max_gain(f1: float, support: int | None) -> float:
    """The largest gain in the tail that is insignificant: one point, or the standard error of F1 if greater.

    >>> round(max_gain(0.55, 475), 3), max_gain(0.9, 9591), max_gain(0.55, None)
    (0.023, 0.01, 0.01)

    Args:
        f1: on the dev data.
        support: number of entities in the dev data; None: unknown.
    """
    return MAX_GAIN if not support else max(MAX_GAIN, math.sqrt(f1 * (1 - f1) / support))


def is_converged(record: Mapping[str, Any]) -> bool:
    """Whether a result is from a converged run; assumed if its history is unknown."""
    history, planned = record.get("epochs"), record.get("planned_epochs")
    if found_nothing(record):
        return False
    gain = gain_in_tail(history, planned) if history and planned else None
    return gain is None or not history or gain <= max_gain(max(history), record.get("dev_support"))


def found_nothing(record: Mapping[str, Any]) -> bool:
    """Whether no epoch of a run found any entity of the dev data.

    >>> found_nothing({"epochs": [0.0, 0.0]}), found_nothing({"epochs": [0.0, 0.1]}), found_nothing({})
    (True, False, False)
    """
    history = record.get("epochs")
    return bool(history) and not any(history or ())
