"""Stages: what happens before the model itself is trained, such as teachers, voters, or an ensemble that it learns from."""

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
