"""Our own requests, and those compatible with GLiNER, which differ in the names of two fields."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from lacuner.corpus import Entity
from lacuner.corpus.formats.records import entity_to_record
from lacuner.web.dialects.dialect import Body, Dialect, InvalidRequestError, Target, Task, asked_labels, check_nested
from lacuner.web.served_models import Answer, Query

Score = Annotated[float, Field(ge=0, le=1, strict=False)]


class PredictBody(Body):
    """Find entities in one text, or in several."""

    text: str | None = None
    texts: list[str] | None = None
    min_score: Score = 0.0
    nested: bool = False
    model: str | None = None


class GlinerBody(Body):
    """Find entities with some of the model's labels."""

    text: str | None = None
    texts: list[str] | None = None
    labels: list[str] | None = None
    threshold: Score = 0.5
    flat_ner: bool = True
    multi_label: bool = False
    model: str | None = None


def predict(body: PredictBody, target: Target) -> Task:
    """``{"entities": […]}`` for a text, ``{"results": [{"entities": […]}, …]}`` for texts, as in ``lacuner predict``."""
    nested = check_nested(body.nested, target, "nested")
    queries = [Query(text, nested, body.min_score) for text in _texts(body)]

    def write(answers: Sequence[Answer]) -> dict[str, Any]:
        found = [{"entities": [entity_to_record(entity) for entity in answer.entities]} for answer in answers]
        head = {"model": target.name, "version": answers[0].version if answers else None}
        return head | (found[0] if body.text is not None else {"results": found})

    return Task(queries, write)


def predict_gliner(body: GlinerBody, target: Target) -> Task:
    """The same, with the entity format of ``GLiNER.predict_entities``; labels are spelled as in the request."""
    if body.multi_label:
        raise InvalidRequestError("multi_label", "a span has one label here — leave it out")
    spelled = {label: label for label in target.labels}
    if body.labels is not None:
        spelled = asked_labels(body.labels, target.labels, "labels")
    nested = check_nested(not body.flat_ner, target, "flat_ner")
    queries = [Query(text, nested, body.threshold) for text in _texts(body)]

    def entity(found: Entity) -> dict[str, Any]:
        return entity_to_record(found) | {"label": spelled[found.label]}

    def write(answers: Sequence[Answer]) -> dict[str, Any]:
        lists = [[entity(found) for found in answer.entities if found.label in spelled] for answer in answers]
        return {"entities": lists[0] if body.text is not None else lists}

    return Task(queries, write)


OWN = Dialect(PredictBody, predict)
GLINER = Dialect(GlinerBody, predict_gliner, frozenset({"labels", "threshold", "flat_ner", "multi_label"}))


def _texts(body: PredictBody | GlinerBody) -> list[str]:
    if (body.text is None) == (body.texts is None):
        raise InvalidRequestError("text", "give either text, or texts, a list of them")
    return [body.text] if body.text is not None else body.texts or []
