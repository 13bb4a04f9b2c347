"""Requests in the format of Presidio's analyzer, so that its anonymizer can use our models."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from lacuner.web.dialects.dialect import Dialect, InvalidRequestError, LooseBody, Target, Task, asked_labels, score_of
from lacuner.web.served_models import Answer, Query

_NOT_DONE = ("ad_hoc_recognizers", "context")


class AnalyzeBody(LooseBody):
    """Find personal data in one text, or in several. The language is the model's, whatever is asked for."""

    text: str | list[str]
    language: str | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    entities: list[str] | None = None
    correlation_id: str | None = None
    return_decision_process: bool | None = None
    allow_list: list[str] | None = None
    allow_list_match: Literal["exact"] = "exact"
    ad_hoc_recognizers: list[Any] | None = None
    context: list[str] | None = None
    model: str | None = None


def analyze(body: AnalyzeBody, target: Target) -> Task:
    """A list of ``entity_type``, ``start``, ``end`` and ``score``; a list of such lists for several texts."""
    for name in _NOT_DONE:
        if getattr(body, name):
            raise InvalidRequestError(name, "only the model finds entities here — leave it out")
    texts = [body.text] if isinstance(body.text, str) else body.text
    spelled = {label: label for label in target.labels}
    if body.entities:
        spelled = _known(body.entities, target)
    allowed = frozenset(body.allow_list or ())

    def write(answers: Sequence[Answer]) -> list[Any]:
        lists = [
            [
                {
                    "analysis_explanation": None,
                    "end": entity.end,
                    "entity_type": spelled[entity.label],
                    "score": score_of(entity),
                    "start": entity.start,
                }
                for entity in answer.entities
                if entity.label in spelled and entity.text not in allowed
            ]
            for answer in answers
        ]
        return lists[0] if isinstance(body.text, str) else lists

    return Task([Query(text, min_score=body.score_threshold or 0.0) for text in texts], write)


def _known(asked: Sequence[str], target: Target) -> dict[str, str]:
    """The requested labels that the model has; as in Presidio, others are ignored if at least one is known."""
    labels = {label.casefold() for label in target.labels}
    return asked_labels([label for label in asked if label.casefold() in labels] or asked, target.labels, "entities")


PRESIDIO = Dialect(AnalyzeBody, analyze)
