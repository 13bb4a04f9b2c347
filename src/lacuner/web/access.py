"""Who may speak to the server: only those who know its token, at its own address, and from its own pages."""

import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuner.errors import ConfigError

LOCAL = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 8
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_UNKNOWN_TOKEN = "This page needs a token: open the whole address that lacuner shows in the terminal."
_FOREIGN = "Other pages may not speak to this server."


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def check_token(token: str) -> None:
    """Refuse a token that is easily guessed, or that a cookie cannot hold."""
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"--token: {len(token)} characters are easily guessed — take {SHORTEST_TOKEN} at least")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(
            "--token: browsers keep characters of ASCII only — take letters from A to Z, digits and signs"
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class AccessPolicy:
    """The conditions of getting in.

    Attributes:
        token: that every request must bring: in the address, in a cookie, or as a bearer token.
        host: the address that the server listens on. A request for another host name is refused: it comes from a page
            whose owner has pointed a name of theirs at this machine.
        cookie: name of the cookie.
    """

    token: str
    host: str = LOCAL[0]
    cookie: str = "lacuner"
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        own = () if is_local(self.host) else (socket.gethostname(), socket.getfqdn())
        object.__setattr__(self, "names", frozenset(name.lower() for name in (*LOCAL, self.host, *own)))

    def refusal(self, request: Request) -> tuple[int, str] | None:
        """Why a request is not answered, if it is not."""
        host = request.headers.get("host", "")
        if not self._is_expected(_name_of(host)):
            return 421, f"This server is not called {host[:100]!r}."
        origin = request.headers.get("origin")
        if origin is not None and _place_of(origin) != host.lower():
            return 403, _FOREIGN
        visits = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
        if not visits and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 403, _FOREIGN
        return None if self.knows_token(request) else (401, _UNKNOWN_TOKEN)

    def knows_token(self, request: Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = (request.cookies.get(self.cookie), self.token_in_address(request), bearer)
        return any(secrets.compare_digest((token or "").encode(), self.token.encode()) for token in given)

    def token_in_address(self, request: Request) -> str | None:
        """Only the page itself can be asked for like that."""
        return request.query_params.get("token") if (request.method, request.url.path) == ("GET", "/") else None

    def let_in(self, response: Response) -> None:
        """Keep the token where scripts cannot read it, so that it can leave the address bar."""
        response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")

    def _is_expected(self, name: str) -> bool:
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not is_local(self.host)  # an address cannot be pointed elsewhere, as a name can


class GateKeeper:
    """Applies a :class:`AccessPolicy` to all requests, and protects the answers."""

    def __init__(self, app: ASGIApp, gate: AccessPolicy) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            assert scope["type"] != "websocket"
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        request = Request(scope)
        refused = self._gate.refusal(request)
        if refused is None:
            await self._app(scope, receive, send_protected)
            return
        status, message = refused
        answer: Response = PlainTextResponse(message + "\n", status)
        if request.url.path.startswith("/api/"):
            answer = JSONResponse({"reason": "gate", "message": message}, status)
        await answer(scope, receive, send_protected)


def _place_of(origin: str) -> str | None:
    """Host and port of an origin, unless it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
