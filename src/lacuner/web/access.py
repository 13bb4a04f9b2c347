"""Access control: requests must be addressed to this server, not come from pages of other servers, and carry the token.

The token is in the fragment of the URL that the user opens. Browsers do not send fragments to servers; the page reads it from
there, and sends it as a bearer token. It is not a cookie, because browsers send cookies to every port of a host.
"""

import base64
import binascii
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuner.errors import ConfigError

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
MIN_TOKEN_LENGTH = 8
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NO_TOKEN = (
    "This page needs a token: open the whole address that the terminal shows; programs send it as a bearer token."
)
_WRONG_TOKEN = (
    "This is not the token of the server, which may have been restarted: open the whole address that the terminal shows; "
    "programs send the token that is printed there."
)
_CROSS_ORIGIN = "Pages of other servers may not use this server."


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


def check_token(token: str) -> None:
    """Reject a token that is easy to guess, or invalid in a header."""
    if len(token) < MIN_TOKEN_LENGTH:
        raise ConfigError(f"--token: {len(token)} characters are easy to guess — use at least {MIN_TOKEN_LENGTH}")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError("--token: headers hold ASCII only — use letters from A to Z, digits and punctuation")


def is_local(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class AccessPolicy:
    """The conditions under which a request is answered.

    Attributes:
        token: required as a bearer token in every request, except for the page itself, which shows nothing without it;
            ``None``: not required.
        host: the address that the server listens on. Requests for other host names are refused (DNS rebinding).
        more_names: additional host names of the server, such as that of a proxy in front of it.
        pages: paths that need no token; ``*`` is a wildcard.
        api: prefix of paths whose errors are JSON.
        names: all host names of the server.
    """

    token: str | None
    host: str = LOCAL_HOSTS[0]
    more_names: tuple[str, ...] = ()
    pages: tuple[str, ...] = ("/",)
    api: str = "/api/"
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        own = () if is_local(self.host) else (socket.gethostname(), socket.getfqdn())
        every = (*LOCAL_HOSTS, self.host, *own, *self.more_names)
        object.__setattr__(self, "names", frozenset(name.lower() for name in every))

    def refusal(self, request: Request) -> tuple[int, str] | None:
        """Status and message for a request to be refused; ``None`` if it is allowed."""
        host = request.headers.get("host", "")
        if not self._is_own_name(_host_name(host)):
            return 421, f"This server is not called {host[:100]!r}."
        origin = request.headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            return 403, _CROSS_ORIGIN
        navigates = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
        if not navigates and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 403, _CROSS_ORIGIN
        if self._is_page(request) or self.has_token(request):
            return None
        return 401, _WRONG_TOKEN if "authorization" in request.headers else _NO_TOKEN

    def has_token(self, request: Request) -> bool:
        """Whether the request carries the token, if required, as a bearer token or as a password of any user."""
        if self.token is None:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        kind, given = kind.lower(), given.strip(" ")
        if kind == "basic":
            given = _password(given)
        return kind in ("bearer", "basic") and secrets.compare_digest(given.encode(), self.token.encode())

    def _is_page(self, request: Request) -> bool:
        """Whether it requests a page, or its scripts and styles, which contain no secrets."""
        path = request.scope["path"]
        return request.method in ("GET", "HEAD") and (
            path.startswith("/static/") or any(fnmatchcase(path, page) for page in self.pages)
        )

    def _is_own_name(self, name: str) -> bool:
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not is_local(self.host)  # unlike names, numeric addresses cannot be rebound


class AccessMiddleware:
    """Applies an :class:`AccessPolicy` to all requests, and adds security headers to all responses."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app, self._policy = app, policy

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
        refused = self._policy.refusal(request)
        if refused is None:
            await self._app(scope, receive, send_protected)
            return
        status, message = refused
        answer: Response = PlainTextResponse(message + "\n", status)
        if scope["path"].startswith(self._policy.api):
            answer = JSONResponse({"reason": "access", "message": message}, status)
        if status == 401:
            answer.headers["WWW-Authenticate"] = "Bearer"
        await answer(scope, receive, send_protected)


def _password(encoded: str) -> str:
    """The password of basic authentication, which is all that some tools support; empty if malformed."""
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; ``None`` if malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
