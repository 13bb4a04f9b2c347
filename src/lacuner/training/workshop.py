"""How a model is made: teachers first, if the method has them, then the model itself."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from accelerate import PartialState

from lacuner.corpus import OUTSIDE, Corpus
from lacuner.encoders import Encoder, RecurrentConfig, RecurrentEncoder, TransformerEncoder
from lacuner.encoders.vectors import choose_vectors
from lacuner.encoding.vocabulary import Vocabulary
from lacuner.errors import TrainingError
from lacuner.evaluation import Scores, score_entities
from lacuner.methods.composition import Teacher
from lacuner.methods.span_model import SpanModel
from lacuner.training.checkpoint import RunFolder
from lacuner.training.judging import average, batches_of, find_in, fit_threshold, join, judge, targets_of, weigh
from lacuner.training.lessons import Beliefs, Lessons
from lacuner.training.settings import RunSettings, TrainingConfig
from lacuner.training.trainer import CRITERIA, Observer, TrainingResult, fit

logger = logging.getLogger(__name__)

_LONGEST_SCHOOL = 2.0
"""Teachers learn from less than the model does, so they read it more often; at most so many times as often."""


@dataclass(frozen=True)
class Workshop:
    """Everything that a training needs."""

    corpus: Corpus
    dev: Corpus | None
    settings: RunSettings
    folder: RunFolder | None
    resume: bool
    observer: Observer

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """``O`` and the labels of the corpus."""
        return (OUTSIDE, *self.corpus.labels)

    def train(self) -> tuple[SpanModel, TrainingResult]:
        """The finished model, and how its training went."""
        teacher = self.settings.method.teacher
        lessons = Lessons(self.corpus, self.settings.training.seed, self.settings.trusted.share)
        unsure = self._places(complete=False)
        if teacher is None or not unsure or not self._can_teach(teacher):
            return self._fit("model", "", lessons)
        beliefs = self._ask_teachers(teacher, unsure)
        assert self.settings.training.epochs is not None
        finish = max(1, round((1 - teacher.finish) * self.settings.training.epochs))
        best: tuple[SpanModel, TrainingResult] | None = None
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

    def _ask_teachers(self, teacher: Teacher, unsure: list[int]) -> Beliefs:
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
        self, name: str, title: str, school: Corpus, training: TrainingConfig, judges: Callable[[SpanModel], Beliefs]
    ) -> Beliefs:
        """What a model that learns from ``school`` thinks; if it has said so before a kill, it is not trained again."""
        kept = self.folder.kept(name) if self.folder is not None and self.resume else None
        if kept is not None:
            return Beliefs(**{key: value.numpy() for key, value in kept.items()})
        model, _ = self._fit(name, title, Lessons(school, training.seed), training)
        beliefs = judges(model)
        if self.folder is not None and PartialState().is_main_process:
            self.folder.keep(name, {key: torch.from_numpy(value).clone() for key, value in vars(beliefs).items()})
        return beliefs

    def _places(self, complete: bool) -> list[int]:
        return [index for index, sentence in enumerate(self.corpus) if sentence.complete == complete]

    def _fit(
        self, name: str, title: str, lessons: Lessons, training: TrainingConfig | None = None
    ) -> tuple[SpanModel, TrainingResult]:
        """Train a model from fresh weights."""
        settings, dev = self.settings, self.dev
        training = training or settings.training
        criterion = CRITERIA[training.select]
        self.observer.stage_started(title)
        torch.manual_seed(training.seed)
        model = SpanModel(create_encoder(settings, lessons.corpus), settings.method, self.labels)

        def evaluate() -> Scores:
            assert dev is not None
            if training.fit_threshold:
                model.threshold, scores = fit_threshold(model, dev, criterion)
                return scores
            found = find_in(model, [sentence.tokens for sentence in dev])
            return score_entities(zip(dev, found, strict=True))

        result = fit(
            model,
            lessons,
            training,
            None if dev is None else evaluate,
            None if self.folder is None else self.folder.stage(name),
            self.resume,
            self.observer,
        )
        inference = settings.method.inference
        if inference is not None:
            sentences = lessons.corpus.sentences
            spans = (
                item
                for chosen, inputs in batches_of(model, sentences, range(len(sentences)))
                for item in model.hidden_layers(inputs, targets_of(model, [sentences[place] for place in chosen]))
            )
            model.memory = inference.remember(spans, len(model.labels))
        if training.fit_threshold and dev is not None:
            model.threshold, _ = fit_threshold(model, dev, criterion)
        return model, result


def _words(corpus: Corpus) -> int:
    return sum(map(len, corpus))


def create_encoder(settings: RunSettings, corpus: Corpus) -> Encoder:
    """An encoder that has not been trained on ``corpus`` yet, but knows its words."""
    config = settings.encoder
    if not isinstance(config, RecurrentConfig):
        return TransformerEncoder.create(config)
    sentences = [sentence.tokens for sentence in corpus]
    vectors = choose_vectors(config.vectors, sentences)
    vocabulary = Vocabulary.build(sentences, vectors.words if vectors else ())
    return RecurrentEncoder.create(config, vocabulary, vectors)
