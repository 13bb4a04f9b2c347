"""Label probabilities from models that have not seen the sentences: each fold is predicted by a model of the others.

A dictionary labels the same names everywhere, and the same names nowhere. What a model says of a name that it was taught tells
nothing about how it scores the others. So each model also learns without the labels of some names: what it says of those shows
how a name scores that nobody has listed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.inference.passages import cut_for_training
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.recognizer import Recognizer
from lacuner.supervision.posterior import SpanProbabilities, concatenate
from lacuner.training.checkpoints import RunFolder
from lacuner.training.cross_fit import Fold, cross_fit, plan_folds
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.settings import RunSettings

MIN_PROBABILITY = 0.0005
"""Spans that are less probably an entity are not looked at, unless they are annotated."""
_GROUPS = 10
"""Names are divided into so many groups; each model learns without the labels of one of them."""
_ENOUGH_NAMES = 50
"""With fewer different names than that, models learn from all of them: there is nothing to spare."""


@dataclass(frozen=True, eq=False)
class FoldPredictions:
    """What models say of sentences that they have not seen.

    Attributes:
        spans: label probabilities of spans.
        new_names: ``(N,)`` bool: the model was taught no entity with the same words.
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
) -> FoldPredictions:
    """Train as many models as there are folds, each on the others and without the labels of some names, and ask them.

    Args:
        corpus: annotation with gaps.
        settings: how the models are trained.
        folds: how many, at least 2.
        labels: of the corpus, ``O`` first.
        folder: results are kept there, so that they need not be computed again after an interruption.
        observer: makes an observer for each training run.
    """
    plan = plan_folds(corpus, folds, settings.training.seed, range(len(corpus)))
    group = name_groups(corpus, settings.training.seed)

    def seeded(fold: Fold) -> RunSettings:
        seed = settings.training.seed + fold.number - 1
        return settings.model_copy(update={"training": settings.training.model_copy(update={"seed": seed})})

    parts = {
        fold.number: Corpus(
            tuple(without_names(corpus[index], group, (fold.number - 1) % _GROUPS) for index in fold.train)
        )
        for fold in plan
    }

    def fit(fold: Fold) -> Model:
        out = None if folder is None else folder / f"model-{keys[fold.number][:12]}"
        title = f"fold {fold.number}/{folds}"
        trained = Recognizer.train(
            parts[fold.number], settings=seeded(fold), out=out, resume=out is not None, observer=observer(title)
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
        fold.number: fingerprint(seeded(fold).model_dump_json(), [parts[fold.number], corpus], settings.encoder.files)
        for fold in plan
    }
    found = [
        SpanProbabilities.from_tensors(tensors) for tensors in cross_fit(corpus, plan, fit, predict, cached, "fold")
    ]
    taught = {
        index: names
        for fold in plan
        for names in [{_name(sentence, entity) for sentence in parts[fold.number] for entity in sentence.entities}]
        for index in fold.held_out
    }
    together = concatenate(found)
    new = [
        _name(corpus[index], Span(start, end)) not in taught[index] for index, start, end in together.spans().tolist()
    ]
    return FoldPredictions(together, np.array(new, dtype=bool))


def name_groups(corpus: Corpus, seed: int) -> dict[str, int]:
    """A group for each name that is annotated in a corpus, at random; none if there are too few names."""
    names = sorted({_name(sentence, entity) for sentence in corpus for entity in sentence.entities})
    if len(names) < _ENOUGH_NAMES:
        return {}
    order = np.random.default_rng([seed, 22]).permutation(len(names))
    return {name: int(place) % _GROUPS for name, place in zip(names, order, strict=True)}


def without_names(sentence: Sentence, group: Mapping[str, int], number: int) -> Sentence:
    """A sentence without the labels of the names of one group; a complete one as it is, for there they would be negatives."""
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
