"""Label probabilities from models that have not seen the sentences: each fold is predicted by a model of the others."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.inference.passages import cut_for_training
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.recognizer import Recognizer
from lacuner.supervision.posterior import SpanProbabilities, concatenate
from lacuner.training.checkpoints import RunFolder
from lacuner.training.cross_fit import Fold, cross_fit, plan_folds
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.settings import RunSettings

logger = logging.getLogger(__name__)

MIN_PROBABILITY = 0.02
"""Spans that are less probably an entity are not looked at, unless they are annotated."""


def predict_by_folds(
    corpus: Corpus,
    settings: RunSettings,
    folds: int,
    labels: Sequence[str],
    folder: Path | None = None,
    observer: Callable[[str], Observer | None] = lambda title: None,
) -> SpanProbabilities:
    """Train as many models as there are folds, each on the others, and ask them.

    Args:
        corpus: annotation with gaps.
        settings: how the models are trained.
        folds: how many, at least 2.
        labels: of the corpus, ``O`` first.
        folder: results are kept there, so that they need not be computed again after an interruption.
        observer: makes an observer for each training run.
    """
    plan = plan_folds(corpus, folds, settings.training.seed, range(len(corpus)))

    def seeded(fold: Fold) -> RunSettings:
        seed = settings.training.seed + fold.number - 1
        return settings.model_copy(update={"training": settings.training.model_copy(update={"seed": seed})})

    def part(fold: Fold) -> Corpus:
        return Corpus(tuple(corpus[index] for index in fold.train))

    def fit(fold: Fold) -> Model:
        out = None if folder is None else folder / f"model-{keys[fold.number][:12]}"
        title = f"fold {fold.number}/{folds}"
        trained = Recognizer.train(
            part(fold), settings=seeded(fold), out=out, resume=out is not None, observer=observer(title)
        )
        return trained.model

    def predict(model: Model, unseen: Sequence[int]) -> dict[str, Tensor]:
        return _predict(model, corpus, unseen, labels).tensors()

    def cached(name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        if folder is None:
            return compute()
        key = keys[int(name.rpartition("-")[2])]
        return RunFolder(folder, key).cached(name, compute, resume=True, fingerprint=key)

    keys = {
        fold.number: fingerprint(seeded(fold).model_dump_json(), [part(fold), corpus], settings.encoder.files)
        for fold in plan
    }
    found = cross_fit(corpus, plan, fit, predict, cached, "fold")
    return concatenate([SpanProbabilities.from_tensors(tensors) for tensors in found])


def predict_with(
    recognizer: Recognizer, corpus: Corpus, indices: Sequence[int], labels: Sequence[str]
) -> SpanProbabilities:
    """What a model says of sentences, in terms of ``labels``; those that it does not know have no probability."""
    return _predict(recognizer.model, corpus, indices, labels)


def _predict(model: Model, corpus: Corpus, indices: Sequence[int], labels: Sequence[str]) -> SpanProbabilities:
    """Probabilities of the spans of sentences; long ones are looked at in the passages that models are trained on."""
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
    """Probabilities with other columns."""
    table = np.zeros((len(found), len(labels)), dtype=np.float32)
    number = {label: index for index, label in enumerate(labels)}
    for column, label in enumerate(own):
        if label in number:
            table[:, number[label]] = found.probabilities[:, column]
    table[:, 0] += 1 - table.sum(1)  # a label that nobody asks for is no entity here
    return replace(found, probabilities=table)
