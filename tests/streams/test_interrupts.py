"""Ctrl-C at the moment when a process is started."""

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from lacuner.streams.interrupts import interrupts_deferred

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")


@pytest.fixture(autouse=True)
def _ctrl_c_raises() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_comes_after_the_block() -> None:
    steps = []

    def work() -> None:
        with interrupts_deferred():
            _press()
            steps.append("inside")
        steps.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_not_lost_in_a_function_that_runs_after_a_fork_and_whose_errors_are_ignored() -> None:
    armed = [True]

    def after_fork() -> None:
        if armed:
            armed.clear()
            _press()

    os.register_at_fork(after_in_parent=after_fork)

    def fork() -> None:
        with interrupts_deferred():
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)

    with pytest.raises(KeyboardInterrupt):
        fork()
    assert not armed


def test_an_error_passes() -> None:
    with pytest.raises(ZeroDivisionError), interrupts_deferred():
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_leave_the_handler_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with interrupts_deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
