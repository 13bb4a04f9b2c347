import subprocess
import sys
from pathlib import Path

import pytest

from lacuner.errors import LacunerError
from lacuner.streams.locks import exclusive

HOLD = """
import sys, time
from pathlib import Path
from lacuner.streams.locks import exclusive
with exclusive(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / ".lock"


def test_a_lock_is_held_by_one_at_a_time(lock: Path) -> None:
    busy = "somebody works here — wait"
    with exclusive(lock, "busy"), pytest.raises(LacunerError, match=f"^{busy}$"), exclusive(lock, busy):
        pytest.fail("it was held twice")
    with exclusive(lock, "busy"):
        pass


def test_a_lock_is_given_back_whatever_happens(lock: Path) -> None:
    with pytest.raises(KeyboardInterrupt), exclusive(lock, "busy"):
        raise KeyboardInterrupt
    with exclusive(lock, "busy"):
        pass


def test_another_process_holds_it_until_it_ends_even_if_it_is_killed(lock: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LacunerError, match="busy"), exclusive(lock, "busy"):
            pytest.fail("it was held twice")
    finally:
        holder.kill()
        holder.communicate()
    with exclusive(lock, "busy"):
        pass


def test_whoever_holds_it_may_remove_it_and_the_next_one_locks_a_new_file(lock: Path) -> None:
    """Otherwise two could each hold a lock: one that of a file that is gone, the other that of the file with its name."""
    with exclusive(lock, "busy"):
        lock.unlink()
        with exclusive(lock, "busy"), pytest.raises(LacunerError, match="busy"), exclusive(lock, "busy"):
            pytest.fail("it was held twice")


def test_a_file_that_is_removed_while_somebody_waits_for_it_is_not_what_is_locked(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking it, its last holder may have removed it."""
    import fcntl

    flock, locked = fcntl.flock, []

    def late(file, operation):
        flock(file, operation)
        locked.append(file.name)
        if len(locked) == 1:
            lock.unlink()

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive(lock, "busy"):
        assert len(locked) == 2
        monkeypatch.undo()
        with pytest.raises(LacunerError, match="busy"), exclusive(lock, "busy"):
            pytest.fail("the file with its name is not locked")
