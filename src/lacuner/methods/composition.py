"""What a span method is made of. Known positives and negatives are always trained on; a method says what to do with the rest.

To add a paper, add a file to this folder that defines its parts as subclasses of those below, and list them in the file's
``PARTS``, its presets in ``METHODS``. Nothing else needs to be touched; a package of somebody else does the same and names
its module in the entry-point group ``lacuner.methods``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor

from lacuner.encoding.spans import Spans
from lacuner.heads import ProductConfig, SpanScores, WidthConfig
from lacuner.parts import Part


class Step(NamedTuple):
    """Where training stands, and where this step's randomness comes from."""

    epoch: int  # from 0
    epochs: int
    generator: torch.Generator


@dataclass(frozen=True)
class Draw:
    """What a method may look at when it chooses negatives among the unknown spans of a batch."""

    unknown: Spans
    positives: Spans
    lengths: Tensor  # (B,) words of each sentence
    score: Callable[[Spans], SpanScores]
    step: Step


class Negatives(Part, ABC):
    """Which unknown spans become training negatives?"""

    @abstractmethod
    def draw(self, draw: Draw) -> Tensor:
        """Indices into ``draw.unknown``, or a mask over it."""


class Loss(Part, ABC):
    """What does a span cost?"""

    @abstractmethod
    def __call__(self, logits: Tensor, possible: Tensor, negative: Tensor, step: Step) -> Tensor:
        """A single number.

        Args:
            logits: ``(N, L)``, ``N > 0``.
            possible: ``(N, L)`` bool, the labels that each span may have.
            negative: ``(N,)`` bool, spans that are no annotated entity.
            step: where training stands.
        """


class Contrast(Part, ABC):
    """Are representations pulled apart?"""

    weight: float = Field(0.1, ge=0, le=1, description="share of the contrastive loss in the whole")

    @abstractmethod
    def __call__(self, hidden: Tensor, label: Tensor) -> Tensor:
        """A single number, from hidden layers ``(N, h)`` and label numbers ``(N,)``."""


class Inference(Part, ABC):
    """What besides the classifier decides?"""

    @abstractmethod
    def remember(self, spans: Iterable[tuple[Tensor, Tensor]], labels: int) -> dict[str, Tensor]:
        """What to keep of the training set: tensors that are saved with the model.

        Args:
            spans: hidden layers ``(P, h)`` and label numbers ``(P,)`` of annotated spans, batch by batch.
            labels: how many labels there are, ``O`` included.
        """

    @abstractmethod
    def probabilities(self, scores: SpanScores, memory: Mapping[str, Tensor]) -> Tensor:
        """``(N, L)`` probabilities of the labels."""


class Method(Part):
    """A span-level method: a composition of parts, with the paper that it comes from."""

    level: Literal["span"] = "span"
    paper: str = Field(description="where it was published")
    summary: str = Field(description="the idea, in a sentence")
    head: ProductConfig | WidthConfig = Field(discriminator="name")
    negatives: SerializeAsAny[Negatives]
    loss: SerializeAsAny[Loss]
    contrast: SerializeAsAny[Contrast] | None = None
    inference: SerializeAsAny[Inference] | None = None
