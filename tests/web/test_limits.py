import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
from fastapi import FastAPI, Request

from lacuner.web import limits
from lacuner.web.server import listen, serve

LARGE = 10_000_000  # more bytes than the system keeps for somebody who does not read them


@pytest.fixture
def port(monkeypatch) -> int:
    """A server that waits for requests only briefly."""
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 1.5)
    app = FastAPI()

    @app.get("/")
    async def page() -> str:
        return "here"

    @app.get("/large")
    async def large() -> str:
        return "x" * LARGE

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    ready = threading.Event()
    sock = listen("127.0.0.1", 0)
    threading.Thread(target=serve, args=(app, sock, ready.set), daemon=True).start()
    assert ready.wait(20)
    return int(sock.getsockname()[1])


@pytest.fixture
def connect(port: int) -> Iterator[Callable[[bytes], socket.socket]]:
    """Opens a connection and sends something."""
    with ExitStack() as opened:

        def connect(sent: bytes) -> socket.socket:
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            client.sendall(sent)
            return client

        yield connect


def page(port: int) -> bytes:
    """What a new client gets."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return everything(client)


def everything(client: socket.socket) -> bytes:
    """What is received until the server closes the connection."""
    received = bytearray()
    with suppress(ConnectionError):  # closed while we were sending
        while piece := client.recv(65_536):
            received += piece
    return bytes(received)


HALF_OPEN = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: loc",
    "half a body": b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345",
    "half a second request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTT",
}


@pytest.mark.parametrize(("what", "sent"), HALF_OPEN.items(), ids=HALF_OPEN)
def test_requests_that_are_never_completed_are_given_up_with_a_word(connect, what: str, sent: bytes) -> None:
    began = time.monotonic()
    received = everything(connect(sent))
    head, _, body = received[max(0, received.rfind(b"HTTP/1.1")) :].partition(b"\r\n\r\n")
    if what == "nothing":  # browsers open connections that they may not need
        assert received == b""
    else:
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["reason"] == "late"
    assert received.count(b"HTTP/1.1") == len({"nothing": [], "half a second request": [1, 2]}.get(what, [1]))
    assert 0.3 < time.monotonic() - began < 4  # uvicorn itself would wait for 5 seconds, or forever


def test_one_byte_now_and_then_does_not_extend_the_time(connect) -> None:
    client = connect(b"GET / HTTP/1.1\r\n")
    began = time.monotonic()
    while time.monotonic() - began < 8:
        try:
            client.sendall(b"X")
        except ConnectionError:
            break
        time.sleep(0.05)
    assert time.monotonic() - began < 4


def test_who_does_not_read_the_answer_is_given_up(connect) -> None:
    client = connect(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
    time.sleep(3)
    assert len(everything(client)) < LARGE


def test_hundreds_of_half_open_connections_keep_nobody_out_and_write_no_log(connect, port: int, caplog, capfd) -> None:
    with caplog.at_level(logging.WARNING):
        clients = [connect(b"GET / HTTP/1.1\r\nHost:") for _ in range(250)]
        began = time.monotonic()
        assert page(port).endswith(b'"here"')
        assert time.monotonic() - began < 3
        clients += [connect(b"nonsense\r\n\r\n") for _ in range(50)]
        assert page(port).endswith(b'"here"')
    assert caplog.text == ""
    assert len("".join(capfd.readouterr())) < 1000


def test_a_client_that_asks_before_it_sends_much_is_refused_at_once() -> None:
    """One that does not ask is read to the end, or it would not see the answer."""
    read, sent = [], []

    async def receive() -> dict[str, object]:
        read.append("piece")
        return {"type": "http.request", "body": b"x" * 100, "more_body": len(read) < 3}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    headers = [(b"content-length", b"300"), (b"expect", b"100-Continue")]
    for given in (headers, headers[:1]):
        asyncio.run(limits.BodyLimit(None, 299)({"type": "http", "headers": given}, receive, send))  # type: ignore[arg-type]
        assert sent[0]["status"] == 413
        assert len(read) == (0 if given is headers else 3)
        sent.clear()


def test_a_connection_that_waits_makes_room_before_one_that_is_answered(monkeypatch, connect, port: int) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 20)
    answered = connect(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\n12")
    time.sleep(0.2)
    waiting = connect(b"GET / HTTP/1.1\r\n")
    assert page(port).endswith(b'"here"')
    assert everything(waiting) == b""
    answered.sendall(b"3")
    assert everything(answered).endswith(b"3")
