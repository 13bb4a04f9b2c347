"""Out-of-fold prediction: every sentence is looked at by a model that has not seen it.

Teachers, ``weighted-partial-crf`` and ``audit`` all do it this way: one assignment of folds, one cache, one way to resume.
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
    """Which sentences a model learns from, and which of the others it is asked about; both by index.

    Attributes:
        number: from 1.
        train: to learn from.
        held_out: to predict; none has the words of one in ``train``.
    """

    number: int
    train: tuple[int, ...]
    held_out: tuple[int, ...]


def assign_folds(corpus: Corpus, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each sentence, at random; sentences with the same words are in the same one."""
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
    """Divide sentences into folds; folds without any sentence to predict are left out.

    Sentences that are not divided are learned from by every model, unless they have the words of one that it leaves out.

    Args:
        corpus: all sentences.
        folds: how many, at least 2.
        seed: of the division.
        indices: of the sentences that are divided, and left out in turn.
        train_on: indices of the sentences that models learn from, each without its fold; by default all.
        predict_on: indices of the sentences that every model is asked about, unless it has learned from one with the same
            words; by default, each is asked about the sentences that it has left out.
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
    """What models predict of sentences that they have not seen, fold by fold; no task depends on another.

    Args:
        corpus: all sentences.
        folds: as :func:`plan_folds` divides it.
        fit: trains a model on a fold's sentences.
        predict: is given the model and the indices of the sentences that are held out.
        name: what results are kept under, with the fold's number.
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
