"""How often annotations are wrong, and how much a model's contradiction counts.

Suppose that an annotation is wrong with probability ``ε``, and that a wrong label is any of the other ``K - 1`` labels. A model
says that an entity has label ``j`` with probability ``r_j``; models are overconfident, so a temperature ``τ`` softens it.
Then the annotated label ``l`` is seen with probability

    P(l) = (1 - ε) r_l + ε (1 - r_l) / (K - 1),    r_j ∝ q_j^τ

All annotated entities together tell ``τ`` and ``ε``, by maximum likelihood. What the model says instead is right with the odds

    ε / (1 - ε) · P(model sees this | it is right) / P(model sees this | the annotation is right)

so that a noise about an annotation has to be strong where annotations are seldom wrong.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_TEMPERATURES = np.exp(np.linspace(np.log(0.2), np.log(3.0), 28))
_ROUNDS = 60
_SEEN, _SEEN_WRONG = 100.0, 2.0
"""Before any annotation is looked at: as if of so many, so many had been wrong."""
_EXTREME = 1e-6


@dataclass(frozen=True)
class LabelNoise:
    """``τ`` and ``ε`` of the formulas above."""

    temperature: float
    error: float

    def label(self, probabilities: Floats, annotated: int) -> Floats:
        """``(K,)``: of each label, the probability that it is the right one and not the annotated one.

        Args:
            probabilities: ``(K,)`` of the labels, of a span that is taken to be an entity.
            annotated: number of the label that it has.
        """
        if len(probabilities) < 2:
            return np.zeros(len(probabilities))
        r = _tempered(probabilities[None], self.temperature)[0]
        wrong = self.error / (len(r) - 1) * r
        wrong[annotated] = 0
        chances: Floats = wrong / ((1 - self.error) * r[annotated] + wrong.sum())
        return chances

    def nothing(self, annotated: float) -> float:
        """The probability that an annotated span is no entity; the models' own, that it is one, is given."""
        odds = self.error / (1 - self.error) / _odds(annotated)
        return odds / (1 + odds)

    def instead(self, rival: float, annotated: float) -> float:
        """The probability that a span is right and not the annotated one that overlaps it.

        Args:
            rival: the models' probability that it is an entity.
            annotated: the same of what is annotated.
        """
        odds = self.error / (1 - self.error) * _odds(rival) / _odds(annotated)
        return odds / (1 + odds)


def fit_label_noise(probabilities: Floats, annotated: Numbers) -> LabelNoise:
    """Fit ``τ`` and ``ε``.

    Args:
        probabilities: ``(N, K)`` of the labels, of annotated entities, without ``O``; they need not sum to 1.
        annotated: ``(N,)`` numbers of the labels that they have.
    """
    count = probabilities.shape[1]
    if count < 2 or not len(annotated):
        return LabelNoise(1.0, _SEEN_WRONG / _SEEN)
    fitted = []
    for temperature in _TEMPERATURES.tolist():
        own = _tempered(probabilities, temperature)[np.arange(len(annotated)), annotated]
        other = (1 - own) / (count - 1)
        error = _SEEN_WRONG / _SEEN
        for _ in range(_ROUNDS):  # expectation and maximization
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
