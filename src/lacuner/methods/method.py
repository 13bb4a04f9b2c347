"""What every method is: a named composition of parts, at the level of spans or of words."""

from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args

import torch
from pydantic import Field

from lacuner.parts import Part
from lacuner.supervision.spans import Spans


class Step(NamedTuple):
    """Where training stands, and where this step's randomness comes from."""

    epoch: int  # from 0
    epochs: int
    generator: torch.Generator
    watch: Callable[[Spans], None] | None = None  # told which unknown spans became negatives


class Method(Part):
    """What a method says about itself; its parts are the fields that a subclass adds."""

    level: Literal["span", "token"]
    paper: str = Field(description="where it was published")
    summary: str = Field(description="the idea, in a sentence")
    head: Part
    training: dict[str, Any] = Field(default_factory=dict, description="settings of training that belong to it")

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The kinds of parts that it consists of."""
        return ("head", *(name for name in cls.model_fields if name not in Method.model_fields))

    @classmethod
    def optional(cls, kind: str) -> bool:
        """Whether there need not be such a part; ``none`` takes it out."""
        return NoneType in get_args(cls.model_fields[kind].annotation)
