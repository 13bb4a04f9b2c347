"""Prediction server: an API compatible with several tools, and a page for people."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuner.corpus.display.colors import Palette
from lacuner.errors import ConfigError
from lacuner.version import __version__
from lacuner.web.access import AccessMiddleware, AccessPolicy
from lacuner.web.batching import Batcher, BatchLimits, QueueFullError, TooLateError
from lacuner.web.bodies import content_of, read_body, schema_of
from lacuner.web.dialects.dialect import Dialect, InvalidRequestError, Target
from lacuner.web.dialects.hugging_face import HUGGING_FACE
from lacuner.web.dialects.label_studio import LABEL_STUDIO, SetupBody, find_control, model_version
from lacuner.web.dialects.own import GLINER, OWN
from lacuner.web.dialects.presidio import PRESIDIO
from lacuner.web.limits import BodyLimit
from lacuner.web.memory import MemoryRelease
from lacuner.web.metrics import CLIENT_LEFT, CONTENT_TYPE, Metrics
from lacuner.web.review_app import STATIC
from lacuner.web.served_models import Answer, Query, ServedModel, ServedModels, answer_together

PAGES = ("/", "/docs", "/openapi.json", "/health", "/models/*/health")
"""Paths that need no token."""
_DIALECTS: tuple[Dialect[Any], ...] = (LABEL_STUDIO, HUGGING_FACE, GLINER, OWN)
"""Dialects on the shared path; the first one whose keys are in a body is used, otherwise the last."""

T = TypeVar("T")


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a request.

    Attributes:
        max_body: bytes of its body.
        max_texts: number of texts.
    """

    max_body: int = 2**20
    max_texts: int = 256


class TooManyTextsError(Exception):
    """A request with too many texts."""


def create_app(
    models: ServedModels,
    policy: AccessPolicy,
    batching: BatchLimits | None = None,
    limits: RequestLimits | None = None,
    metrics: Metrics | None = None,
    supervisor: int | None = None,
) -> FastAPI:
    """Create the application that serves models.

    Args:
        models: by name.
        policy: access control.
        batching: how requests are batched.
        limits: of a request.
        metrics: where to count; by default for this process alone.
        supervisor: process ID of the supervisor of several server processes, if any.
    """
    service = Service(models, batching or BatchLimits(), limits or RequestLimits(), metrics or Metrics(), supervisor)
    app = FastAPI(title="Lacuner", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(BodyLimit, max_body=service.limits.max_body)
    app.add_middleware(AccessMiddleware, policy=policy)
    app.add_middleware(_CountedResponses, metrics=service.metrics)
    for kind, status in _STATUSES.items():
        app.add_exception_handler(kind, _answer_error(status))
    app.mount("/static", StaticFiles(directory=STATIC))
    app.include_router(_server_routes(service))
    app.include_router(_model_routes(service))
    app.include_router(_model_routes(service), prefix="/models/{model}", include_in_schema=False)
    app.state.service = service
    return app


class Service:
    """State shared by the routes: models, their queue, limits and metrics."""

    def __init__(
        self,
        models: ServedModels,
        batching: BatchLimits,
        limits: RequestLimits,
        metrics: Metrics,
        supervisor: int | None = None,
    ) -> None:
        self.models, self.limits, self.metrics, self.supervisor = models, limits, metrics, supervisor
        self.batcher: Batcher[tuple[ServedModel, Query], Answer] = Batcher(
            answer_together, batching, lambda asked: len(asked[1].text), self._observe, MemoryRelease()
        )

    def choose(self, request: Request, named: str | None = None) -> tuple[ServedModel, Target]:
        """The model of a request: named in its path, query, or body."""
        name = request.path_params.get("model") or request.query_params.get("model") or named or self.models.default
        if name not in self.models.names:
            known = ", ".join(self.models.names)
            raise HTTPException(404, f"There is no model {name[:100]!r}, only {known}.")
        served = self.models[name]
        model = served.recognizer.model
        return served, Target(name, served.recognizer.labels, model.finds_nested)

    async def answer(self, request: Request, dialect: Dialect[Any], content: Any) -> JSONResponse:
        """Answer the body of a request."""
        began = time.monotonic()
        body = read_body(dialect.body, content)
        served, target = self.choose(request, body.model)
        task = dialect.read(body, target)
        if len(task.queries) > self.limits.max_texts:
            raise TooManyTextsError(
                f"The request has {len(task.queries):,} texts, but {self.limits.max_texts:,} are allowed."
            )
        answers = await _unless_client_leaves(request, self.batcher.run([(served, query) for query in task.queries]))
        self.metrics.count("texts_total", len(answers))
        self.metrics.count("entities_total", sum(len(answer.entities) for answer in answers))
        self.metrics.observe("request_seconds", time.monotonic() - began)
        return JSONResponse(task.write(answers))

    def reload(self) -> dict[str, str]:
        """Reload models; returns the reasons of failures."""
        before = self.models.versions()
        failed = self.models.reload()
        after = self.models.versions()
        self.metrics.count("reloads_total", sum(before[name] != after[name] for name in after))
        self.metrics.count("reload_errors_total", len(failed))
        return failed

    def _observe(self, size: int, seconds: float) -> None:
        self.metrics.observe("batch_texts", size)
        self.metrics.observe("batch_seconds", seconds)
        self.metrics.set("waiting_texts", self.batcher.waiting)


def _server_routes(service: Service) -> APIRouter:
    """Routes of the server as a whole."""
    routes = APIRouter()

    @routes.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "predict.html", media_type="text/html; charset=utf-8")

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(STATIC / "docs.html", media_type="text/html; charset=utf-8")

    @routes.get("/models", summary="Models being served; the first is the default")
    async def models() -> JSONResponse:
        return JSONResponse({"models": [_description(service.models, name) for name in service.models.names]})

    @routes.get("/metrics", summary="Metrics for Prometheus")
    async def metrics() -> Response:
        service.metrics.set("waiting_texts", service.batcher.waiting)
        return PlainTextResponse(service.metrics.render(service.models.versions()), media_type=CONTENT_TYPE)

    @routes.post("/reload", summary="Reload models whose folders have changed; the old ones keep answering meanwhile")
    async def reload() -> JSONResponse:
        if service.supervisor is not None:
            os.kill(service.supervisor, signal.SIGHUP)
            return JSONResponse({"message": "All processes are reloading their models."}, 202)
        failed = await run_in_threadpool(service.reload)
        return JSONResponse({"models": service.models.versions(), "failed": failed}, 500 if failed else 200)

    return routes


def _model_routes(service: Service) -> APIRouter:
    """Routes of one model; also below ``/models/NAME``, for tools with a single address setting."""
    routes = APIRouter()

    async def predict_any(request: Request) -> JSONResponse:
        content = await content_of(request)
        keys = content.keys() if isinstance(content, dict) else frozenset()
        meant = next((dialect for dialect in _DIALECTS if dialect.keys & keys), OWN)
        return await service.answer(request, meant, content)

    bodies = schema_of(*(dialect.body for dialect in reversed(_DIALECTS)))
    summary = "Find entities; the fields of the body tell which tool is asking"
    routes.post("/predict", summary=summary, openapi_extra=bodies)(predict_any)
    routes.post("/", include_in_schema=False)(predict_any)  # clients of Hugging Face use only the base address

    @routes.post(
        "/analyze", summary="Find entities (API of Presidio's analyzer)", openapi_extra=schema_of(PRESIDIO.body)
    )
    async def analyze_text(request: Request) -> JSONResponse:
        return await service.answer(request, PRESIDIO, await content_of(request))

    @routes.get("/supportedentities", summary="List labels (API of Presidio's analyzer)")
    async def supported_entities(request: Request) -> JSONResponse:
        return JSONResponse(list(service.choose(request)[1].labels))

    @routes.get("/labels", summary="Labels of the model")
    async def labels(request: Request) -> JSONResponse:
        served, target = service.choose(request)
        return JSONResponse({"model": target.name, "version": served.version, "labels": list(target.labels)})

    @routes.head("/health", include_in_schema=False)
    @routes.get("/health", summary="Health check")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "UP", "v2": False})  # expected by Label Studio

    @routes.post("/setup", summary="Connect a project of Label Studio", openapi_extra=schema_of(SetupBody))
    async def setup(request: Request) -> JSONResponse:
        served, target = service.choose(request)
        find_control(read_body(SetupBody, await content_of(request)).label_config, "schema")
        return JSONResponse({"model_version": model_version(target.name, served.version)})

    @routes.post("/webhook", summary="Webhook events of Label Studio; they are accepted and ignored", status_code=201)
    async def webhook() -> JSONResponse:
        return JSONResponse({}, 201)

    return routes


def _description(models: ServedModels, name: str) -> dict[str, Any]:
    served = models[name]
    recognizer = served.recognizer
    return {
        "name": name,
        "version": served.version,
        "labels": list(recognizer.labels),
        "colors": dict(Palette.of(recognizer.labels).numbers),
        "method": recognizer.settings.method.name,
        "encoder": recognizer.settings.encoder.name,
        "nested": recognizer.model.finds_nested,
        "encoded_together": served.encodes_alike,
    }


async def _unless_client_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work, but cancel it if the client disconnects; the request body must have been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_end(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(CLIENT_LEFT, "The client has disconnected.")  # not read by anyone, but counted
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _wait_for_end(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


_STATUSES: dict[type[Exception], tuple[int, str]] = {
    InvalidRequestError: (422, "invalid"),
    ConfigError: (422, "invalid"),
    TooManyTextsError: (413, "invalid"),
    QueueFullError: (429, "busy"),
    TooLateError: (504, "late"),
    HTTPException: (500, "request"),
    Exception: (500, "server"),
}
"""Statuses and reasons of error responses."""


def _answer_error(known: tuple[int, str]) -> Callable[[Request, Exception], JSONResponse]:
    def answer(request: Request, error: Exception) -> JSONResponse:
        status, reason = known
        content: dict[str, Any] = {"reason": reason, "message": str(error)}
        headers = None
        if isinstance(error, HTTPException):
            status, content["message"] = error.status_code, error.detail
            headers = error.headers
            if status in (404, 405) and error.detail == HTTPStatus(status).phrase:  # the framework's
                content["message"] = _misdirected(request, status)
        elif isinstance(error, InvalidRequestError):
            content["where"] = error.where
        elif isinstance(error, QueueFullError):
            headers = {"Retry-After": str(error.seconds)}
        elif reason == "server":
            content["message"] = f"The server failed ({type(error).__name__}); this is a bug in Lacuner."
        return JSONResponse(content, status, headers)

    return answer


def _misdirected(request: Request, status: int) -> str:
    """Error message for an unknown path or a wrong method."""
    path, method = request.scope["path"], request.method
    described: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    if status == 404:
        return f"There is no path {path[:100]!r}, only {', '.join(described)}; /docs describes them."
    ways = [way.upper() for way in described.get(re.sub("^/models/[^/]+(?=/)", "", path), {})]
    return f"{path} takes {' and '.join(ways)}, not {method}." if ways else f"{path} does not take {method}."


class _CountedResponses:
    """Counts the responses of an application by status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count_request(message["status"])
            await send(message)

        await self._app(scope, receive, counted)
