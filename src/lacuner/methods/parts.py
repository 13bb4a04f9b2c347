"""The questions that a method answers: one abstract class for each, at the level of spans and at that of words.

Known positives and negatives are always trained on; a method says what to do with the rest. To add a paper, add a file to
this folder that defines its parts as subclasses of those below, lists them in ``PARTS``, and its presets in ``METHODS``.
A package of somebody else does the same and names its module in the entry-point group ``lacuner.methods``.

A part is a frozen bundle of settings. What it has to keep (prototypes, running means, a memory of sentences) are tensors
that :meth:`MethodPart.initial_state` and :meth:`MethodPart.training_state` create: the model holds them as buffers, and
the part finds them in ``state`` whenever it is called, to read them or to change them in place.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import torch
from pydantic import Field
from torch import Tensor

from lacuner.corpus import Corpus, Sentence
from lacuner.encoders import EncoderConfig
from lacuner.heads import SpanScores, TagHead
from lacuner.heads.scores import Scorer
from lacuner.models.model import EncodedBatch, Model
from lacuner.parts import Part
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TagTargets, TokenSupervision

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
        description="what the summed loss of a batch is divided by: its words, its spans (mean), or nothing (sum)",
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


Compute = Callable[[], dict[str, Tensor]]
"""Part of what a stage does, of which the result is kept."""


class Fit(Protocol):
    """Trains a model."""

    def __call__(
        self,
        name: str,
        title: str,
        method: "Method",
        *,
        epochs: int | None = None,
        supervision: Mapping[int, TokenSupervision] | None = None,
        labels: Mapping[str, str] | None = None,
        seed_offset: int = 0,
    ) -> Model:
        """A trained model.

        Args:
            name: under which its checkpoints are kept.
            title: for people who watch.
            method: how it is trained; its stages are left aside.
            epochs: exactly so many; by default as many as the model itself gets, of which dev data chooses the best.
            supervision: what is known about sentences, by index.
            labels: other names of labels; those with the same name are learned as one.
            seed_offset: added to the seed; models with different ones differ.
        """


class CrossFit(Protocol):
    """Trains models that each leave out a fold, and asks them about what they have not seen."""

    def __call__(
        self,
        name: str,
        title: str,
        indices: Sequence[int],
        folds: int,
        predict: Callable[[Model, Sequence[int]], dict[str, Tensor]],
        *,
        train_on: Sequence[int] | None = None,
        predict_on: Sequence[int] | None = None,
        method: "Method | None" = None,
        supervision: Mapping[int, TokenSupervision] | None = None,
        labels: Mapping[str, str] | None = None,
        vary_seed: bool = False,
    ) -> list[dict[str, Tensor]]:
        """What ``predict`` returns for each fold; after an interruption, what it returned before.

        Args:
            name: under which checkpoints and results are kept.
            title: for people who watch.
            indices: of the sentences that are divided into folds; equal sentences are always in the same one.
            folds: how many, at least 2.
            predict: is given a model, and the indices of those sentences that it has not seen.
            train_on: indices of the sentences that models learn from, without their fold; by default all.
            predict_on: indices of the sentences that every model is asked about; by default its fold.
            method: how they are trained; by default the method itself. Its stages are left aside.
            supervision: what is known about sentences, by index.
            labels: other names of labels; those with the same name are learned as one.
            vary_seed: give each model a seed of its own, and more epochs if it learns from less than the model does.
        """


@dataclass(frozen=True)
class StageContext:
    """What a stage may do before the model itself is trained."""

    corpus: Corpus
    labels: Sequence[str]  # O first
    method: "Method"
    fit: Fit
    cross_fit: CrossFit
    cached: Callable[[str, Callable[[], dict[str, Tensor]]], dict[str, Tensor]]
    """``cached(name, compute)``: what ``compute()`` returns; after an interruption, what it returned before."""
    seed: int = 1  # of everything that a stage draws
    dev_score: Callable[[Model], float] | None = None
    """What a trained model reaches on the dev data, by the metric that chooses epochs; none: there is no dev data."""
    nested: bool = False  # whether the model has to find entities inside others
    run_tasks: Callable[[Mapping[str, Compute]], list[dict[str, Tensor]]] | None = None
    """Runs independent tasks; by default one after the other."""

    def cached_all(self, tasks: Mapping[str, Compute]) -> list[dict[str, Tensor]]:
        """What tasks return that do not depend on each other, by the names under which results are kept.

        They may run in other processes, several at a time, if they can be pickled: methods of the stage with
        :func:`functools.partial`, but no functions inside of functions.
        """
        if self.run_tasks is not None:
            return self.run_tasks(tasks)
        return [self.cached(name, compute) for name, compute in tasks.items()]


class Rival(NamedTuple):
    """A model that a stage has trained, and that may be as good as what learns from the stage."""

    name: str  # under which it was trained
    method: "Method"  # that it is a model of
    dev_score: float
    fit: Callable[[], Model]  # as it was trained; what is there already is not trained again


@dataclass(frozen=True)
class StageResult:
    """What a stage has found out.

    Attributes:
        tokens: about words, by the index of their sentence.
        spans: label probabilities of spans that the model shall learn.
        rest_as_negative: spans without such probabilities, in sentences that are not complete, are known to be no entity.
        clean_fraction: last part of training, in which the model reads complete sentences only.
        method: how the model itself is trained, if not as it was asked for.
        rival: is kept instead if it is better on the dev data.
        reports: records for people to look at, each list a JSON Lines file in the model folder; ``sentence`` is an index.
    """

    tokens: Mapping[int, TokenSupervision] = field(default_factory=dict)
    spans: SpanProbabilities | None = None
    rest_as_negative: bool = False
    clean_fraction: float = 0.0
    method: "Method | None" = None
    rival: Rival | None = None
    reports: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.reports:
            if not re.fullmatch(r"[a-z-]+", name) or name == "metrics":
                raise ValueError(f"a report cannot be called {name!r}; use lower-case letters and hyphens, not metrics")


class Stage(MethodPart, ABC):
    """What has to be found out before the model itself is trained?"""

    gives_tag_weights: ClassVar[bool] = False
    """Whether it says how much each tag of an untagged word counts."""
    gives_numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the numbers that it gives to words (``TokenSupervision.numbers``)."""

    @property
    def streams(self) -> bool:
        """Whether it can train models on a corpus on disk: it looks at sentences in turn, and keeps less than their words."""
        return False

    @abstractmethod
    def run(self, context: StageContext) -> StageResult | None:
        """Train whatever it takes, and say what is to be known about the sentences; none if there is nothing to say."""

    def next_round(self, context: StageContext, model: Model, number: int) -> StageResult | None:
        """What one more model shall learn, according to this one; none ends the rounds.

        Args:
            context: as for :meth:`run`.
            model: of the round before.
            number: of the next round, from 2.
        """
        return None
