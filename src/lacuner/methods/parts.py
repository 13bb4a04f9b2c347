"""Base classes for the parts of a method, one per design choice, at span level and at token level.

Known positives and negatives are always trained on; a method decides what happens to everything unlabeled. To implement a
paper, add a file to this folder that subclasses the parts below, lists them in ``PARTS``, and lists its presets in
``METHODS``. A third-party package does the same and names its module in the entry-point group ``lacuner.methods``.

A part is a frozen bundle of settings. Its mutable state (prototypes, running means, a memory bank) consists of tensors
created by :meth:`MethodPart.initial_state` and :meth:`MethodPart.training_state`: the model holds them as buffers, and each
call passes them to the part as ``state``, to be read or updated in place.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor

from lacuner.corpus import Corpus, Sentence
from lacuner.encoders import EncoderConfig
from lacuner.heads import SpanScores, TagHead
from lacuner.heads.scores import Scorer
from lacuner.models.model import EncodedBatch, Model
from lacuner.parts import Part
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TagTargets

if TYPE_CHECKING:
    from lacuner.methods.method import Method

State = Mapping[str, Tensor]
"""State of a part."""


class Step(NamedTuple):
    """Training progress, the sentences of the current batch, and the random generator of this step."""

    epoch: int  # from 0
    epochs: int
    generator: torch.Generator
    sentences: Sequence[int] = ()  # indices of the batch's sentences in the training data, row by row
    watch: Callable[[Spans], None] | None = None  # called with the unknown spans that were sampled as negatives
    progress: float = 0.0  # fraction of training completed
    score_with: Callable[[State], Tensor] | None = None
    """For taggers: decision vectors ``(B, n, T)`` of the batch under these weights, without dropout or gradient."""
    batch: int = 0  # index within the epoch, from 0
    number: int = 0  # global step, from 0


class StateSizes(NamedTuple):
    """Sizes that may determine the shape of a part's state."""

    labels: int  # including O
    hidden: int  # size of span representations (the head's last hidden layer) or of word vectors
    weights: State = MappingProxyType({})  # initial weights of the model, by name
    lengths: Sequence[int] = ()  # length of each training sentence in words; empty before training begins
    max_span_width: int | None = None  # maximum span width of the head; None: unlimited, or not a span head


class TrainingData(NamedTuple):
    """The data that a method will be trained on."""

    corpus: Corpus
    dev: Corpus | None
    dev_incomplete: bool = False
    encoder: EncoderConfig | None = None  # the encoder to be trained


class RescoredBatch(NamedTuple):
    """A batch of training data and the current model, in evaluation mode."""

    model: Model
    indices: Sequence[int]  # indices of the sentences in the training data, row by row
    sentences: Sequence[Sentence]  # as sampled for this epoch
    words: EncodedBatch
    targets: Any  # ``model.targets`` of the sentences


class MethodPart(Part):
    """Base of every part of a method."""

    levels: ClassVar[tuple[str, ...]] = ("span", "token")
    """Levels of the methods that it can be a part of."""
    teaches_outside: ClassVar[bool] = False
    """Whether it trains non-entities even if no word is known to be one."""

    def check(self, method: "Method", data: TrainingData) -> None:
        """Reject data, or other parts of the method, that are incompatible with this part.

        Raises:
            ConfigError: one sentence that names the conflict and the remedy.
        """

    def for_data(self, data: TrainingData) -> Self:
        """Return a copy with data-dependent settings filled in."""
        return self

    def initial_state(self, sizes: StateSizes) -> dict[str, Tensor]:
        """Return the state before training; saved with the model."""
        return {}

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        """Return the state needed while training on this many sentences; saved in checkpoints only."""
        return {}

    def before_step(self, weights: State, step: Step, state: State) -> None:
        """Update the state or the model's weights in place before a training step.

        Args:
            weights: the model's weights, by name.
            step: training progress.
            state: this part's state.
        """

    def rescores_at(self, step: Step) -> bool:
        """Whether the part needs a pass over all training data with the current model before this step."""
        return False

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """Compute what :meth:`update_state` needs from a batch: tensors with one row per sentence, span or word."""
        return {}

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        """Update the state in place from the concatenated results of :meth:`rescore` over all batches."""


@dataclass(frozen=True)
class SamplingContext:
    """Everything a method may use to choose negatives among the unknown spans of a batch."""

    unknown: Spans
    positives: Spans
    lengths: Tensor  # (B,) sentence lengths in words
    score: Scorer  # without gradient, and without per-span dropout
    represent: Callable[[Spans], Tensor]  # span representations that the head scores: (N, r)
    step: Step
    state: State
    all_labels: Tensor | None = None  # (B,) bool: sentences annotated for every label; None: all of them


class Negatives(MethodPart, ABC):
    """Which unknown spans are used as training negatives?"""

    @abstractmethod
    def sample(self, context: SamplingContext) -> Tensor:
        """Return indices into ``context.unknown``, or a mask over it."""

    def expected(self, unknown: Tensor, lengths: Tensor) -> Tensor:
        """Expected number of negatives per sentence, given its unknown spans and its words: ``(B,), (B,) → (B,)``.

        Used only to initialize the bias of ``O`` (``head.outside_bias``), so it need not be exact.
        """
        return unknown


class Positives(MethodPart, ABC):
    """Which annotated spans are trained on?"""

    @abstractmethod
    def keep(self, positives: Spans, step: Step, state: State) -> Tensor:
        """Return ``(P,)`` bool over the annotated spans of a batch; the others are neither positives nor negatives."""


class SpanLoss(MethodPart, ABC):
    """What is the loss of a span?"""

    reduction: Literal["words", "mean", "sum"] = Field(
        "words",
        description="how the loss of a batch is normalized: divided by its words (words), by its spans "
        "(mean), or not at all (sum)",
    )

    @abstractmethod
    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        """Return the loss of each span: ``(N,)``.

        Args:
            logits: ``(N, L)``, ``N > 0``.
            possible: ``(N, L)`` bool, the labels that each span may have.
            sampled: ``(N,)`` bool, negatives sampled from the unknown spans; all others are known.
            step: training progress.
            state: this part's state.
        """

    def reduce(self, costs: Tensor, words: Tensor) -> Tensor:
        """Reduce the losses of a batch's spans to a scalar, given its number of words."""
        if self.reduction == "words":
            return costs.sum() / words
        return costs.mean() if self.reduction == "mean" else costs.sum()


class Contrast(MethodPart, ABC):
    """Is there a contrastive loss on representations?"""

    weight: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="weight of the contrastive loss; 1 would leave the classifier untrained",
    )

    @abstractmethod
    def __call__(self, hidden: Tensor, label: Tensor, step: Step, state: State) -> Tensor:
        """Return a scalar, given hidden layers ``(N, h)`` and label indices ``(N,)``."""


class Inference(MethodPart, ABC):
    """What complements the classifier at inference?"""

    @abstractmethod
    def fit(self, spans: Iterable[tuple[Tensor, Tensor]], state: State) -> None:
        """Update the state from the training set after training.

        Args:
            spans: hidden layers ``(N, h)`` and label indices ``(N,)`` of all spans, batch by batch; unannotated spans count
                as ``O``, since nearly all of them are.
            state: updated in place.
        """

    @abstractmethod
    def probabilities(self, scores: SpanScores, state: State) -> Tensor:
        """Return label probabilities ``(N, L)``; before :meth:`fit`, those of the classifier alone."""


class Unlabeled(MethodPart, ABC):
    """Which tags may an unlabeled word have?"""

    @abstractmethod
    def allow(self, targets: TagTargets) -> Tensor:
        """Return the tags that each word may have: ``(B, n, T)`` bool."""


class Sampling(MethodPart, ABC):
    """Which unlabeled words are trained on as non-entities?"""

    teaches_outside: ClassVar = True

    @property
    @abstractmethod
    def non_entity_class(self) -> bool:
        """Whether sampled spans get a non-entity class of their own instead of ``O``."""

    @abstractmethod
    def sample(self, free: Tensor, lengths: Tensor, step: Step) -> Spans:
        """Sample non-overlapping spans of unlabeled words.

        Args:
            free: ``(B, n)`` bool, words that may be sampled.
            lengths: ``(B,)`` sentence lengths in words.
            step: training progress.
        """


class TokenLoss(MethodPart, ABC):
    """What is the loss of the words of a batch?"""

    @abstractmethod
    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        """Return a scalar loss.

        Args:
            head: models the dependencies between tags.
            decisions: ``(B, n, T)`` its scores.
            log_weights: ``(B, n, T)`` log-weights of the tags: 0, or minus infinity for tags that a word cannot have
                according to :class:`Unlabeled`, :class:`Sampling` and the stages.
            targets: everything known about the words.
            step: training progress.
            state: this part's state.
        """


class Regularizer(MethodPart, ABC):
    """What prior knowledge about the whole batch is there?"""

    teaches_outside: ClassVar = True

    @abstractmethod
    def __call__(self, entity_fraction: Tensor) -> Tensor:
        """Return a penalty added to the loss of a batch, given its expected fraction of words inside entities."""
