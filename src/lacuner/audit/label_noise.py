"""Label noise: how often annotations are wrong, and how much weight a contradicting prediction has.

Assume that an annotation is wrong with probability ``ε``, and that a wrong label is uniform over the other ``K - 1`` labels.
A model predicts label ``j`` of an entity with probability ``r_j``, softened by a temperature ``τ``, because models are
overconfident. Then the annotated label ``l`` is observed with probability

    P(l) = (1 - ε) r_l + ε (1 - r_l) / (K - 1),    r_j ∝ q_j^τ

``τ`` and ``ε`` are fitted to all annotated entities by maximum likelihood. A contradicting prediction is right with odds

    ε / (1 - ε) · P(model sees this | it is right) / P(model sees this | the annotation is right)

so the evidence against an annotation has to be strong where annotations are rarely wrong.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_TEMPERATURES = np.exp(np.linspace(np.log(0.2), np.log(3.0), 28))
_ROUNDS = 60
_SEEN, _SEEN_WRONG = 100.0, 2.0
"""Prior pseudo-counts of annotations, and of wrong ones."""
_EXTREME = 1e-6


@dataclass(frozen=True)
class LabelNoise:
    """``τ`` and ``ε``, as above."""

    temperature: float
    error: float

    def label(self, probabilities: Floats, annotated: int) -> Floats:
        """Probability that each label, and not the annotated one, is right: ``(K,)``.

        Args:
            probabilities: ``(K,)`` of the labels, of a span assumed to be an entity.
            annotated: index of its annotated label.
        """
        if len(probabilities) < 2:
            return np.zeros(len(probabilities))
        r = _tempered(probabilities[None], self.temperature)[0]
        wrong = self.error / (len(r) - 1) * r
        wrong[annotated] = 0
        chances: Floats = wrong / ((1 - self.error) * r[annotated] + wrong.sum())
        return chances

    def nothing(self, annotated: float) -> float:
        """Probability that an annotated span is no entity, given the models' probability that it is one."""
        odds = self.error / (1 - self.error) / _odds(annotated)
        return odds / (1 + odds)

    def instead(self, rival: float, annotated: float) -> float:
        """Probability that a span is right instead of the annotated one that overlaps it.

        Args:
            rival: the models' probability that it is an entity.
            annotated: the same for the annotated span.
        """
        odds = self.error / (1 - self.error) * _odds(rival) / _odds(annotated)
        return odds / (1 + odds)


def fit_label_noise(probabilities: Floats, annotated: Numbers) -> LabelNoise:
    """Fit ``τ`` and ``ε``.

    Args:
        probabilities: ``(N, K)`` label probabilities of annotated entities, without ``O``; they need not sum to 1.
        annotated: ``(N,)`` indices of their annotated labels.
    """
    count = probabilities.shape[1]
    if count < 2 or not len(annotated):
        return LabelNoise(1.0, _SEEN_WRONG / _SEEN)
    fitted = []
    for temperature in _TEMPERATURES.tolist():
        own = _tempered(probabilities, temperature)[np.arange(len(annotated)), annotated]
        other = (1 - own) / (count - 1)
        error = _SEEN_WRONG / _SEEN
        for _ in range(_ROUNDS):  # EM
            wrong = error * other / ((1 - error) * own + error * other)
            error = float((wrong.sum() + _SEEN_WRONG) / (len(annotated) + _SEEN))
        seen = (1 - error) * own + error * other
        prior = _SEEN_WRONG * np.log(error) + (_SEEN - _SEEN_WRONG) * np.log1p(-error)
        fitted.append((float(np.log(seen).sum() + prior), LabelNoise(temperature, error)))
    return max(fitted, key=lambda pair: pair[0])[1]


def _odds(probability: float) -> float:
    clipped = min(max(probability, _EXTREME), 1 - _EXTREME)
    return clipped / (1 - clipped)


def _tempered(probabilities: Floats, temperature: float) -> Floats:
    powers = np.maximum(probabilities, _EXTREME) ** temperature
    tempered: Floats = powers / powers.sum(1, keepdims=True)
    return tempered
