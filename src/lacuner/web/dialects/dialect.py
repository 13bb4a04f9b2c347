"""A dialect: what a request asks, and how its answer is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from lacuner.corpus import Entity
from lacuner.errors import LacunerError
from lacuner.web.served_models import Answer, Query


class InvalidRequestError(LacunerError):
    """A request that cannot be answered: where in its body, and why."""

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
    """The model that a request is for.

    Attributes:
        name: of the model.
        labels: that it can find.
        finds_nested: whether it finds entities inside others.
    """

    name: str
    labels: tuple[str, ...]
    finds_nested: bool = True


@dataclass(frozen=True)
class Task:
    """What a request asks.

    Attributes:
        queries: what to find out.
        write: makes the body of the response of the answers, in the order of the queries.
    """

    queries: list[Query]
    write: Callable[[Sequence[Answer]], Any]


B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True)
class Dialect(Generic[B]):
    """A kind of request.

    Attributes:
        body: what it has to look like; one of the fields is ``model``.
        read: what a body asks of a model.
        keys: fields by which it is known at the path that several dialects share.
    """

    body: type[B]
    read: Callable[[B, Target], Task]
    keys: frozenset[str] = frozenset()


def score_of(entity: Entity) -> float:
    """A probability, for tools that need one; names of a list are certain."""
    return 1.0 if entity.score is None else round(entity.score, 6)


def asked_labels(asked: Sequence[str], known: Sequence[str], where: str) -> dict[str, str]:
    """The model's label → as it is spelled in the request; case does not matter.

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
    """Refuse what a tagger cannot do."""
    if nested and not target.finds_nested:
        raise InvalidRequestError(where, "this model is a tagger, which finds no nested entities")
    return nested
