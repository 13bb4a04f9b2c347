"""Stages: computation before the model itself is trained, such as teachers, voters, or an ensemble to distill."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.methods.parts import MethodPart
from lacuner.models.model import Model
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.supervision.tags import TokenSupervision

if TYPE_CHECKING:
    from lacuner.methods.method import Method

Compute = Callable[[], dict[str, Tensor]]
"""Part of a stage's work, whose result is cached."""


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
        """Train a model.

        Args:
            name: key of its checkpoints.
            title: shown as progress.
            method: the method to train; its stages are skipped.
            epochs: exactly this many; by default as many as the final model gets, with the best chosen on dev data.
            supervision: known facts about sentences, by index.
            labels: maps labels to other names; labels mapped to the same name are merged.
            seed_offset: added to the seed, to make models differ.
        """


class CrossFit(Protocol):
    """Trains models on all but one fold each, and predicts the held-out fold."""

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
        """Return the result of ``predict`` for each fold; cached, so that an interrupted run resumes.

        Args:
            name: key of checkpoints and results.
            title: shown as progress.
            indices: sentences to divide into folds; equal sentences always share a fold.
            folds: number of folds, at least 2.
            predict: takes a model and the indices of held-out sentences.
            train_on: sentences to train on, minus the held-out fold; all by default.
            predict_on: sentences that every model predicts; its held-out fold by default.
            method: the method to train, the current one by default; its stages are skipped.
            supervision: known facts about sentences, by index.
            labels: maps labels to other names; labels mapped to the same name are merged.
            vary_seed: give each model its own seed, and more epochs if it trains on less data than the final model.
        """


@dataclass(frozen=True)
class StageContext:
    """Data and services available to a stage before the model itself is trained."""

    corpus: Corpus
    labels: Sequence[str]  # O first
    method: "Method"
    fit: Fit
    cross_fit: CrossFit
    cached: Callable[[str, Callable[[], dict[str, Tensor]]], dict[str, Tensor]]
    """``cached(name, compute)`` returns ``compute()``, or its stored result after an interruption."""
    seed: int = 1  # seeds all random choices of the stage
    dev_score: Callable[[Model], float] | None = None
    """Score of a trained model on the dev data, by the metric that selects epochs; None if there is no dev data."""
    nested: bool = False  # whether the model must find nested entities
    run_tasks: Callable[[Mapping[str, Compute]], list[dict[str, Tensor]]] | None = None
    """Runs independent tasks; sequentially by default."""

    def cached_all(self, tasks: Mapping[str, Compute]) -> list[dict[str, Tensor]]:
        """Return the results of independent tasks, each cached under its name.

        Tasks may run in parallel in other processes, so they must be picklable: methods of the stage wrapped in
        :func:`functools.partial`, not nested functions.
        """
        if self.run_tasks is not None:
            return self.run_tasks(tasks)
        return [self.cached(name, compute) for name, compute in tasks.items()]


class Rival(NamedTuple):
    """A model trained by a stage that may be as good as the final model trained on the stage's result."""

    name: str  # key under which it was trained
    method: "Method"  # the method it was trained with
    dev_score: float
    fit: Callable[[], Model]  # returns the trained model; a finished training run is reused


@dataclass(frozen=True)
class StageResult:
    """The outcome of a stage.

    Attributes:
        tokens: word-level supervision, by sentence index.
        spans: label probabilities of spans, used as soft targets.
        rest_as_negative: in incomplete sentences, treat spans without such probabilities as known negatives.
        clean_fraction: last fraction of training, in which only complete sentences are used.
        method: the method for the final model, if not the configured one.
        rival: kept instead of the final model if it is better on the dev data.
        reports: records for inspection, each list written as JSON Lines to the model folder; ``sentence`` is an index.
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
    """What has to be computed before the model itself is trained?"""

    gives_tag_weights: ClassVar[bool] = False
    """Whether it provides tag weights for unlabeled words."""
    gives_numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the per-word numbers that it provides (``TokenSupervision.numbers``)."""

    @property
    def streams(self) -> bool:
        """Whether it works with a corpus on disk: reads sentences in sequence and keeps less in memory than their words."""
        return False

    @abstractmethod
    def run(self, context: StageContext) -> StageResult | None:
        """Run the stage and return its result, or None if there is nothing to report."""

    def next_round(self, context: StageContext, model: Model, number: int) -> StageResult | None:
        """Return supervision for another model, derived from the current one; None ends the rounds.

        Args:
            context: as for :meth:`run`.
            model: the model of the previous round.
            number: number of the next round, from 2.
        """
        return None
