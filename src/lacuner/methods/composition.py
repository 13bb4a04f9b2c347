"""What a span method is made of. Known positives and negatives are always trained on; a method says what to do with the rest.

To add a paper, add a file to this folder that defines its parts as subclasses of those below, and list them in the file's
``PARTS``, its presets in ``METHODS``. Nothing else needs to be touched; a package of somebody else does the same and names
its module in the entry-point group ``lacuner.methods``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, SerializeAsAny
from torch import Tensor

from lacuner.heads import SpanHeadConfig, SpanScores
from lacuner.heads.scores import Scorer
from lacuner.methods.method import Method, Step
from lacuner.parts import Part
from lacuner.supervision.spans import Spans


@dataclass(frozen=True)
class Draw:
    """What a method may look at when it chooses negatives among the unknown spans of a batch."""

    unknown: Spans
    positives: Spans
    lengths: Tensor  # (B,) words of each sentence
    score: Scorer  # without gradient, and without the dropout of single spans
    represent: Callable[[Spans], Tensor]  # what the head makes its scores from: (N, r)
    step: Step


class Negatives(Part, ABC):
    """Which unknown spans become training negatives?"""

    @abstractmethod
    def draw(self, draw: Draw) -> Tensor:
        """Indices into ``draw.unknown``, or a mask over it."""


class Loss(Part, ABC):
    """What does a span cost?"""

    @abstractmethod
    def __call__(self, logits: Tensor, possible: Tensor, guessed: Tensor, step: Step) -> Tensor:
        """A single number.

        Args:
            logits: ``(N, L)``, ``N > 0``.
            possible: ``(N, L)`` bool, the labels that each span may have.
            guessed: ``(N,)`` bool, negatives that the method drew from the unknown; the others are known.
            step: where training stands.
        """


class Contrast(Part, ABC):
    """Are representations pulled apart?"""

    weight: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of the contrastive loss in the whole; 1 would leave the classifier untrained",
    )

    @abstractmethod
    def __call__(self, hidden: Tensor, label: Tensor) -> Tensor:
        """A single number, from hidden layers ``(N, h)`` and label numbers ``(N,)``."""


class Inference(Part, ABC):
    """What besides the classifier decides?"""

    @abstractmethod
    def remember(self, spans: Iterable[tuple[Tensor, Tensor]], labels: int) -> dict[str, Tensor]:
        """What to keep of the training set: tensors that are saved with the model.

        Args:
            spans: hidden layers ``(N, h)`` and label numbers ``(N,)`` of all spans, some at a time; what is not annotated
                counts as ``O``, since nearly all of it is.
            labels: how many labels there are, ``O`` included.
        """

    @abstractmethod
    def probabilities(self, scores: SpanScores, memory: Mapping[str, Tensor]) -> Tensor:
        """``(N, L)`` probabilities of the labels."""


class Teacher(Part, ABC):
    """Who judges the gaps before the model is trained?

    Several models do, each of which learns without one of as many parts of the school, so that what they judge, they have
    not seen. A teacher says what their school is, and what to teach of what they think.
    """

    folds: int = Field(4, ge=2, description="how many teachers; each learns without one of as many parts")
    school: Literal["trusted", "all"] = Field(
        "trusted",
        description="what they learn from: complete sentences (no teacher if too few), or all but what they judge",
    )
    enough: int = Field(500, ge=1, description="entities that complete sentences must hold to teach by themselves")
    rounds: int = Field(
        1,
        ge=1,
        description="models trained one after the other, each taught by the one before, while dev data improves",
    )
    least: float = Field(
        0.05, ge=0, le=1, description="spans that are entities with a lower probability are not judged"
    )
    settled: bool = Field(True, description="take spans that are not judged as known to be no entity")
    finish: float = Field(
        0.5, ge=0, lt=1, description="last part of training, in which the model reads complete sentences only"
    )

    @abstractmethod
    def belief(self, probabilities: Tensor, annotated: Tensor) -> Tensor:
        """What to teach about spans.

        Args:
            probabilities: ``(N, L)``, what models think that have not seen these spans.
            annotated: ``(N, L)`` bool, the labels that the corpus gives them; none for unknown spans.

        Returns:
            ``(N, L)`` probabilities.
        """


class SpanMethod(Method):
    """A span-level method."""

    level: Literal["span"] = "span"
    head: SerializeAsAny[SpanHeadConfig]
    negatives: SerializeAsAny[Negatives]
    loss: SerializeAsAny[Loss]
    contrast: SerializeAsAny[Contrast] | None = None
    inference: SerializeAsAny[Inference] | None = None
    teacher: SerializeAsAny[Teacher] | None = None
