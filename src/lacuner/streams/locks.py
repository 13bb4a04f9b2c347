"""Locks between processes: two runs never write into one folder."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lacuner.errors import LacunerError


@contextmanager
def exclusive(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock file ``path``, which is created if need be; the system gives it back when a process ends.

    Args:
        path: the lock file. Whoever holds the lock may remove it.
        busy: what the error says if another process holds it.
        patience: seconds to wait for it. A copy of a process holds its locks, too, and may notice a little later than
            others that it was killed.
    """
    import fcntl

    until = time.monotonic() + patience
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                raise LacunerError(busy) from None
            if not _is_still(path, file.fileno()):  # its last holder has removed it meanwhile
                continue
            yield
            return


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
