"""Inter-process locks, so that two runs never write to the same folder."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lacuner.errors import LacunerError


@contextmanager
def exclusive(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock file ``path``, creating it if needed; the system releases it when the process ends.

    Args:
        path: the lock file. The holder of the lock may remove it.
        busy: error message if another process holds it.
        patience: seconds to wait for it. A forked child holds its parent's locks, too, and may outlive it a little when
            killed.
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
