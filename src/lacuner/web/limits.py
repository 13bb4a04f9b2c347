"""Limits per client: connections, the duration of a request, and the size of its body.

uvicorn limits the size of headers and the time between two requests, but waits forever for a request to complete.
"""

import asyncio
import json
from typing import Any, Literal

import h11
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 100
"""Maximum number of connections, within the 256 files that some systems allow per process."""
ACCEPT_AT_ONCE = 32
"""Connections accepted before the first of them is processed."""
REQUEST_SECONDS = 10.0
"""Maximum seconds from the first to the last byte of a request, and from a connection to its first request."""
ANSWER_SECONDS = 60.0
"""Maximum seconds from the last byte of a request to the last byte of its response, including the client's reading."""
MAX_BODY = 65_536
"""Maximum bytes of a request body. The largest one sent by the page is less than a thousandth of it."""
MAX_THROWN_AWAY = 2**30
"""Maximum bytes of a too large body that are discarded before the connection is closed."""

_SLOW = json.dumps({"reason": "late", "message": f"The request took more than {REQUEST_SECONDS:g} seconds to arrive."})
_TOO_SLOW = (
    "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_SLOW)}\r\n\r\n{_SLOW}"
).encode()
"""Written directly, because the application may not know of the request yet."""

_Phase = Literal["request", "answer", "idle"]


class LimitedProtocol(H11Protocol):
    """A connection that is closed if its request takes too long, or if it is idle while others need its slot."""

    max_connections: int | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._phase: _Phase | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter("request")
        if len(self.connections) > (self.max_connections or MAX_CONNECTIONS):
            others = [other for other in self.connections if isinstance(other, LimitedProtocol) and other is not self]
            waiting = [other for other in others if not other._is_answered()]
            min(waiting, key=lambda other: other._since, default=self)._give_up()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._enter(self._current_phase())

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._enter(self._current_phase())

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("idle")
        super().connection_lost(exc)

    def _is_answered(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _current_phase(self) -> _Phase:
        if self.conn.their_state is h11.SEND_BODY:
            return "request"
        if self._is_answered():
            return "answer"
        return "request" if self.conn.trailing_data[0] else "idle"  # between requests, uvicorn has a timeout

    def _enter(self, phase: _Phase) -> None:
        if phase == self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase != "idle":
            seconds = REQUEST_SECONDS if phase == "request" else ANSWER_SECONDS
            self._deadline = self.loop.call_later(seconds, self._end_request if phase == "request" else self._give_up)

    def _end_request(self) -> None:
        """Respond with a timeout, if there is a request."""
        begun = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun and not answering:
            self.transport.write(_TOO_SLOW)
            self.transport.close()
            self.loop.call_later(1, self.transport.abort)  # do not wait for clients that do not read
            self.connections.discard(self)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.connections.discard(self)  # no longer counts, even before the transport is closed
        self.transport.abort()


class ManyConnections(LimitedProtocol):
    """The same for programs, which keep connections open between requests."""

    max_connections = 512


class BodyLimit:
    """Refuses requests with a large body, or one of unknown size, before storing any of it.

    A client that sends without waiting would miss the response if the connection were closed early, so its body is read and
    discarded first, for as long as requests may take.

    Args:
        app: answers all other requests.
        max_body: maximum bytes of a body; by default ``MAX_BODY``.
    """

    def __init__(self, app: ASGIApp, max_body: int | None = None) -> None:
        self._app, self._max_body = app, MAX_BODY if max_body is None else max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            size = headers.get(b"content-length", b"0")
            if b"transfer-encoding" in headers:
                await _refused(411, "The request must say how long it is (Content-Length).")(scope, receive, send)
                return
            if not size.isdigit() or int(size) > self._max_body:
                if headers.get(b"expect", b"").lower() != b"100-continue":
                    await _throw_away(receive)
                await _refused(413, f"The request has more than {self._max_body:,} bytes.")(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _throw_away(receive: Receive) -> None:
    """Read and discard the body of a request."""
    thrown = 0
    while thrown < MAX_THROWN_AWAY:
        message = await receive()
        thrown += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _refused(status: int, message: str) -> JSONResponse:
    """Refuse and close the connection, without reading the rest."""
    return JSONResponse({"reason": "invalid", "message": message}, status, {"Connection": "close"})
