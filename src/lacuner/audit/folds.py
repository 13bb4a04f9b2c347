"""What models think of sentences that they have not seen: each part of a corpus is judged by a model of the others."""

import logging
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lacuner.corpus import Corpus, Entity
from lacuner.errors import TrainingError
from lacuner.models.model import batches_of, evaluating
from lacuner.models.span_model import SpanModel
from lacuner.models.tag_model import TagModel
from lacuner.recognizer import Recognizer
from lacuner.training.epochs import SpanProbabilities
from lacuner.training.judging import join, judge
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.settings import RunSettings

logger = logging.getLogger(__name__)

LEAST = 0.02
"""Spans that are less probable are not worth a thought."""


def assign_folds(corpus: Corpus, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each sentence, by chance; sentences with the same words are in the same one."""
    groups: dict[tuple[str, ...], int] = {}
    group = np.array([groups.setdefault(tokens, len(groups)) for tokens in corpus.tokens], dtype=np.int64)
    order = np.random.default_rng([seed, 21]).permutation(len(groups))
    fold: npt.NDArray[np.int64] = (order % folds)[group] if groups else group
    return fold


def judge_by_folds(
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
        folder: what is done is kept there, so that it is not done again after a kill.
        observer: makes an observer for each training.
    """
    fold = assign_folds(corpus, folds, settings.training.seed)
    beliefs = []
    for number in range(folds):
        places = [place for place in np.flatnonzero(fold == number).tolist() if corpus[place].tokens]
        school = Corpus(tuple(corpus[place] for place in np.flatnonzero(fold != number).tolist()))
        if not places:
            continue
        if not any(sentence.entities for sentence in school):
            raise TrainingError(
                f"without fold {number + 1} of {folds} no annotated entity is left to learn from — annotate more"
            )
        seeded = settings.training.model_copy(update={"seed": settings.training.seed + number})
        chosen = settings.model_copy(update={"training": seeded})
        key = fingerprint(chosen.model_dump_json(), [school, corpus], chosen.encoder.files)
        kept = None if folder is None else folder / f"fold-{number + 1}.safetensors"
        known = _load(kept, key)
        if known is None:
            model = Recognizer.train(
                school,
                settings=chosen,
                out=None if folder is None else folder / f"model-{key[:12]}",
                resume=folder is not None,
                observer=observer(f"fold {number + 1}/{folds}"),
            )
            known = judge_with(model, corpus, places, labels)
            _save(kept, known, key)
        beliefs.append(known)
    return join(beliefs)


def judge_with(model: Recognizer, corpus: Corpus, places: Sequence[int], labels: Sequence[str]) -> SpanProbabilities:
    """What a model thinks of sentences, in terms of ``labels``; those that it does not know have no probability."""
    inner = model.model
    with torch.no_grad():
        if isinstance(inner, TagModel):
            found = _ask_tagger(inner, corpus, places)
        else:
            assert isinstance(inner, SpanModel)
            found = judge(inner, corpus, places, LEAST)
    table = np.zeros((len(found), len(labels)), dtype=np.float32)
    number = {label: index for index, label in enumerate(labels)}
    for column, label in enumerate(inner.labels):
        if label in number:
            table[:, number[label]] = found.probabilities[:, column]
    table[:, 0] += 1 - table.sum(1)  # a label that nobody asks for is no entity here
    return replace(found, probabilities=table)


def _ask_tagger(model: TagModel, corpus: Corpus, places: Sequence[int]) -> SpanProbabilities:
    """What a tagger finds and what is annotated, with the probabilities of their labels."""
    number = {label: index for index, label in enumerate(model.labels)}
    believed: dict[tuple[int, int, int], dict[int, float]] = {}
    with evaluating(model):
        for chosen, inputs in batches_of(model, corpus.tokens, places):
            found = [
                (place, entity) for place, row in zip(chosen, model.entities(inputs), strict=True) for entity in row
            ]
            for known in _layers([corpus[place].entities for place in chosen], number):
                scores = model.probabilities(inputs, known)
                found += [
                    (place, replace(entity, score=score))
                    for place, row, each in zip(chosen, known, scores, strict=True)
                    for entity, score in zip(row, each, strict=True)
                ]
            for place, entity in found:
                believed.setdefault((place, entity.start, entity.end), {})[number[entity.label]] = entity.score or 0.0
    rejected = {(place, span.start, span.end) for place in places for span in corpus[place].non_entities}
    keys = np.array(sorted(believed.keys() - rejected), dtype=np.int64).reshape(-1, 3)
    table = np.zeros((len(keys), len(number)), dtype=np.float32)
    for row, (sentence, start, end) in enumerate(keys.tolist()):
        for label, score in believed[sentence, start, end].items():
            table[row, label] = score
    table[:, 0] = 1 - table.sum(1)
    return SpanProbabilities(keys[:, 0], keys[:, 1], keys[:, 2], table)


def _layers(sentences: Sequence[Sequence[Entity]], known: Container[str]) -> Iterator[list[list[Entity]]]:
    """The entities of sentences that have a known label; those that overlap come one after the other."""
    left = [[entity for entity in entities if entity.label in known] for entities in sentences]
    while any(left):
        layer, later = [], []
        for entities in left:
            taken: list[Entity] = []
            for entity in entities:
                if not taken or taken[-1].end <= entity.start:
                    taken.append(entity)
            layer.append(taken)
            later.append([entity for entity in entities if entity not in taken])
        yield layer
        left = later


def _save(path: Path | None, beliefs: SpanProbabilities, key: str) -> None:
    if path is not None:
        unfinished = path.with_suffix(".tmp")
        tables = {name: np.ascontiguousarray(value) for name, value in vars(beliefs).items()}
        save_file(tables, unfinished, {"fingerprint": key})
        unfinished.replace(path)


def _load(path: Path | None, key: str) -> SpanProbabilities | None:
    """What is kept from before, if it is about the same."""
    if path is None or not path.is_file():
        return None
    from safetensors import safe_open

    try:
        with safe_open(path, "np") as file:
            if (file.metadata() or {}).get("fingerprint") != key:
                return None
        return SpanProbabilities(**load_file(path))
    except (SafetensorError, OSError):
        return None
