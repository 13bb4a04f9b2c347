"""How few annotated dev sentences are enough to fit a threshold?

A threshold is one number, so little data should do; and little is what there is when training data has gaps. The model
stays as it is. Thresholds are fitted on random parts of the dev data, and each is tested on the whole of the test data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lacuner.corpus import Corpus
from lacuner.evaluation import score_entities
from lacuner.inference.threshold import fit_threshold
from lacuner.recognizer import Recognizer

SIZES = (25, 50, 100, 200)
"""Dev sentences; all of them follow."""
DRAWS = 5


@dataclass(frozen=True)
class SizedThreshold:
    """What thresholds are worth that were fitted on so many dev sentences.

    Attributes:
        sentences: how many; 0: no threshold is fitted.
        thresholds: one for each draw of sentences.
        f1: with each of them, on test data.
    """

    sentences: int
    thresholds: tuple[float, ...]
    f1: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        f1 = [round(value, 5) for value in self.f1]
        return {"sentences": self.sentences, "thresholds": list(self.thresholds), "f1": f1}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SizedThreshold":
        """As :meth:`as_dict` wrote it."""
        return cls(data["sentences"], tuple(data["thresholds"]), tuple(data["f1"]))


def measure_threshold_size(
    recognizer: Recognizer, dev: Corpus, test: Corpus, seed: int, sizes: Sequence[int] = SIZES, draws: int = DRAWS
) -> list[SizedThreshold]:
    """Test F1 without a threshold, with thresholds from ever more dev sentences, and with one from all of them.

    Args:
        recognizer: a trained model; its own threshold is the same afterwards.
        dev: annotated sentences to fit thresholds on.
        test: annotated sentences.
        seed: of the drawing. A larger part of the same draw has all sentences of a smaller one.
        sizes: dev sentences; what is not less than all of them is left out.
        draws: parts of each size.
    """
    model, before = recognizer.model, float(recognizer.model.threshold)
    generator = np.random.default_rng([seed, 13])
    orders = [generator.permutation(len(dev)) for _ in range(draws)]

    def fitted(part: Corpus) -> float:
        fit_threshold(model, part, lambda pairs: score_entities(pairs).f1)
        return float(model.threshold)

    @cache  # draws have thresholds in common
    def tested(threshold: float) -> float:
        model.threshold.fill_(threshold)
        return recognizer.evaluate(test).f1

    def measured(sentences: int, thresholds: Sequence[float]) -> SizedThreshold:
        return SizedThreshold(sentences, tuple(thresholds), tuple(map(tested, thresholds)))

    try:
        found = [measured(0, [0.0])]
        for size in (size for size in sizes if size < len(dev)):
            parts = (Corpus(tuple(dev[int(index)] for index in order[:size])) for order in orders)
            found.append(measured(size, [fitted(part) for part in parts]))
        return [*found, measured(len(dev), [fitted(dev)])]
    finally:
        model.threshold.fill_(before)
