"""Sources of labels as noisy channels: how much to believe what each of them says, and what it leaves out.

A source (a dictionary, a language model, an annotator) says ``a`` of a span whose true label is ``t`` with the probability
``C(a | t)``, where ``a`` may be nothing. A model that has not seen the span gives it the probabilities ``p(t)``. Then

    p(t | a₁ … a_k) ∝ p(t) · Π_s C_s(a_s | t)

Labels that are missing (``C(nothing | t)``), wrong or spurious (``C(a | O)``), several sources over the same text, and trusted
ones (``C`` is the identity) are all in that one line. Nobody knows ``C``, so it is estimated together with the true labels, by
expectation maximisation: given the channels, the formula says what each span is; given what each span is, one counts what the
source says of it. Pseudo-counts keep a channel sensible where there is little to count.

A dictionary does not miss at random: it knows a name or it does not. So a source has one channel for each *kind* of span.
Where the surface is none that it ever labels, its silence says nothing; where it labels the same words elsewhere, it says much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

NOT_ASKED = -1
"""Instead of a label: the source has not looked at the span, or nobody knows the truth."""
_RIGHT, _NOTHING = 0.6, 0.3
"""Before anything is counted, a source labels an entity rightly, or not at all, with these probabilities."""
_SPURIOUS = 0.02
"""… and labels what is no entity with this one."""
_PSEUDO_COUNT = 20.0
"""As if so many spans of each true label had been counted already."""
_ROUNDS, _CLOSE_ENOUGH = 100, 1e-5


@dataclass(frozen=True, eq=False)
class Votes:
    """What a source says of spans.

    Attributes:
        said: ``(N,)`` number of the label that it gives each span; 0: nothing, :data:`NOT_ASKED`: it has not looked.
        kind: ``(N,)`` number of the kind of span that it is to the source, from 0; each kind has a channel of its own.
    """

    said: Numbers
    kind: Numbers

    @property
    def kinds(self) -> int:
        """How many there are."""
        return int(self.kind.max(initial=0)) + 1


@dataclass(frozen=True, eq=False)
class Channels:
    """What was estimated.

    Attributes:
        tables: of each source ``(kinds, L, L)``: with which probability it says the label of the column of a span with the
            true label of the row.
        posterior: ``(N, L)`` probabilities of the true labels.
    """

    tables: tuple[Floats, ...]
    posterior: Floats


def fit_channels(probabilities: Floats, sources: Sequence[Votes], truth: Numbers | None = None) -> Channels:
    """Estimate the channel of each source, and the true labels.

    Args:
        probabilities: ``(N, L)`` of models that have not seen the spans; ``O`` is 0.
        sources: what each says of the same spans.
        truth: ``(N,)`` true labels where they are known, elsewhere :data:`NOT_ASKED`.
    """
    count = probabilities.shape[1]
    given = np.maximum(probabilities, 1e-12)
    if truth is not None:
        known = truth != NOT_ASKED
        given = np.where(known[:, None], np.eye(count)[np.where(known, truth, 0)] + 1e-12, given)
    prior = _prior(count)
    tables = [np.broadcast_to(prior, (votes.kinds, count, count)).copy() for votes in sources]
    posterior = _believed(given, sources, tables)
    for _ in range(_ROUNDS):
        tables = [_counted(posterior, votes, prior) for votes in sources]
        before, posterior = posterior, _believed(given, sources, tables)
        if np.abs(posterior - before).max(initial=0.0) < _CLOSE_ENOUGH:
            break
    return Channels(tuple(tables), posterior)


def _prior(count: int) -> Floats:
    """``(L, L)``: what a channel is before anything is counted."""
    others = max(count - 2, 1)
    table = np.full((count, count), (1 - _RIGHT - _NOTHING) / others)
    np.fill_diagonal(table, _RIGHT)
    table[:, 0] = _NOTHING
    table[0] = _SPURIOUS / max(count - 1, 1)
    table[0, 0] = 1 - _SPURIOUS
    normalized: Floats = table / table.sum(1, keepdims=True)
    return normalized


def _believed(given: Floats, sources: Sequence[Votes], tables: Sequence[Floats]) -> Floats:
    """``(N, L)``: Bayes' rule."""
    logits = np.log(given)
    for votes, table in zip(sources, tables, strict=True):
        asked = votes.said != NOT_ASKED
        logits[asked] += np.log(table[votes.kind[asked], :, votes.said[asked]])
    logits -= logits.max(1, keepdims=True)
    weights = np.exp(logits)
    believed: Floats = weights / weights.sum(1, keepdims=True)
    return believed


def _counted(posterior: Floats, votes: Votes, prior: Floats) -> Floats:
    """``(kinds, L, L)``: how often a source says what of which true label, with the pseudo-counts."""
    table = np.tile(_PSEUDO_COUNT * prior, (votes.kinds, 1, 1))
    asked = votes.said != NOT_ASKED
    kind, said, weights = votes.kind[asked], votes.said[asked], posterior[asked]
    for true in range(posterior.shape[1]):
        np.add.at(table[:, true], (kind, said), weights[:, true])
    counted: Floats = table / table.sum(2, keepdims=True)
    return counted
