"""Out-of-fold prediction: every sentence is predicted by a model that has not seen it.

Shared by teachers, ``weighted-partial-crf`` and ``audit``: one fold assignment, one cache, one way to resume.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.errors import TrainingError
from lacuner.models.model import Model


@dataclass(frozen=True)
class Fold:
    """Training and held-out sentences of a fold, by index.

    Attributes:
        number: from 1.
        train: sentences to train on.
        held_out: sentences to predict; none has the same words as one in ``train``.
    """

    number: int
    train: tuple[int, ...]
    held_out: tuple[int, ...]


def assign_folds(corpus: Corpus, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Assign each sentence to a random fold; sentences with the same words share one."""
    groups: dict[tuple[str, ...], int] = {}
    group = np.array([groups.setdefault(tokens, len(groups)) for tokens in corpus.tokens], dtype=np.int64)
    order = np.random.default_rng([seed, 21]).permutation(len(groups))
    fold: npt.NDArray[np.int64] = (order % folds)[group] if groups else group
    return fold


def plan_folds(
    corpus: Corpus,
    folds: int,
    seed: int,
    indices: Sequence[int],
    train_on: Sequence[int] | None = None,
    predict_on: Sequence[int] | None = None,
) -> list[Fold]:
    """Divide sentences into folds; folds without sentences to predict are omitted.

    Sentences that are not divided are in every model's training data, unless they have the same words as a held-out sentence.

    Args:
        corpus: all sentences.
        folds: number of folds, at least 2.
        seed: of the fold assignment.
        indices: sentences to divide and hold out in turn.
        train_on: sentences to train on, minus the held-out fold; all by default.
        predict_on: sentences that every model predicts, except those with the same words as one of its training sentences; by
            default its held-out fold.
    """
    fold = assign_folds(Corpus(tuple(corpus[index] for index in indices)), folds, seed)
    learned = range(len(corpus)) if train_on is None else train_on
    planned = []
    for number in range(folds):
        asked = [index for index, own in zip(indices, fold.tolist(), strict=True) if own == number]
        left_out = {corpus.tokens[index] for index in asked}
        train = tuple(index for index in learned if corpus.tokens[index] not in left_out)
        if predict_on is not None:
            known = {corpus.tokens[index] for index in train}
            asked = [index for index in predict_on if corpus.tokens[index] not in known]
        held_out = tuple(sorted(index for index in asked if corpus.tokens[index]))
        if held_out:
            planned.append(Fold(number + 1, train, held_out))
    return planned


def fold_tasks(
    corpus: Corpus,
    folds: Sequence[Fold],
    fit: Callable[[Fold], Model],
    predict: Callable[[Model, Sequence[int]], dict[str, Tensor]],
    name: str,
) -> dict[str, Callable[[], dict[str, Tensor]]]:
    """Independent tasks that each train on a fold and predict its held-out sentences.

    Args:
        corpus: all sentences.
        folds: as returned by :func:`plan_folds`.
        fit: trains a model on a fold.
        predict: takes the model and the indices of the held-out sentences.
        name: prefix of result keys, followed by the fold's number.
    """
    for fold in folds:
        if not any(corpus[index].entities for index in fold.train):
            raise TrainingError(
                f"without fold {fold.number} of {len(folds)} no annotated entity is left to learn from — "
                "annotate more sentences, or choose a method without folds (teacher=none, stage=none, --method crf)"
            )
    return {f"{name}-{fold.number}": partial(_compute, fit, predict, fold) for fold in folds}


def _compute(
    fit: Callable[[Fold], Model], predict: Callable[[Model, Sequence[int]], dict[str, Tensor]], fold: Fold
) -> dict[str, Tensor]:
    return predict(fit(fold), fold.held_out)
