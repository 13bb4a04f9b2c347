"""Was training long enough? A run that was still getting better when its epochs were over says too little about its method.

The learning rate falls to zero, so that the last epochs are nearly always a little better than those before: that alone
is no sign. In the last fifth of training, however, only a twenty-fifth of all learning is left (the area below the rest of
the schedule). Who still gains more than a point of dev F1 there would gain more in a longer run, unless the dev data is so
small that F1 itself is not known that well. And who never finds anything has not begun to learn, however level that looks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

TAIL = 0.2
"""Fraction of the planned epochs in which a model should not get much better any more."""
MAX_GAIN = 0.01
"""Of dev F1 in the tail, over the best epoch before it; a standard error of F1, where that is more."""


def tail_length(planned: int) -> int:
    """How many of the planned epochs are the tail.

    >>> tail_length(15), tail_length(6), tail_length(1)
    (3, 2, 1)
    """
    return math.ceil(TAIL * planned)


def gain_in_tail(history: Sequence[float], planned: int) -> float | None:
    """By how much the best epoch of the tail exceeds all before it; none: training stopped earlier, or has no more epochs.

    >>> round(gain_in_tail([0.5, 0.6, 0.7, 0.8, 0.9], 5), 3), gain_in_tail([0.5, 0.6, 0.7], 5)
    (0.1, None)

    Args:
        history: F1 on dev data after every epoch.
        planned: epochs that training has if it is not stopped early.
    """
    tail = tail_length(planned)
    if len(history) < planned or planned <= tail:
        return None
    return max(history[-tail:]) - max(history[:-tail])


def max_gain(f1: float, support: int | None) -> float:
    """The gain in the tail that says nothing yet: a point, or the standard error of F1 on so many entities, if that is more.

    >>> round(max_gain(0.55, 475), 3), max_gain(0.9, 9591), max_gain(0.55, None)
    (0.023, 0.01, 0.01)

    Args:
        f1: on the dev data.
        support: entities of the dev data; none: it is not known.
    """
    return MAX_GAIN if not support else max(MAX_GAIN, math.sqrt(f1 * (1 - f1) / support))


def is_converged(record: Mapping[str, Any]) -> bool:
    """Whether a result is one of training that was long enough; of what is not known, it is assumed."""
    history, planned = record.get("epochs"), record.get("planned_epochs")
    if found_nothing(record):
        return False
    gain = gain_in_tail(history, planned) if history and planned else None
    return gain is None or not history or gain <= max_gain(max(history), record.get("dev_support"))


def found_nothing(record: Mapping[str, Any]) -> bool:
    """Whether no epoch of a run found a single entity of the dev data.

    >>> found_nothing({"epochs": [0.0, 0.0]}), found_nothing({"epochs": [0.0, 0.1]}), found_nothing({})
    (True, False, False)
    """
    history = record.get("epochs")
    return bool(history) and not any(history or ())
