"""Locks between processes: two runs never write into one folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lacuner.errors import LacunerError


@contextmanager
def exclusive(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file ``path``, which is created if need be; the system gives it back when a process ends.

    Args:
        path: the lock file. Whoever holds the lock may remove it.
        busy: what the error says if another process holds it.
    """
    import fcntl

    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
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
