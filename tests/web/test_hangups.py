import os
import signal
import threading

import pytest

from lacuner.web.hangups import hangups

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal here")


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def test_a_signal_while_models_are_loaded_ends_nothing_and_is_answered_afterwards() -> None:
    loaded, threads = threading.Semaphore(0), []

    def load() -> None:
        threads.append(threading.current_thread())
        loaded.release()

    with hangups() as caught:
        hang_up()
        hang_up()
        assert threads == []
        caught.answer_with(load)
        assert loaded.acquire(timeout=10)
        hang_up()
        assert loaded.acquire(timeout=10)
    assert len(threads) == 2, "both that came before are answered at once"
    assert threading.main_thread() not in threads


def test_without_a_signal_nothing_is_called_and_afterwards_the_old_handler_is_back() -> None:
    before, called = signal.getsignal(signal.SIGHUP), []
    with hangups() as caught:
        caught.answer_with(lambda: called.append(1))
        assert signal.getsignal(signal.SIGHUP) != before
    assert signal.getsignal(signal.SIGHUP) == before
    assert called == []
