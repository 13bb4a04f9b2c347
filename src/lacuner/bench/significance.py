"""Significance of differences between methods: paired bootstrap over test sentences, and Student's t over seeds.

Three seeds are too few to be resampled: if all of them agree in sign, so do all resamples, and equal methods agree so much
in one case of four. So the mean over seeds varies as that of as many normal values whose variance is unknown.

Koehn: *Statistical Significance Tests for Machine Translation Evaluation*, EMNLP 2004; Berg-Kirkpatrick, Burkett, Klein: *An
Empirical Investigation of Statistical Significance in NLP*, EMNLP 2012.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import comparable_entities

RESAMPLES = 2000
_CHUNK = 200
"""Number of resamples drawn at a time."""

Numbers = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.float64]
"""Correct, predicted and annotated entities of each sentence: ``(S, 3)``."""


def sentence_counts(pairs: Iterable[tuple[Sentence, Iterable[Entity]]]) -> dict[str, Numbers]:
    """Numbers of correct, predicted and annotated entities of each sentence: ``(S,)`` each."""
    rows = []
    for sentence, found in pairs:
        gold, guesses = comparable_entities(sentence, found)
        rows.append((len(gold & guesses), len(guesses), len(gold)))
    table = np.array(rows, dtype=np.uint16).reshape(-1, 3)
    return dict(zip(("correct", "predicted", "support"), table.T, strict=True))


def pack(counts: Numbers) -> str:
    """Encode small numbers as a short text."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode("ascii")


def unpack(text: str) -> Numbers:
    """Decode the result of :func:`pack`.

    >>> unpack(pack(np.array([0, 3, 1], dtype=np.uint16))).tolist()
    [0, 3, 1]
    """
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")


@dataclass(frozen=True)
class Difference:
    """Difference between two methods.

    Attributes:
        f1: difference of F1, mean over seeds.
        low: of the 95 % interval.
        high: of the 95 % interval.
        p: two-sided p-value, that the sign of the difference is due to chance.
    """

    f1: float
    low: float
    high: float
    p: float


def compare(ours: Sequence[Counts], theirs: Sequence[Counts], seed: int = 1) -> Difference:
    """Compare two methods on the same sentences.

    Each resample draws sentences with replacement, the same for both methods, and adds how far the mean over seeds may be
    off: a value of Student's t, with the standard error of that mean as its unit. Both signs of it count, so that it does
    not matter who is compared with whom.

    Args:
        ours: counts of one method's model of each seed.
        theirs: of the other's, in the same order.
        seed: of the resampling.
    """
    sentences = len(ours[0])
    assert all(len(counts) == sentences for counts in (*ours, *theirs)), "models were tested on different sentences"
    generator = np.random.default_rng(seed)
    of_seeds = _differences(np.ones((1, sentences)), ours, theirs)[0]  # (K,)
    drawn = np.empty(RESAMPLES)
    for begin in range(0, RESAMPLES, _CHUNK):
        size = min(_CHUNK, RESAMPLES - begin)
        places = generator.integers(sentences, size=(size, sentences))
        rows = np.repeat(np.arange(size), sentences)
        times = np.bincount(rows * sentences + places.ravel(), minlength=size * sentences)
        weights = times.reshape(size, sentences).astype(float)
        drawn[begin : begin + size] = _differences(weights, ours, theirs).mean(axis=1)
    if len(ours) > 1:
        off = generator.standard_t(len(ours) - 1, RESAMPLES) * of_seeds.std(ddof=1) / len(ours) ** 0.5
        drawn = np.concatenate([drawn + off, drawn - off])
    turned = min((drawn <= 0).sum(), (drawn >= 0).sum())
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Difference(
        float(of_seeds.mean()), float(low), float(high), min(1.0, 2 * (1 + int(turned)) / (len(drawn) + 1))
    )


def _differences(
    weights: npt.NDArray[np.float64], ours: Sequence[Counts], theirs: Sequence[Counts]
) -> npt.NDArray[np.float64]:
    """Differences of F1 per resample and seed: ``(R, S) → (R, K)``."""
    return np.stack([_f1(weights, one) - _f1(weights, other) for one, other in zip(ours, theirs, strict=True)], axis=1)


def _f1(weights: npt.NDArray[np.float64], counts: Counts) -> npt.NDArray[np.float64]:
    """F1 of a model in each resample: ``(R, S) → (R,)``."""
    correct, predicted, support = (weights @ counts).T  # (R,) each
    both = predicted + support
    f1: npt.NDArray[np.float64] = np.divide(2 * correct, both, out=np.zeros_like(both), where=both > 0)
    return f1
