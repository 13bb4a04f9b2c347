import asyncio
import os
import signal
import socket
import threading
import time
import urllib.request

import pytest
from fastapi import FastAPI

from lacuner.web.server import DEFAULT_PORT, listen, serve


def test_a_taken_port_does_not_stop_a_server() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        except OSError:
            pass  # somebody has it already, which serves as well
        with listen("127.0.0.1", None) as found:
            assert found.getsockname()[1] not in (0, DEFAULT_PORT)


class Stopped:
    """A server that is told to stop while it answers; it runs in this thread, which gets the signals."""

    def __init__(self, seconds: float, signals: int) -> None:
        self.answers: list[object] = []
        begun, app, sock = threading.Event(), FastAPI(), listen("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"

        @app.get("/")
        async def slow() -> str:
            begun.set()
            await asyncio.sleep(seconds)
            return "here"

        def ask() -> None:
            try:
                with urllib.request.urlopen(url, timeout=30) as response:
                    self.answers.append(response.read())
            except OSError as error:
                self.answers.append(error)

        def stop() -> None:
            begun.wait(20)
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.2)

        threads = [threading.Thread(target=stop), threading.Thread(target=ask)]
        began, before = time.monotonic(), signal.signal(signal.SIGTERM, signal.SIG_IGN)  # after the server has ended
        serve(app, sock, lambda: [thread.start() for thread in threads] and None, grace=20)
        self.seconds = time.monotonic() - began
        for thread in threads:
            thread.join()
        signal.signal(signal.SIGTERM, before)
        sock.close()


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_request_that_has_begun_is_answered_after_a_signal(seconds: float) -> None:
    assert Stopped(seconds, signals=1).answers == [b'"here"']


def test_a_second_signal_does_not_wait_for_answers() -> None:
    stopped = Stopped(15, signals=2)
    assert isinstance(stopped.answers[0], OSError)
    assert stopped.seconds < 10
