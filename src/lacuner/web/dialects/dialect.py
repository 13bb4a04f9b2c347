"""A dialect: how requests are read, and responses written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from lacuner.corpus import Entity
from lacuner.errors import LacunerError
from lacuner.web.served_models import Answer, Query


class InvalidRequestError(LacunerError):
    """An invalid request: position in its body, and reason."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where, self.why = where, why


class Body(BaseModel):
    """The body of a request; fields that nobody knows are refused, because they would be ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LooseBody(BaseModel):
    """The body of a tool that sends more than we need."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True)
class Target:
    """The model of a request.

    Attributes:
        name: of the model.
        labels: that it predicts.
        finds_nested: whether it finds nested entities.
    """

    name: str
    labels: tuple[str, ...]
    finds_nested: bool = True


@dataclass(frozen=True)
class Task:
    """The content of a request.

    Attributes:
        queries: texts to predict.
        write: makes the body of the response from the answers, in the order of the queries.
    """

    queries: list[Query]
    write: Callable[[Sequence[Answer]], Any]


B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True)
class Dialect(Generic[B]):
    """A kind of request.

    Attributes:
        body: its schema; one of the fields is ``model``.
        read: converts a body to a task for a model.
        keys: fields that identify it on the path shared by several dialects.
    """

    body: type[B]
    read: Callable[[B, Target], Task]
    keys: frozenset[str] = frozenset()


def score_of(entity: Entity) -> float:
    """A probability, for tools that require one; dictionary matches are certain."""
    return 1.0 if entity.score is None else round(entity.score, 6)


def asked_labels(asked: Sequence[str], known: Sequence[str], where: str) -> dict[str, str]:
    """Map the model's labels to their spelling in the request, ignoring case.

    Raises:
        InvalidRequestError: the model has no such label.
    """
    spelled = {label.casefold(): label for label in known}
    found: dict[str, str] = {}
    for index, label in enumerate(asked):
        if label.casefold() not in spelled:
            raise InvalidRequestError(f"{where}.{index}", f"the model finds no {label!r}, only {', '.join(known)}")
        found[spelled[label.casefold()]] = label
    return found


def check_nested(nested: bool, target: Target, where: str) -> bool:
    """Reject nested entities for a tagger."""
    if nested and not target.finds_nested:
        raise InvalidRequestError(where, "this model is a tagger, which finds no nested entities")
    return nested
