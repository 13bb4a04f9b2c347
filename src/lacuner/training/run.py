"""A training run: the stages of the method first, then the model itself."""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lacuner.corpus import OUTSIDE, Corpus
from lacuner.encoders.device import default_device
from lacuner.encoders.processes import Processes
from lacuner.evaluation import Scores, score_entities
from lacuner.inference.predict import find_entities
from lacuner.inference.span_filter import fit_span_filter
from lacuner.inference.threshold import fit_threshold
from lacuner.methods.method import Method
from lacuner.methods.stages import Compute, Rival, Stage, StageContext, StageResult
from lacuner.models.model import Model
from lacuner.models.span_model import SpanModel
from lacuner.supervision.tags import TokenSupervision
from lacuner.training.checkpoints import RunFolder
from lacuner.training.cross_fit import Fold, fold_tasks, plan_folds
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import METRICS, Observer, TrainingResult, fit
from lacuner.training.settings import RunSettings, TrainingConfig
from lacuner.training.streaming import refuse_other_models
from lacuner.training.tasks import run_tasks

logger = logging.getLogger(__name__)

_MAX_STRETCH = 2.0
"""Maximum factor on the epochs of a stage's models that train on less data than the final model."""


class Trained(NamedTuple):
    """A trained model, its training history, and the method actually used: as configured, or as chosen by a stage."""

    model: Model
    result: TrainingResult
    method: Method
    name: str = "model"
    """Which of the models trained it is: ``model``, that of a later round, or one of a stage."""


@dataclass(frozen=True)
class TrainingRun:
    """Everything needed to train a model."""

    corpus: Corpus
    dev: Corpus | None
    settings: RunSettings
    folder: RunFolder | None
    resume: bool
    observer: Observer
    workers: int = 1
    """Number of a stage's models trained in parallel."""
    reports: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """Reports of stages, for inspection."""
    stage_models: dict[str, Trained] = field(default_factory=dict)
    """Models trained by stages in this process, by name; those not needed by a stage's result are discarded."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """``O`` and the labels of the corpus."""
        return (OUTSIDE, *self.corpus.labels)

    @cached_property
    def _sampler(self) -> EpochSampler:
        return EpochSampler(self.corpus, self.settings.training.seed, self.settings.trusted.fraction)

    def train(self) -> Trained:
        """Run the stages of the method, then train the model itself."""
        sampler, taught, method = self._sampler, [], self.settings.method
        rivals: list[Rival] = []
        for stage in self.settings.method.stages():
            found = stage.run(self._context(stage))
            if found is not None:
                sampler = self._with(sampler, found)
                taught.append(stage)
                method = found.method or method
                rivals += [] if found.rival is None else [found.rival]
            self._forget_models({rival.name for rival in rivals})
        trained = Trained(*self._fit("model", "", sampler, method=method), method)
        for stage in taught:
            trained = self._rounds(stage, trained)
        for rival in rivals:
            trained = self._better(trained, rival)
        if isinstance(trained.model, SpanModel):
            fit_span_filter(trained.model, self.corpus.tokens, () if self.dev is None else self.dev.tokens)
        return trained

    def _context(self, stage: Stage) -> StageContext:
        return StageContext(
            self.corpus,
            self.labels,
            self.settings.method,
            partial(self._fit_for_stage, stage),
            partial(self._cross_fit, stage),
            self._cached,
            self.settings.training.seed,
            None if self.dev is None else partial(self._score, self.dev),
            self.settings.training.nested,
            self._run_tasks,
        )

    def _rounds(self, stage: Stage, trained: Trained) -> Trained:
        """Train a sequence of models, each taught by the previous one, and return the best."""
        context, number = self._context(stage), 2
        while (found := stage.next_round(context, trained.model, number)) is not None:
            sampler = self._with(self._sampler, found)
            name = f"model-{number}"
            model, result = self._fit(name, f"round {number}", sampler, method=trained.method)
            if result.best_quality <= trained.result.best_quality and self.dev is not None:
                logger.info("Round %d is no better on the dev data than the previous one, which is kept.", number)
                break
            trained, number = Trained(model, result, trained.method, name), number + 1
        return trained

    def _forget_models(self, needed: Set[str]) -> None:
        for name in self.stage_models.keys() - needed:
            del self.stage_models[name]

    def _better(self, trained: Trained, rival: Rival) -> Trained:
        """Return the model, or the rival if that is better on the dev data."""
        if self.dev is None or self._score(self.dev, trained.model) >= rival.dev_score:
            return trained
        logger.info("A model that was trained first is better on the dev data than the one taught by it, and is kept.")
        rival.fit()  # from its last checkpoint, or from memory
        return self.stage_models[rival.name]._replace(method=rival.method)

    def _with(self, sampler: EpochSampler, found: StageResult) -> EpochSampler:
        """Apply the result of a stage to the sampler."""
        self.reports.update(found.reports)
        if found.tokens:
            sampler = replace(sampler, supervision=found.tokens)
        if found.spans is None:
            return sampler
        epochs = self.settings.training.epochs
        assert epochs is not None
        return replace(
            sampler,
            posterior=found.spans,
            rest_as_negative=found.rest_as_negative,
            labels=self.labels,
            clean_from=max(1, round((1 - found.clean_fraction) * epochs)),
        )

    def _fit_for_stage(
        self,
        stage: Stage,
        name: str,
        title: str,
        method: Method,
        *,
        epochs: int | None = None,
        supervision: Mapping[int, TokenSupervision] | None = None,
        labels: Mapping[str, str] | None = None,
        seed_offset: int = 0,
    ) -> Model:
        """See :class:`lacuner.methods.stages.Fit`."""
        refuse_other_models(self.corpus, stage, title)
        if name in self.stage_models:
            return self.stage_models[name].model
        if labels is not None:
            run, method = self._with_labels(labels, method)
            fit = partial(run._fit_for_stage, stage, epochs=epochs, supervision=supervision, seed_offset=seed_offset)
            return fit(name, title, method)
        seed = self.settings.training.seed + seed_offset
        sampler = replace(self._sampler, seed=seed, supervision=supervision or {})
        changed = {"seed": seed} if epochs is None else {"seed": seed, "epochs": epochs}
        training = self.settings.training.model_copy(update=changed)
        model, result = self._fit(name, title, sampler, training, method, use_dev=epochs is None, resume=True)
        self.stage_models[name] = Trained(model, result, method, name)
        return model

    def _cross_fit(
        self,
        stage: Stage,
        name: str,
        title: str,
        indices: Sequence[int],
        folds: int,
        predict: Callable[[Model, Sequence[int]], dict[str, Tensor]],
        *,
        train_on: Sequence[int] | None = None,
        predict_on: Sequence[int] | None = None,
        method: Method | None = None,
        supervision: Mapping[int, TokenSupervision] | None = None,
        labels: Mapping[str, str] | None = None,
        vary_seed: bool = False,
    ) -> list[dict[str, Tensor]]:
        """See :class:`lacuner.methods.stages.CrossFit`."""
        refuse_other_models(self.corpus, stage, title)
        if labels is not None:
            run, method = self._with_labels(labels, method or self.settings.method)
            folds_of = partial(run._cross_fit, stage, train_on=train_on, predict_on=predict_on, vary_seed=vary_seed)
            return folds_of(name, title, indices, folds, predict, method=method, supervision=supervision)
        plan = plan_folds(self.corpus, folds, self.settings.training.seed, indices, train_on, predict_on)

        fit_fold = partial(self._fit_fold, name, f"{title} {{}}/{folds}", method, supervision or {}, vary_seed)
        return self._run_tasks(fold_tasks(self.corpus, plan, fit_fold, predict, name))

    def _fit_fold(
        self,
        name: str,
        title: str,
        method: Method | None,
        supervision: Mapping[int, TokenSupervision],
        vary_seed: bool,
        fold: Fold,
    ) -> Model:
        """Train a model on a fold; see :meth:`_cross_fit`. ``title`` has a placeholder for its number."""
        part = Corpus(tuple(self.corpus[index] for index in fold.train))
        training = self.settings.training
        sampler = replace(self._sampler, corpus=part)
        if vary_seed:  # the more the models differ, the better their mean
            training = training.stretched(min(_MAX_STRETCH, _words(self.corpus) / _words(part)))
            training = training.model_copy(update={"seed": training.seed + fold.number - 1})
            sampler = EpochSampler(part, training.seed)
        numbered = {number: supervision[index] for number, index in enumerate(fold.train) if index in supervision}
        sampler = replace(sampler, supervision=numbered)
        return self._fit(f"{name}-{fold.number}", title.format(fold.number), sampler, training, method)[0]

    def _run_tasks(self, tasks: Mapping[str, Compute]) -> list[dict[str, Tensor]]:
        """See :meth:`lacuner.methods.stages.StageContext.cached_all`."""
        known = self.folder if self.resume else None
        return run_tasks(tasks, self._cached, self.workers, lambda name: known is not None and known.has_result(name))

    def __getstate__(self) -> dict[str, Any]:
        """State for a task's process, which trains one model and displays nothing."""
        return vars(self) | {"observer": Observer(), "workers": 1, "stage_models": {}}

    def _with_labels(self, labels: Mapping[str, str], method: Method) -> "tuple[TrainingRun, Method]":
        """Return the same run on relabeled data, and the method adapted to it."""
        dev = None if self.dev is None else self.dev.rename_labels(labels)
        run = replace(self, corpus=self.corpus.rename_labels(labels), dev=dev)
        return run, method.for_data(self.settings.training_data(run.corpus, dev))

    def _score(self, dev: Corpus, model: Model) -> float:
        """Score of a trained model with its own threshold, by the metric that selects epochs."""
        nested = self.settings.training.nested and model.finds_nested
        found = find_entities(model, dev.tokens, nested, processes=Processes.join(default_device()))
        return METRICS[self.settings.training.metric](score_entities(zip(dev, found, strict=True)))

    def _cached(self, name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return ``compute()``, or its stored result after an interruption."""
        return compute() if self.folder is None else self.folder.cached(name, compute, self.resume)

    def _fit(
        self,
        name: str,
        title: str,
        sampler: EpochSampler,
        training: TrainingConfig | None = None,
        method: Method | None = None,
        use_dev: bool = True,
        resume: bool = False,
    ) -> tuple[Model, TrainingResult]:
        """Train a newly initialized model; without dev data, keep its last epoch.

        ``resume`` continues from the last checkpoint even if the run itself is not resumed: then its folder was written by
        this run.
        """
        dev = self.dev if use_dev else None
        training, method = training or self.settings.training, method or self.settings.method
        metric, processes = METRICS[training.metric], Processes.join(default_device())
        self.observer.stage_started(title)
        torch.manual_seed(training.seed)
        model = method.build_model(self.settings.encoder.create(sampler.corpus.tokens), self.labels)
        nested = training.nested and model.finds_nested  # a stage may train a tagger

        def choose_threshold(dev: Corpus) -> Scores:
            quality = lambda pairs: metric(score_entities(pairs))  # noqa: E731
            return score_entities(fit_threshold(model, dev, quality, nested, processes))

        def evaluate() -> Scores:
            assert dev is not None
            if training.fit_threshold:
                return choose_threshold(dev)
            found = find_entities(model, dev.tokens, nested, processes=processes)
            return score_entities(zip(dev, found, strict=True))

        result = fit(
            model,
            method,
            sampler,
            training,
            None if dev is None else evaluate,
            None if self.folder is None else self.folder.stage(name),
            resume or self.resume,
            self.observer,
        )
        method.finish_training(model, sampler.corpus)
        if training.fit_threshold and self.dev is not None:
            choose_threshold(self.dev)
        return model, result


def _words(corpus: Corpus) -> int:
    return sum(map(len, corpus))
