"""Calibration of scores to probabilities, given incomplete annotation.

A model that never saw a sentence gives each of its spans a score ``s``. Assume that an entity of label ``l`` is annotated
with probability ``c_l``, independently of its score, and that the probability of being an entity increases with the score:

    P(entity | s)       = σ(α⁻ min(x, 0) + α⁺ max(x, 0) + β),    x = logit(s)
    P(annotated | s, l) = c_l · P(entity | s)

Whether a span is annotated is observed, so the parameters can be fitted by maximum likelihood: ``c`` is the fraction of
annotated spans at scores so high that all spans are entities (where Elkan & Noto 2008 read it off). There are two slopes
because low scores are far more frequent than high ones: with a single slope, they would determine how fast the probability
rises at the other end, and with it ``c``. There is a ``c`` for each label because dictionaries cover some labels better than
others; labels with few spans are shrunk towards the others. Of a span that is not annotated, the label is not known, but its
probabilities are: it would be annotated with probability ``P(entity | s) Σ_l c_l P(l | entity)``, and it is an entity of label
``l`` with probability

    P(l | s, not annotated) = (1 - c_l) p_l / (1 - Σ_k c_k p_k),    p_l = P(entity | s) P(l | entity)
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ITERATIONS = 200
_STARTS = (0.2, 0.5, 0.8)
"""Starting values of ``c``."""
_CLOSE_ENOUGH = 1e-8
_EXTREME = 1e-6
"""Scores are clipped to this distance from 0 and 1."""
_TRUST = 10.0
"""Prior precision that pulls slopes towards 1 and the shift towards 0, i.e. towards calibrated scores."""
_FLATTEST = 0.1
"""Minimum of slopes, so that a higher score never means a lower probability."""
_ALIKE, _UNSURE = 0.5, 0.05
"""Priors that pull the ``c`` of labels together (on the logit scale), and towards one half."""


@dataclass(frozen=True)
class Calibration:
    """``α⁻``, ``α⁺``, ``β``, and ``c`` of each label, as above."""

    low_slope: float
    high_slope: float
    shift: float
    shares: tuple[float, ...]

    def entity(self, scores: Floats) -> Floats:
        """``P(entity | s)``."""
        return _sigmoid(np.array([self.low_slope, self.high_slope, self.shift]) @ _bent(scores))


def missing_probability(entity: Floats, annotated_share: Floats) -> Floats:
    """Probability that an unannotated span is an entity of each label: ``(1 - c_l) p_l / (1 - Σ c p)``.

    >>> missing_probability(np.array([[0.0], [0.5], [1.0]]), np.array([0.5])).round(3).ravel().tolist()
    [0.0, 0.333, 1.0]

    Args:
        entity: ``(N, L)`` probability of being an entity of each label, annotated or not.
        annotated_share: ``(L,)`` or ``(N, L)`` fraction of such entities that are annotated.
    """
    seen = annotated_share * entity
    missing: Floats = (entity - seen) / np.maximum(1 - seen.sum(1, keepdims=True), _EXTREME)
    return missing


def calibrate(
    scores: Floats, annotated: Flags, among: Floats, weights: Floats | None = None, start: Calibration | None = None
) -> Calibration:
    """Fit the parameters by maximum likelihood.

    Args:
        scores: ``(N,)`` of spans, from 0 to 1.
        annotated: ``(N,)``.
        among: ``(N, L)`` probability of each label, given that the span is an entity; of an annotated span, 1 for its label.
        weights: ``(N,)`` of spans.
        start: initial parameters; by default several, since there may be several maxima.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    spans = _Spans(_bent(scores), annotated, among, weights)
    starts = [Calibration(1.0, 1.0, 0.0, (share,) * among.shape[1]) for share in _STARTS] if start is None else [start]
    return max((_climb(one, spans) for one in starts), key=lambda pair: pair[0])[1]


@dataclass(frozen=True, eq=False)
class _Spans:
    bent: Floats  # (3, N)
    annotated: Flags  # (N,)
    among: Floats  # (N, L)
    weights: Floats  # (N,)


def _climb(start: Calibration, spans: _Spans) -> tuple[float, Calibration]:
    """Newton's method with step halving; returns the log-likelihood and the parameters."""
    parameters = np.array([start.low_slope, start.high_slope, start.shift, *_logit(np.array(start.shares))])
    value, gradient, curvature = _likelihood(parameters, spans)
    for _ in range(_ITERATIONS):
        free = np.ones(len(parameters), dtype=bool)  # a slope at its lower bound must not flatten further
        free[:2] = (parameters[:2] > _FLATTEST) | (gradient[:2] > 0)
        step = np.zeros(len(parameters))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)] + 1e-9 * np.eye(free.sum()), gradient[free])
        length = 1.0
        while length > 1e-6:
            tried = parameters + length * step
            tried[:2] = np.maximum(tried[:2], _FLATTEST)
            new = _likelihood(tried, spans)
            if new[0] >= value:
                break
            length /= 2
        else:
            break
        gain = new[0] - value
        parameters, (value, gradient, curvature) = tried, new
        if gain < _CLOSE_ENOUGH * max(1.0, abs(value)):
            break
    low, high, shift = map(float, parameters[:3])
    return value, Calibration(low, high, shift, tuple(_sigmoid(parameters[3:]).tolist()))


def _likelihood(parameters: Floats, spans: _Spans) -> tuple[float, Floats, Floats]:
    """Penalized log-likelihood, its gradient, and a positive definite curvature (Fisher scoring)."""
    shares = _sigmoid(parameters[3:])  # (L,)
    sigma, c = _sigmoid(parameters[:3] @ spans.bent), spans.among @ shares  # (N,)
    p = np.clip(c * sigma, _EXTREME**2, 1 - _EXTREME)
    value = float((spans.weights * np.where(spans.annotated, np.log(p), np.log1p(-p))).sum())
    # (3 + L, N) derivatives of log p: by the first parameters, and by logit c_l
    along = np.concatenate([(1 - sigma) * spans.bent, (spans.among * (shares * (1 - shares))).T / c])
    gradient = along @ (spans.weights * (spans.annotated - p) / (1 - p))
    curvature = (along * (spans.weights * p / (1 - p))) @ along.T
    count = len(shares)
    pull = np.diag([_TRUST] * 3 + [_UNSURE] * count)
    pull[3:, 3:] += _ALIKE * (np.eye(count) - 1 / count)
    off = parameters - np.array([1.0, 1.0, 0.0, *[0.0] * count])
    value -= float(off @ pull @ off) / 2
    return value, gradient - pull @ off, curvature + pull


def _bent(scores: Floats) -> Floats:
    """``(3, N)``: the logit of scores below 0.5, of those above, and 1."""
    x = _logit(scores)
    return np.stack([np.minimum(x, 0), np.maximum(x, 0), np.ones_like(x)])


def _logit(scores: Floats) -> Floats:
    clipped = np.clip(scores, _EXTREME, 1 - _EXTREME)
    return np.log(clipped) - np.log1p(-clipped)


def _sigmoid(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))
