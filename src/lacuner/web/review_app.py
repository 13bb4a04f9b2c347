"""The review as a web application: a page, and what it asks for."""

import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from lacuner.audit.finding import Kind
from lacuner.audit.folder import DECISIONS
from lacuner.corpus import OUTSIDE, Entity, Sentence
from lacuner.review.conflicts import ConflictError
from lacuner.review.decisions import LARGEST, Decisions, Outcome, Overlaps, Shown, Wanted
from lacuner.review.items import Action, Status
from lacuner.web.access import AccessPolicy, GateKeeper

STATIC = Path(__file__).parent / "static"

Reviewer = Annotated[str, Header(alias="X-Reviewer", pattern=r"^[\w-]{8,64}$")]
"""Tells browsers apart; it does not open anything."""


Number = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
"""Of a finding."""


class Filter(BaseModel):
    """Which findings the page wants to see."""

    status: Status = "open"
    label: str | None = Field(None, max_length=1000)
    kind: Kind | None = None

    def wanted(self) -> Wanted:
        return Wanted(self.status, self.label, self.kind)


class Asked(BaseModel):
    """A finding behind (or before) another."""

    wanted: Filter = Filter()
    after: Number = -1
    backwards: bool = False


class Decided(BaseModel):
    """A decision, and what the page wants to see next."""

    version: int
    action: Action
    start: int | None = None
    end: int | None = None
    label: str | None = Field(None, max_length=100)
    overlaps: Overlaps = "ask"
    everywhere: bool = False
    wanted: Filter = Filter()


class Looking(BaseModel):
    """The finding that a reviewer still looks at."""

    number: Number


class Name(BaseModel):
    """What a reviewer wants to be called."""

    name: str = Field(max_length=60)


def create_app(decisions: Decisions, gate: AccessPolicy) -> FastAPI:
    """The application for one audit."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(GateKeeper, gate=gate)
    app.add_exception_handler(ConflictError, _refused)
    app.add_exception_handler(sqlite3.Error, _not_stored)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.get("/")
    def page(request: Request) -> Response:
        response = FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")
        if gate.token_in_address(request):
            gate.let_in(response)
        return response

    @app.get("/api/review")
    def about(reviewer: Reviewer) -> dict[str, Any]:
        folder = decisions.folder
        return {
            "corpus": folder.name,
            "warning": folder.warning(),
            "labels": decisions.labels(),
            "estimated_missing": folder.summary.get("estimated_missing"),
            "name": decisions.name_of(reviewer),
            "tallies": _tallies(decisions),
        }

    @app.post("/api/reviewer")
    def rename(reviewer: Reviewer, body: Name) -> dict[str, str]:
        name = " ".join(body.name.split())
        decisions.rename(reviewer, name)
        return {"name": name}

    @app.post("/api/next")
    def following(reviewer: Reviewer, body: Asked) -> dict[str, Any]:
        return _next(decisions, reviewer, body.wanted, body.after, body.backwards)

    @app.post("/api/findings/{number}/decide")
    def decide(reviewer: Reviewer, number: int, body: Decided) -> dict[str, Any]:
        with decisions.at_once():
            outcome = decisions.decide(reviewer, number, **body.model_dump(exclude={"wanted"}))
            answer = _next(decisions, reviewer, body.wanted, number)
        return answer | asdict(outcome) | {"message": in_words(outcome)}

    @app.post("/api/undo")
    def undo(reviewer: Reviewer) -> dict[str, Any]:
        shown, undone, kept = decisions.undo(reviewer)
        message = f"Undone: {_findings(undone)}." if undone != 1 else f"Undone: “{shown.case.text}”."
        if kept:
            message += f" {_findings(kept)} stay{'s' * (kept == 1)} as somebody else has decided since."
        shown_now = {"finding": as_record(decisions, shown), "elsewhere": 0}
        return shown_now | {"message": message, "tallies": _tallies(decisions)}

    @app.post("/api/looking")
    def renew(reviewer: Reviewer, body: Looking) -> dict[str, Any]:
        decisions.renew(reviewer, body.number)
        return {"tallies": _tallies(decisions)}

    return app


def as_record(decisions: Decisions, shown: Shown) -> dict[str, Any]:
    """A finding as the page gets it; offsets count words, so that no two languages count characters differently."""
    case, sentence = shown.case, shown.sentence
    words, gaps = _words_and_gaps(sentence)
    decision = None
    if shown.decision is not None:
        decision = {"start": shown.decision.start, "end": shown.decision.end, "label": shown.decision.label}
        decision["reviewer"] = decisions.name_of(shown.reviewer or "")
    return {
        "number": case.number,
        "version": shown.version,
        "status": shown.status,
        "kind": case.kind,
        "sentence": case.sentence,
        "start": case.start,
        "end": case.end,
        "label": case.label,
        "probability": case.probability,
        "text": case.text,
        "annotated": None if case.annotated is None else _entity(case.annotated),
        "words": words,
        "gaps": gaps,
        "entities": [_entity(entity) for entity in sentence.entities],
        "non_entities": [{"start": span.start, "end": span.end} for span in sentence.non_entities],
        "decision": decision,
        "same": shown.same,
    }


def in_words(outcome: Outcome) -> str:
    """What a decision came to, for people."""
    if outcome.decided == 1 and not outcome.left_out:
        return f"{outcome.status.capitalize()}."
    text = f"{outcome.status.capitalize()}: {_findings(outcome.decided)} with these words."
    reasons = {
        "overlap": "would overlap another entity",
        "elsewhere": "somebody else is looking at",
        "different": "have other words around them",
    }
    if outcome.left_out:
        parts = [f"{count:,} that {reasons[reason]}" for reason, count in sorted(outcome.left_out.items())]
        text += f" Left open: {', '.join(parts)}."
    return text


def _next(decisions: Decisions, reviewer: str, wanted: Filter, after: int, backwards: bool = False) -> dict[str, Any]:
    shown, elsewhere = decisions.next(reviewer, wanted.wanted(), after, backwards)
    finding = None if shown is None else as_record(decisions, shown)
    return {"finding": finding, "elsewhere": elsewhere, "tallies": _tallies(decisions)}


def _tallies(decisions: Decisions) -> list[dict[str, Any]]:
    return [asdict(tally) for tally in decisions.tallies()]


def _words_and_gaps(sentence: Sentence) -> tuple[list[str], list[str]]:
    """The words, and what stands before each of them and behind the last."""
    text = " ".join(sentence.tokens) if sentence.text is None else sentence.text
    gaps, position = [], 0
    for start, end in sentence.offsets():
        gaps.append(text[position:start])
        position = end
    return list(sentence.tokens), [*gaps, text[position:]]


def _entity(entity: Entity) -> dict[str, Any]:
    assert entity.label != OUTSIDE
    return {"start": entity.start, "end": entity.end, "label": entity.label, "source": entity.source}


def _findings(count: int) -> str:
    return f"{count:,} finding{'' if count == 1 else 's'}"


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ConflictError)
    status = 404 if error.reason == "unknown" else 409
    only_one = error.clash is not None and error.clash.only_one
    return JSONResponse({"reason": error.reason, "message": error.message, "only_one": only_one}, status)


def _not_stored(request: Request, error: Exception) -> JSONResponse:
    cause, remedy = f"{DECISIONS} cannot be used ({error})", "see that the folder can be written"
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        cause, remedy = "the disk is full", "make room"
    message = f"Nothing was stored, because {cause} — {remedy}, and try again."
    return JSONResponse({"reason": "storage", "message": message}, 503)


def _not_understood(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    places = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors())
    return JSONResponse({"reason": "wrong", "message": f"The request is not understood: {places}."}, 422)
