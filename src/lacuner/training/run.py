"""How a model is made: teachers first, if the method has them, then the model itself."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from torch import Tensor

from lacuner.corpus import OUTSIDE, Corpus
from lacuner.errors import TrainingError
from lacuner.evaluation import Scores, score_entities
from lacuner.methods.composition import SpanMethod, Teacher
from lacuner.methods.method import Method
from lacuner.methods.tagging import Stage, StageContext, TokenMethod
from lacuner.models.build import build_model
from lacuner.models.model import Model, batches_of
from lacuner.models.span_model import SpanModel
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TokenSupervision
from lacuner.training.checkpoints import RunFolder
from lacuner.training.epochs import EpochSampler, SpanProbabilities
from lacuner.training.judging import average, find_in, fit_threshold, join, judge, targets_of, weigh
from lacuner.training.loop import CRITERIA, Observer, TrainingResult, fit
from lacuner.training.settings import RunSettings, TrainingConfig

logger = logging.getLogger(__name__)

_LONGEST_SCHOOL = 2.0
"""Teachers learn from less than the model does, so they read it more often; at most so many times as often."""


@dataclass(frozen=True)
class TrainingRun:
    """Everything that a training needs."""

    corpus: Corpus
    dev: Corpus | None
    settings: RunSettings
    folder: RunFolder | None
    resume: bool
    observer: Observer
    reports: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """What stages of training have found out, for people to look at."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """``O`` and the labels of the corpus."""
        return (OUTSIDE, *self.corpus.labels)

    def train(self) -> tuple[Model, TrainingResult]:
        """The finished model, and how its training went."""
        method = self.settings.method
        lessons = EpochSampler(self.corpus, self.settings.training.seed, self.settings.trusted.share)
        if isinstance(method, SpanMethod) and method.teacher is not None:
            return self._train_taught(method.teacher, lessons)
        if isinstance(method, TokenMethod) and method.stage is not None:
            return self._train_in_stages(method, method.stage, lessons)
        return self._fit("model", "", lessons)

    def _train_in_stages(
        self, method: TokenMethod, stage: Stage, lessons: EpochSampler
    ) -> tuple[Model, TrainingResult]:
        """A tagger, after its method has found out what it needs to know."""

        def fit(
            name: str,
            title: str,
            method: TokenMethod,
            places: Sequence[int] | None = None,
            epochs: int | None = None,
            advice: Mapping[int, TokenSupervision] | None = None,
        ) -> TagModel:
            chosen = range(len(self.corpus)) if places is None else places
            part = self.corpus if places is None else Corpus(tuple(self.corpus[place] for place in places))
            known = {number: advice[place] for number, place in enumerate(chosen) if advice and place in advice}
            lesson = replace(lessons, corpus=part, advice=known)
            training = self.settings.training.model_copy(update={} if epochs is None else {"epochs": epochs})
            model, _ = self._fit(name, title, lesson, training, method, judged=epochs is None)
            assert isinstance(model, TagModel)
            return model

        findings = stage.run(StageContext(self.corpus, method, self.settings.training.seed, fit, self._remember))
        self.reports.update(findings.reports)
        return self._fit("model", "", replace(lessons, advice=findings.advice))

    def _train_taught(self, teacher: Teacher, lessons: EpochSampler) -> tuple[Model, TrainingResult]:
        """A model that learns from what teachers think of the gaps, if there is something to teach and to learn."""
        unsure = self._places(complete=False)
        if not unsure or not self._can_teach(teacher):
            return self._fit("model", "", lessons)
        beliefs = self._ask_teachers(teacher, unsure)
        assert self.settings.training.epochs is not None
        finish = max(1, round((1 - teacher.finish) * self.settings.training.epochs))
        best: tuple[Model, TrainingResult] | None = None
        for number in range(1, teacher.rounds + 1):
            weighed = weigh(beliefs, self.corpus, self.labels, teacher)
            taught = replace(lessons, finish=finish, beliefs=weighed, settled=teacher.settled, labels=self.labels)
            again = number > 1
            model, result = self._fit(
                f"model-{number}" if again else "model", f"round {number}" if again else "", taught
            )
            if best is not None and result.best_quality <= best[1].best_quality and self.dev is not None:
                logger.info("Round %d is no better on the dev data than the one before, which is kept.", number)
                break
            best = model, result
            if number < teacher.rounds:
                assert isinstance(model, SpanModel)
                beliefs = judge(model, self.corpus, unsure, teacher.least, shifted=not teacher.settled)
        assert best is not None
        return best

    def _can_teach(self, teacher: Teacher) -> bool:
        """Whether the school has enough to teach with."""
        entities = sum(len(self.corpus[place].entities) for place in self._places(complete=True))
        if teacher.school == "all" or entities >= teacher.enough:
            return True
        if entities:
            logger.info(
                "Complete sentences hold %d entities; teachers need %d (teacher.enough), so there are none.",
                entities, teacher.enough,
            )  # fmt: skip
        return False

    def _ask_teachers(self, teacher: Teacher, unsure: list[int]) -> SpanProbabilities:
        """What models think of sentences that they have not seen."""
        trusted = self._places(complete=True)
        alone = teacher.school == "trusted"
        order = (
            np.random.default_rng([self.settings.training.seed, 3]).permutation(trusted if alone else unsure).tolist()
        )
        beliefs = []
        for fold in range(teacher.folds):
            away = sorted(order[fold :: teacher.folds])
            school = set(trusted if alone else range(len(self.corpus))) - set(away)
            corpus = Corpus(tuple(self.corpus[index] for index in sorted(school)))
            if not any(sentence.entities for sentence in corpus):
                raise TrainingError(
                    f"without fold {fold + 1} of {teacher.folds} no annotated entity is left to teach with — "
                    "annotate more, or train with --set teacher=none"
                )
            training = self.settings.training.stretched(min(_LONGEST_SCHOOL, _words(self.corpus) / _words(corpus)))
            training = training.model_copy(update={"seed": training.seed + fold})  # the more they differ, the better
            judged = unsure if alone else away
            judges = partial(judge, corpus=self.corpus, places=judged, least=teacher.least, shifted=not alone)
            beliefs.append(
                self._opinion(f"teacher-{fold + 1}", f"teacher {fold + 1}/{teacher.folds}", corpus, training, judges)
            )
        return average(beliefs) if alone else join(beliefs)

    def _opinion(
        self,
        name: str,
        title: str,
        school: Corpus,
        training: TrainingConfig,
        judges: Callable[[SpanModel], SpanProbabilities],
    ) -> SpanProbabilities:
        """What a model that learns from ``school`` thinks; if it has said so before a kill, it is not trained again."""

        def find_out() -> dict[str, Tensor]:
            model, _ = self._fit(name, title, EpochSampler(school, training.seed), training)
            assert isinstance(model, SpanModel)
            return {key: torch.from_numpy(value).clone() for key, value in vars(judges(model)).items()}

        return SpanProbabilities(**{key: value.numpy() for key, value in self._remember(name, find_out).items()})

    def _remember(self, name: str, find_out: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """What a stage finds out; if it has done so before a kill, what it found out then."""
        kept = self.folder.kept(name) if self.folder is not None and self.resume else None
        if kept is not None:
            return kept
        found = find_out()
        if self.folder is not None and PartialState().is_main_process:
            self.folder.keep(name, found)
        return found

    def _places(self, complete: bool) -> list[int]:
        return [index for index, sentence in enumerate(self.corpus) if sentence.complete == complete]

    def _fit(
        self,
        name: str,
        title: str,
        lessons: EpochSampler,
        training: TrainingConfig | None = None,
        method: Method | None = None,
        judged: bool = True,
    ) -> tuple[Model, TrainingResult]:
        """Train a model from fresh weights; unless dev data judges it, its last epoch is kept."""
        dev = self.dev
        training, method = training or self.settings.training, method or self.settings.method
        criterion = CRITERIA[training.select]
        self.observer.stage_started(title)
        torch.manual_seed(training.seed)
        model = build_model(self.settings.encoder.create(lessons.corpus.tokens), method, self.labels)

        def evaluate() -> Scores:
            assert dev is not None
            if training.fit_threshold and isinstance(model, SpanModel):
                model.threshold, scores = fit_threshold(model, dev, criterion)
                return scores
            found = find_in(model, [sentence.tokens for sentence in dev])
            return score_entities(zip(dev, found, strict=True))

        result = fit(
            model,
            lessons,
            training,
            evaluate if dev is not None and judged else None,
            None if self.folder is None else self.folder.stage(name),
            self.resume,
            self.observer,
        )
        if isinstance(model, SpanModel):
            if model.method.inference is not None:
                model.memory = model.method.inference.remember(_hidden_layers(model, lessons.corpus), len(model.labels))
            if training.fit_threshold and dev is not None:
                model.threshold, _ = fit_threshold(model, dev, criterion)
        return model, result


def _hidden_layers(model: SpanModel, corpus: Corpus) -> Iterator[tuple[Tensor, Tensor]]:
    """Hidden layers and label numbers of all spans of a corpus, some at a time."""
    for chosen, inputs in batches_of(model, corpus.tokens, range(len(corpus))):
        yield from model.hidden_layers(inputs, targets_of(model, [corpus[place] for place in chosen]))


def _words(corpus: Corpus) -> int:
    return sum(map(len, corpus))
