"""Running an application: finding a free port, and a clean shutdown."""

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI

from lacuner.errors import ConfigError
from lacuner.web.limits import ACCEPT_AT_ONCE, LimitedProtocol

DEFAULT_PORT = 8620


def listen(host: str, port: int | None) -> socket.socket:
    """Create a listening socket; without a port, on the default one, or on any free one if that is taken."""
    try:
        return _bound(host, DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return _bound(host, 0)
        if error.errno == errno.EADDRINUSE:
            what = f"--port {port}: another program listens there"
            raise ConfigError(f"{what} — choose another, or leave it out to get a free one") from error
        if error.errno == errno.EACCES:
            raise ConfigError(f"--port {port}: you are not allowed to use it — choose one above 1023") from error
        raise ConfigError(f"--host {host}: this machine cannot listen there ({error.strerror or error})") from error


def address(host: str, port: int, token: str | None) -> str:
    """The URL to open in the browser, with the token in the fragment, which is not sent to servers."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    secret = "" if token is None else f"#token={quote(token, safe='')}"
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/{secret}"


def serve(
    app: FastAPI,
    sock: socket.socket,
    started: Callable[[], None],
    protocol: type[LimitedProtocol] = LimitedProtocol,
    grace: int = 2,
) -> None:
    """Serve requests until Ctrl-C or SIGTERM.

    Args:
        app: answers them.
        sock: listening socket.
        started: called once requests are accepted.
        protocol: of each connection.
        grace: seconds for running requests to finish.
    """
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=grace, http=protocol, backlog=ACCEPT_AT_ONCE,
    )  # fmt: skip  # warnings would let anybody who sends nonsense fill the disk
    server = _Server(config)
    threading.Thread(target=_call_when_started, args=(server, started), daemon=True).start()
    server.run(sockets=[sock])


class _Server(uvicorn.Server):
    """Returns after a signal; uvicorn itself would raise the signal again after shutdown."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def _call_when_started(server: uvicorn.Server, started: Callable[[], None]) -> None:
    tick = threading.Event()
    while not server.started and not server.should_exit:
        tick.wait(0.02)
    if server.started:
        started()


def _bound(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, socket_address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(socket_address)
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock
