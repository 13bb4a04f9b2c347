"""The questions that a method answers: one abstract class for each, at the level of spans and at that of words.

Known positives and negatives are always trained on; a method says what to do with the rest. To add a paper, add a file to
this folder that defines its parts as subclasses of those below, lists them in ``PARTS``, and its presets in ``METHODS``.
A package of somebody else does the same and names its module in the entry-point group ``lacuner.methods``.

A part is a frozen bundle of settings. What it has to keep (prototypes, running means, a memory of sentences) are tensors
that :meth:`MethodPart.initial_state` and :meth:`MethodPart.training_state` create: the model holds them as buffers, and
the part finds them in ``state`` whenever it is called, to read them or to change them in place.
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
"""What a part keeps."""


class Step(NamedTuple):
    """Where training is, which sentences are in the batch, and where this step's randomness comes from."""

    epoch: int  # from 0
    epochs: int
    generator: torch.Generator
    sentences: Sequence[int] = ()  # of the batch, row by row: their indices in the training data
    watch: Callable[[Spans], None] | None = None  # told which unknown spans became negatives
    progress: float = 0.0  # the fraction of training that is over
    score_with: Callable[[State], Tensor] | None = None
    """Of a tagger: decision vectors ``(B, n, T)`` of the batch with these weights instead; no dropout, no gradient."""
    batch: int = 0  # of the epoch, from 0
    number: int = 0  # steps before this one, over all epochs


class StateSizes(NamedTuple):
    """What the shape of a part's state may depend on."""

    labels: int  # O included
    hidden: int  # of what represents a span (the head's last hidden layer), or a word
    weights: State = MappingProxyType({})  # of the model, by name, as they are when training begins
    lengths: Sequence[int] = ()  # words of each training sentence; none before training begins
    max_span_width: int | None = None  # of the head; none: unlimited, or it scores no spans


class TrainingData(NamedTuple):
    """What a method is going to be trained on."""

    corpus: Corpus
    dev: Corpus | None
    dev_incomplete: bool = False
    encoder: EncoderConfig | None = None  # that it is going to be trained with


class RescoredBatch(NamedTuple):
    """Some of the training data, and the model as it is in the middle of training, without dropout."""

    model: Model
    indices: Sequence[int]  # of the sentences in the training data, row by row
    sentences: Sequence[Sentence]  # as this epoch takes them
    words: EncodedBatch
    targets: Any  # what ``model.targets`` says about the sentences


class MethodPart(Part):
    """Base of every part of a method."""

    levels: ClassVar[tuple[str, ...]] = ("span", "token")
    """Of the methods that it can be a part of."""
    teaches_outside: ClassVar[bool] = False
    """Whether it teaches what is no entity, even if nobody has said so of any word."""

    def check(self, method: "Method", data: TrainingData) -> None:
        """Refuse data, or other parts of the method, with which this one makes no sense.

        Raises:
            ConfigError: in one sentence, what does not fit, and what to do.
        """

    def for_data(self, data: TrainingData) -> Self:
        """The same part, with what depends on the data filled in."""
        return self

    def initial_state(self, sizes: StateSizes) -> dict[str, Tensor]:
        """What it keeps, as it is before training; saved with the model."""
        return {}

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        """What it keeps while a model is trained on so many sentences; saved in checkpoints only."""
        return {}

    def before_step(self, weights: State, step: Step, state: State) -> None:
        """Change what it keeps, or the weights of the model, in place, before a batch is learned from.

        Args:
            weights: of the model, by name.
            step: where training is.
            state: what this part keeps.
        """

    def rescores_at(self, step: Step) -> bool:
        """Whether it has to look at all training data before this step, with the model as it is then."""
        return False

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """What has to be known of a batch: tensors with one row for each sentence, span or word, or whatever it counts."""
        return {}

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        """Change its state in place, given what :meth:`rescore` returned of all batches, one after the other."""


@dataclass(frozen=True)
class SamplingContext:
    """What a method may look at when it chooses negatives among the unknown spans of a batch."""

    unknown: Spans
    positives: Spans
    lengths: Tensor  # (B,) words of each sentence
    score: Scorer  # without gradient, and without the dropout of single spans
    represent: Callable[[Spans], Tensor]  # what the head makes its scores from: (N, r)
    step: Step
    state: State
    all_labels: Tensor | None = None  # (B,) bool: sentences in which every label was looked for; none: all of them


class Negatives(MethodPart, ABC):
    """Which unknown spans become training negatives?"""

    @abstractmethod
    def sample(self, context: SamplingContext) -> Tensor:
        """Indices into ``context.unknown``, or a mask over it."""

    def expected(self, unknown: Tensor, lengths: Tensor) -> Tensor:
        """How many of so many unknown spans it samples in sentences of so many words: ``(B,), (B,) → (B,)``.

        Decides only what an untrained model expects (``head.outside_bias``), so it need not be exact.
        """
        return unknown


class Positives(MethodPart, ABC):
    """Which annotated spans are trained on?"""

    @abstractmethod
    def keep(self, positives: Spans, step: Step, state: State) -> Tensor:
        """``(P,)`` bool, of the annotated spans of a batch; the others are neither positives nor negatives."""


class SpanLoss(MethodPart, ABC):
    """What does a span cost?"""

    reduction: Literal["words", "mean", "sum"] = Field(
        "words",
        description="how the loss of a batch is normalized: divided by its words (words), by its spans "
        "(mean), or not at all (sum)",
    )

    @abstractmethod
    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        """What each span costs: ``(N,)``.

        Args:
            logits: ``(N, L)``, ``N > 0``.
            possible: ``(N, L)`` bool, the labels that each span may have.
            sampled: ``(N,)`` bool, negatives that the method drew from the unknown; the others are known.
            step: where training is.
            state: what this part keeps.
        """

    def reduce(self, costs: Tensor, words: Tensor) -> Tensor:
        """The loss of a batch of so many words, from what its spans cost: a single number."""
        if self.reduction == "words":
            return costs.sum() / words
        return costs.mean() if self.reduction == "mean" else costs.sum()


class Contrast(MethodPart, ABC):
    """Are representations pulled apart?"""

    weight: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="weight of the contrastive loss; 1 would leave the classifier untrained",
    )

    @abstractmethod
    def __call__(self, hidden: Tensor, label: Tensor, step: Step, state: State) -> Tensor:
        """A single number, from hidden layers ``(N, h)`` and label numbers ``(N,)``."""


class Inference(MethodPart, ABC):
    """What besides the classifier decides?"""

    @abstractmethod
    def fit(self, spans: Iterable[tuple[Tensor, Tensor]], state: State) -> None:
        """Look at the training set once training is over, and keep what is needed of it.

        Args:
            spans: hidden layers ``(N, h)`` and label numbers ``(N,)`` of all spans, some at a time; what is not annotated
                counts as ``O``, since nearly all of it is.
            state: to change in place.
        """

    @abstractmethod
    def probabilities(self, scores: SpanScores, state: State) -> Tensor:
        """``(N, L)`` probabilities of the labels; also before :meth:`fit`, when the classifier decides alone."""


class Unlabeled(MethodPart, ABC):
    """What may a word be that nobody has tagged?"""

    @abstractmethod
    def allow(self, targets: TagTargets) -> Tensor:
        """The tags that each word may have: ``(B, n, T)`` bool."""


class Sampling(MethodPart, ABC):
    """Which untagged words are taken as no entity, after all?"""

    teaches_outside: ClassVar = True

    @property
    @abstractmethod
    def non_entity_class(self) -> bool:
        """Whether what is drawn gets a label of its own, which means no entity, instead of ``O``."""

    @abstractmethod
    def sample(self, free: Tensor, lengths: Tensor, step: Step) -> Spans:
        """Spans of untagged words, none of which overlaps another.

        Args:
            free: ``(B, n)`` bool, words that may be drawn.
            lengths: ``(B,)`` words of each sentence.
            step: where training is.
        """


class TokenLoss(MethodPart, ABC):
    """What do the words of a batch cost?"""

    @abstractmethod
    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        """A single number.

        Args:
            head: which knows how tags depend on each other.
            decisions: ``(B, n, T)`` its scores.
            log_weights: ``(B, n, T)`` logs of how much each tag counts: 0, or minus infinity for those that a word cannot
                have, as :class:`Unlabeled`, :class:`Sampling` and stages say.
            targets: everything that is known about the words.
            step: where training is.
            state: what this part keeps.
        """


class Regularizer(MethodPart, ABC):
    """What else do we know about all words together?"""

    teaches_outside: ClassVar = True

    @abstractmethod
    def __call__(self, entity_fraction: Tensor) -> Tensor:
        """What to add to the loss of a batch in which this fraction of the words is expected to belong to entities."""
