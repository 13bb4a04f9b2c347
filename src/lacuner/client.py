"""Client for a server started by ``lacuner serve``, using only the standard library."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload
from urllib.parse import quote, unquote, urlsplit

from lacuner.corpus.formats.records import entity_from_record
from lacuner.corpus.sentence import Entity
from lacuner.errors import LacunerError

_AT_ONCE = 100
"""Texts per request; servers accept 256 by default. Requests that are too large are halved."""
_TOO_LARGE = 413
_AGAIN = (429, 502, 503)
"""HTTP statuses of a server that is busy or starting."""


class ServerError(LacunerError):
    """A request that was not answered.

    Attributes:
        status: of the response; 0 if there was none.
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, message: str, status: int = 0, retry_after: float = 0.5) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Client:
    """Predicts like :class:`~lacuner.Recognizer`, on a server.

    Requests are retried if the server is busy, after the delay that it asks for, or does not respond, for instance because it
    is being restarted. This is safe, because the same texts always get the same answer.

    Args:
        address: of the server, as printed by ``lacuner serve``, possibly including the token.
        token: required by the server.
        model: name of a model; by default the server's first.
        timeout: seconds after which a request is given up.
        patience: seconds of retrying while the server is busy or does not respond.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8620",
        token: str | None = None,
        model: str | None = None,
        timeout: float = 60.0,
        patience: float = 30.0,
    ) -> None:
        base, _, fragment = address.partition("#")
        if urlsplit(base).scheme not in ("http", "https"):
            raise ServerError(
                f"{address}: this is not the address of a server — give one such as http://127.0.0.1:8620"
            )
        self._base = base.rstrip("/")
        self._token = token or (unquote(fragment.removeprefix("token=")) if fragment.startswith("token=") else None)
        self._model, self._timeout, self._patience = model, timeout, patience

    @overload  # a string is also an iterable of strings
    def predict(  # type: ignore[overload-overlap]
        self, text: str, *, nested: bool = ..., min_score: float = ...
    ) -> list[Entity]: ...
    @overload
    def predict(self, text: Iterable[str], *, nested: bool = ..., min_score: float = ...) -> list[list[Entity]]: ...

    def predict(
        self, text: str | Iterable[str], *, nested: bool = False, min_score: float = 0.0
    ) -> list[Entity] | list[list[Entity]]:
        """The entities of a text, or of each of several texts; offsets are in characters."""
        options = {"nested": nested, "min_score": min_score} | ({"model": self._model} if self._model else {})
        if isinstance(text, str):
            (only,) = self._predict([text], options)
            return only
        if not isinstance(text, Iterable) or isinstance(text, bytes | Mapping):
            raise TypeError(f"text is a string, or several of them, but not {repr(text)[:60]}")
        texts = list(text)
        return [
            entities
            for begin in range(0, len(texts), _AT_ONCE)
            for entities in self._predict(texts[begin : begin + _AT_ONCE], options, begin)
        ]

    def _predict(
        self, texts: Sequence[str], options: Mapping[str, Any], first: int | None = None
    ) -> list[list[Entity]]:
        """The entities of texts sent in one request, or in halves, if the server rejects so many.

        Args:
            texts: at least one.
            options: of the request.
            first: number of the first text, for errors; ``None`` for a single text.
        """
        try:
            answer = self._ask("/predict", {"texts": texts, **options})
        except ServerError as error:
            if error.status != _TOO_LARGE:
                raise
            if len(texts) == 1:
                which = "the text" if first is None else f"texts[{first}]"
                what = f"{which} has {len(texts[0]):,} characters, which is more than the server accepts"
                remedy = "cut it, or start the server with a larger --max-body"
                raise ServerError(f"{what} ({error}) — {remedy}", _TOO_LARGE) from None
            half = len(texts) // 2
            begin = first or 0
            return [
                *self._predict(texts[:half], options, begin),
                *self._predict(texts[half:], options, begin + half),
            ]
        return [_entities(result["entities"]) for result in answer["results"]]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        path = "/labels" if self._model is None else f"/models/{quote(self._model, safe='')}/labels"
        return tuple(self._ask(path)["labels"])

    def models(self) -> list[dict[str, Any]]:
        """The models of the server."""
        listed: list[dict[str, Any]] = self._ask("/models")["models"]
        return listed

    def is_up(self) -> bool:
        """Whether the server responds."""
        try:
            return bool(self._ask("/health", patience=0)["status"] == "UP")
        except ServerError:
            return False

    def _ask(self, path: str, body: Mapping[str, Any] | None = None, patience: float | None = None) -> Any:
        """Send a request, with retries."""
        deadline = time.monotonic() + (self._patience if patience is None else patience)
        while True:
            try:
                return self._ask_once(path, body)
            except ServerError as error:
                if error.status not in (0, *_AGAIN) or time.monotonic() + error.retry_after > deadline:
                    raise
                time.sleep(error.retry_after)

    def _ask_once(self, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            again = _seconds(error.headers.get("Retry-After"))
            raise ServerError(f"{self._base}{path}: {_message(error)}", error.code, again) from None
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(
                f"{self._base}{path}: there is no response ({reason}) — check that it is running"
            ) from None
        except Exception as error:  # http.client has its own errors for truncated responses
            raise ServerError(f"{self._base}{path}: the response was cut off ({type(error).__name__})") from None


def _entities(records: Sequence[Mapping[str, Any]]) -> list[Entity]:
    return [entity_from_record(record, "the server's answer", 1) for record in records]


def _message(error: urllib.error.HTTPError) -> str:
    """The server's error message."""
    try:
        return str(json.loads(error.read())["message"])
    except Exception:
        return f"it was answered with {error.code}"


def _seconds(given: str | None) -> float:
    return float(given) if given is not None and given.isdigit() else 0.5
