"""Review server: the page and its JSON API."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from lacuner.audit.finding import Kind
from lacuner.corpus import Entity, Sentence
from lacuner.corpus.display.colors import Palette
from lacuner.review.conflicts import ConflictError
from lacuner.review.decisions import Action
from lacuner.review.items import MAX_NUMBER, Filter, Status
from lacuner.review.review import ItemView, OnOverlap, Outcome, Review
from lacuner.review.store import StorageError
from lacuner.web.access import AccessMiddleware, AccessPolicy
from lacuner.web.limits import BodyLimit
from lacuner.web.work_queue import BusyError, WorkQueue

STATIC = Path(__file__).parent / "static"

Reviewer = Annotated[str, Header(alias="X-Reviewer", pattern=r"^[\w-]{8,64}$")]
"""Distinguishes browsers; it grants no access."""

Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
"""Number of an item."""


class FilterBody(BaseModel):
    """Which items the page shows."""

    status: Status = "open"
    label: str | None = Field(None, max_length=1000)
    kind: Kind | None = None

    def as_filter(self) -> Filter:
        return Filter(self.status, self.label, self.kind)


class NextBody(BaseModel):
    """Asks for the item after (or before) another."""

    filter: FilterBody = FilterBody()
    after: Number = -1
    backwards: bool = False


class DecisionBody(BaseModel):
    """A decision, and which items to show next."""

    version: int
    action: Action
    start: int | None = None
    end: int | None = None
    label: str | None = Field(None, max_length=100)
    on_overlap: OnOverlap = "ask"
    all_occurrences: bool = False
    filter: FilterBody = FilterBody()


class Heartbeat(BaseModel):
    """The item that a reviewer still looks at."""

    number: Number


class Name(BaseModel):
    """The name of a reviewer."""

    name: str = Field(max_length=60)


def create_app(review: Review, policy: AccessPolicy, queue: WorkQueue | None = None) -> FastAPI:
    """Create the application for the review of one audit. All database access goes through the queue."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_middleware(AccessMiddleware, policy=policy)
    app.add_exception_handler(ConflictError, _conflict)
    app.add_exception_handler(StorageError, _not_stored)
    app.add_exception_handler(BusyError, _not_stored)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _misdirected)
    app.mount("/static", StaticFiles(directory=STATIC))
    run = (queue or WorkQueue(review.together)).run

    @app.get("/")
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    @app.get("/api/review")
    async def about(reviewer: Reviewer) -> JSONResponse:
        warning = await run_in_threadpool(review.folder.warning)  # reads all audited files
        return JSONResponse(await run(_about, review, reviewer) | {"warning": warning})

    @app.post("/api/reviewer")
    async def rename(reviewer: Reviewer, body: Name) -> JSONResponse:
        name = " ".join("".join(c if c.isprintable() else " " for c in body.name).split())
        await run(review.rename, reviewer, name)
        return JSONResponse({"name": name})

    @app.post("/api/next")
    async def next_item(reviewer: Reviewer, body: NextBody) -> JSONResponse:
        return JSONResponse(await run(_next, review, reviewer, body.filter, body.after, body.backwards))

    @app.post("/api/items/{number}/decide")
    async def decide(reviewer: Reviewer, number: int, body: DecisionBody) -> JSONResponse:
        return JSONResponse(await run(_decide, review, reviewer, number, body))

    @app.post("/api/undo")
    async def undo(reviewer: Reviewer) -> JSONResponse:
        return JSONResponse(await run(_undo, review, reviewer))

    @app.post("/api/heartbeat")
    async def heartbeat(reviewer: Reviewer, body: Heartbeat) -> JSONResponse:
        return JSONResponse(await run(_heartbeat, review, reviewer, body.number))

    return app


def item_record(review: Review, view: ItemView) -> dict[str, Any]:
    """An item as JSON. Offsets are in words, because Python and JavaScript count characters differently."""
    item, sentence = view.item, view.sentence
    words, gaps = _words_and_gaps(sentence)
    decision = None
    if view.decision is not None:
        decision = {"start": view.decision.start, "end": view.decision.end, "label": view.decision.label}
        decision["reviewer"] = review.name_of(view.reviewer or "")
    return {
        "number": item.number,
        "version": view.version,
        "status": view.status,
        "kind": item.kind,
        "sentence": item.sentence,
        "start": item.start,
        "end": item.end,
        "label": item.label,
        "probability": item.probability,
        "text": item.text,
        "annotated": None if item.annotated is None else _entity(item.annotated),
        "words": words,
        "gaps": gaps,
        "entities": [_entity(entity) for entity in sentence.entities],
        "non_entities": [{"start": span.start, "end": span.end} for span in sentence.non_entities],
        "decision": decision,
        "other_occurrences": view.other_occurrences,
    }


def outcome_message(outcome: Outcome) -> str:
    """Describe the result of a decision in a sentence."""
    if outcome.decided == 1 and not outcome.left_open:
        return f"{outcome.status.capitalize()}."
    text = f"{outcome.status.capitalize()}: {_findings(outcome.decided)} with these words."
    reasons = {
        "overlap": "would overlap another entity",
        "held_by_others": "somebody else is looking at",
        "different_words": "have other words around them",
    }
    if outcome.left_open:
        parts = [f"{count:,} that {reasons[reason]}" for reason, count in sorted(outcome.left_open.items())]
        text += f" Left open: {', '.join(parts)}."
    return text


def _about(review: Review, reviewer: str) -> dict[str, Any]:
    labels = review.labels()
    return {
        "corpus": review.folder.name,
        "labels": labels,
        "colors": dict(Palette.of(labels).numbers),
        "estimated_missing": review.folder.summary.get("estimated_missing"),
        "name": review.name_of(reviewer),
        "counts": _counts(review),
    }


def _next(review: Review, reviewer: str, filter: FilterBody, after: int, backwards: bool = False) -> dict[str, Any]:
    with review.transaction():
        view, held_by_others = review.next(reviewer, filter.as_filter(), after, backwards)
        item = None if view is None else item_record(review, view)
        return {"item": item, "held_by_others": held_by_others, "counts": _counts(review)}


def _decide(review: Review, reviewer: str, number: int, body: DecisionBody) -> dict[str, Any]:
    with review.transaction():
        outcome = review.decide(reviewer, number, **body.model_dump(exclude={"filter"}))
        response = _next(review, reviewer, body.filter, number)
    return response | asdict(outcome) | {"message": outcome_message(outcome)}


def _undo(review: Review, reviewer: str) -> dict[str, Any]:
    view, undone, kept = review.undo(reviewer)
    message = f"Undone: {_findings(undone)}." if undone != 1 else f"Undone: “{view.item.text}”."
    if kept:
        verb = "keeps its" if kept == 1 else "keep their"
        message += f" {_findings(kept)} {verb} later decision by another reviewer."
    return {"item": item_record(review, view), "held_by_others": 0, "message": message, "counts": _counts(review)}


def _heartbeat(review: Review, reviewer: str, number: int) -> dict[str, Any]:
    review.heartbeat(reviewer, number)
    return {"counts": _counts(review)}


def _counts(review: Review) -> list[dict[str, Any]]:
    names = ("status", "kind", "label", "count", "expected")
    return [{name: getattr(count, name) for name in names} for count in review.counts()]


def _words_and_gaps(sentence: Sentence) -> tuple[list[str], list[str]]:
    """The words, and the text before each of them and after the last."""
    text = sentence.raw_text
    gaps, position = [], 0
    for start, end in sentence.offsets():
        gaps.append(text[position:start])
        position = end
    return list(sentence.tokens), [*gaps, text[position:]]


def _entity(entity: Entity) -> dict[str, Any]:
    return {"start": entity.start, "end": entity.end, "label": entity.label, "source": entity.source}


def _findings(count: int) -> str:
    return f"{count:,} finding{'' if count == 1 else 's'}"


def _conflict(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ConflictError)
    status = 404 if error.reason == "unknown_item" else 409
    can_keep_both = error.conflict is not None and error.conflict.can_keep_both
    return JSONResponse({"reason": error.reason, "message": error.message, "can_keep_both": can_keep_both}, status)


def _not_stored(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"reason": "storage", "message": str(error)}, 503)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors())
    return JSONResponse({"reason": "invalid", "message": f"The request is invalid: {fields}."}, 422)


def _misdirected(request: Request, error: Exception) -> JSONResponse:
    """A path that there is not, or not with this method."""
    assert isinstance(error, HTTPException)
    path, method = request.scope["path"], request.method
    says = {404: f"There is no path {path[:100]!r}.", 405: f"{path[:100]} does not take {method}."}
    content = {"reason": "request", "message": says.get(error.status_code, error.detail)}
    return JSONResponse(content, error.status_code, error.headers)
