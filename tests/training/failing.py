"""Processes that fail, for tests; new interpreters import this module."""

import os
import time

from lacuner.errors import ProcessLostError, TrainingError


def fail_in(index: int) -> None:
    """The process with this index fails by itself; the first one notices that another has."""
    own = int(os.environ["RANK"])
    if own == index:
        time.sleep(0.5)
        raise TrainingError("the disk is full")
    if own == 0:
        raise ProcessLostError("another process has ended")
    time.sleep(60)
