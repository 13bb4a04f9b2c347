"""Out-of-fold label probabilities: each fold is predicted by a model trained on the others.

A dictionary labels the same names everywhere, so the score of a name that the model was trained on says nothing about how
unlisted names score. Therefore each model is also trained without the labels of some names: its predictions for these show
how names score that are not listed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.inference.passages import cut_for_training
from lacuner.methods.stages import Compute
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.recognizer import Recognizer
from lacuner.supervision.posterior import SpanProbabilities, concatenate
from lacuner.training.checkpoints import RunFolder
from lacuner.training.cross_fit import Fold, fold_tasks, plan_folds
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.settings import RunSettings
from lacuner.training.tasks import run_tasks

MIN_PROBABILITY = 0.0005
"""Minimum entity probability of unannotated spans."""
_GROUPS = 10
"""Number of groups of names; each model is trained without the labels of one group."""
_ENOUGH_NAMES = 50
"""With fewer distinct names, models are trained on all of them."""
_NAME = "fold"
_RESUMING = "run the same command again to resume"


@dataclass(frozen=True, eq=False)
class FoldPredictions:
    """Out-of-fold predictions.

    Attributes:
        spans: label probabilities of spans.
        new_names: ``(N,)`` bool: the model was trained on no entity with the same words.
    """

    spans: SpanProbabilities
    new_names: npt.NDArray[np.bool_]


def predict_by_folds(
    corpus: Corpus,
    settings: RunSettings,
    folds: int,
    labels: Sequence[str],
    folder: Path | None = None,
    observer: Callable[[str], Observer | None] = lambda title: None,
    workers: int = 1,
) -> FoldPredictions:
    """Train a model for each fold, on the other folds and without the labels of some names, and predict the fold.

    Args:
        corpus: incomplete annotation.
        settings: how the models are trained.
        folds: number of folds, at least 2.
        labels: of the corpus, ``O`` first.
        folder: where models and predictions are stored, so that an interrupted audit can be resumed.
        observer: makes an observer for each training run.
        workers: models trained in parallel, each in its own process, without progress display.
    """
    plan = plan_folds(corpus, folds, settings.training.seed, range(len(corpus)))
    models = _FoldModels(corpus, settings, folds, labels, name_groups(corpus, settings.training.seed), folder, observer)
    tasks = fold_tasks(corpus, plan, models.fit, models.predict, _NAME)
    keep = _Keep(folder, {f"{_NAME}-{fold.number}": models.key(fold) for fold in plan})
    found = [
        SpanProbabilities.from_tensors(tensors) for tensors in run_tasks(tasks, keep, workers, keep.has, _RESUMING)
    ]
    taught = {
        index: names
        for fold in plan
        for names in [{_name(sentence, entity) for sentence in models.part(fold) for entity in sentence.entities}]
        for index in fold.held_out
    }
    together = concatenate(found)
    new = [
        _name(corpus[index], Span(start, end)) not in taught[index] for index, start, end in together.spans().tolist()
    ]
    return FoldPredictions(together, np.array(new, dtype=bool))


@dataclass(frozen=True)
class _FoldModels:
    """Trains the models of folds, possibly in other processes, and predicts with them; see :func:`predict_by_folds`."""

    corpus: Corpus
    settings: RunSettings
    folds: int
    labels: Sequence[str]
    group: Mapping[str, int]
    folder: Path | None
    observer: Callable[[str], Observer | None]

    def part(self, fold: Fold) -> Corpus:
        """Training data of a fold's model."""
        number = (fold.number - 1) % _GROUPS
        return Corpus(tuple(without_names(self.corpus[index], self.group, number) for index in fold.train))

    def seeded(self, fold: Fold) -> RunSettings:
        """Training settings of a fold's model."""
        training = self.settings.training
        seed = training.seed + fold.number - 1
        return self.settings.model_copy(update={"training": training.model_copy(update={"seed": seed})})

    def key(self, fold: Fold) -> str:
        """Hash that identifies predictions by settings and data."""
        given = [self.part(fold), self.corpus]
        return fingerprint(self.seeded(fold).model_dump_json(), given, self.settings.encoder.files)

    def fit(self, fold: Fold) -> Model:
        """Train the model of a fold."""
        out = None if self.folder is None else self.folder / f"model-{self.key(fold)[:12]}"
        observer = self.observer(f"fold {fold.number}/{self.folds}")
        resume = out is not None
        return Recognizer.train(
            self.part(fold), settings=self.seeded(fold), out=out, resume=resume, observer=observer
        ).model

    def predict(self, model: Model, unseen: Sequence[int]) -> dict[str, Tensor]:
        """Predict sentences."""
        return _predict(model, self.corpus, unseen, self.labels).tensors()

    def __getstate__(self) -> dict[str, Any]:
        """State for another process, which displays nothing."""
        return vars(self) | {"observer": _nobody}


@dataclass(frozen=True)
class _Keep:
    """Stores the predictions of folds with their keys; those of other settings or data are ignored."""

    folder: Path | None
    keys: Mapping[str, str]

    def __call__(self, name: str, compute: Compute) -> dict[str, Tensor]:
        if self.folder is None:
            return compute()
        key = self.keys[name]
        return RunFolder(self.folder, key).cached(name, compute, resume=True, fingerprint=key)

    def has(self, name: str) -> bool:
        """Whether matching predictions are stored already."""
        key = self.keys[name]
        return self.folder is not None and RunFolder(self.folder, key).has_result(name, key)


def _nobody(title: str) -> Observer | None:
    return None


def name_groups(corpus: Corpus, seed: int) -> dict[str, int]:
    """Randomly assign each name annotated in a corpus to a group; empty if there are too few names."""
    names = sorted({_name(sentence, entity) for sentence in corpus for entity in sentence.entities})
    if len(names) < _ENOUGH_NAMES:
        return {}
    order = np.random.default_rng([seed, 22]).permutation(len(names))
    return {name: int(place) % _GROUPS for name, place in zip(names, order, strict=True)}


def without_names(sentence: Sentence, group: Mapping[str, int], number: int) -> Sentence:
    """Remove the labels of one group's names from a sentence; a complete one is unchanged, as they would become negatives."""
    if sentence.complete or not group:
        return sentence

    def kept(entities: Sequence[Entity]) -> tuple[Entity, ...]:
        return tuple(entity for entity in entities if group.get(_name(sentence, entity)) != number)

    said = tuple(replace(each, entities=kept(each.entities)) for each in sentence.by_source)
    return replace(sentence, entities=kept(sentence.entities), by_source=said)


def _name(sentence: Sentence, span: Span | Entity) -> str:
    return " ".join(sentence.tokens[span.start : span.end])


def predict_with(
    recognizer: Recognizer, corpus: Corpus, indices: Sequence[int], labels: Sequence[str]
) -> SpanProbabilities:
    """Predict sentences in terms of ``labels``; labels unknown to the model have probability 0."""
    return _predict(recognizer.model, corpus, indices, labels)


def _predict(model: Model, corpus: Corpus, indices: Sequence[int], labels: Sequence[str]) -> SpanProbabilities:
    """Probabilities of the spans of sentences; long ones are split into passages, as in training."""
    passages = cut_for_training(Corpus(tuple(corpus[index] for index in indices)))
    found = predict_proba(model, passages.corpus, range(len(passages.corpus)), MIN_PROBABILITY)
    origin = np.array(passages.origin, dtype=np.int64).reshape(-1, 2)[found.sentence]  # (N, 2)
    located = SpanProbabilities(
        np.array(indices, dtype=np.int64)[origin[:, 0]],
        found.start + origin[:, 1],
        found.end + origin[:, 1],
        found.probabilities,
    )
    return _with_labels(located, model.labels, labels)


def _with_labels(found: SpanProbabilities, own: Sequence[str], labels: Sequence[str]) -> SpanProbabilities:
    """Rearrange probabilities to other columns."""
    table = np.zeros((len(found), len(labels)), dtype=np.float32)
    number = {label: index for index, label in enumerate(labels)}
    for column, label in enumerate(own):
        if label in number:
            table[:, number[label]] = found.probabilities[:, column]
    table[:, 0] += 1 - table.sum(1)  # a label that is not asked for is O here
    return replace(found, probabilities=table)
