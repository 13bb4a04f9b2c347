"""Sources of labels as noisy channels: how much their labels are to be believed, and their silence.

A source (a dictionary, a language model, an annotator) says ``a`` of a span whose true label is ``t`` with the probability
``C(a | t)``, where ``a`` may be nothing. A model that has not seen the span gives it the probabilities ``p(t)``. Then

    p(t | a₁ … a_k) ∝ p(t) · Π_s C_s(a_s | t)

Labels that are missing (``C(nothing | t)``), wrong or spurious (``C(a | O)``), several sources over the same text, and trusted
ones (``C`` is the identity) are all in that one line. Nobody knows ``C``, so it is estimated together with the true labels, by
expectation maximization: given the channels, the formula says what each span is; given what each span is, one counts what the
source says of it. Pseudo-counts keep a channel sensible where there is little to count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lacuner.corpus import Corpus
from lacuner.corpus.sentence import Sentence, Source, SourceAnnotation
from lacuner.corpus.sources import UNNAMED, annotations_of
from lacuner.supervision.posterior import SpanProbabilities

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

NOT_ASKED = -1
"""Instead of a label: the source has not looked at the span, or nobody knows the truth."""
_RIGHT, _NOTHING = 0.6, 0.3
"""Before anything is counted, a source labels an entity rightly, or not at all, with these probabilities."""
_SPURIOUS = 0.02
"""… and labels what is no entity with this one."""
_PSEUDO_COUNT = 20.0
"""As if so many spans of each true label had been counted already."""
_IMPOSSIBLE = 1e-12
_ROUNDS, _CLOSE_ENOUGH = 100, 1e-5


@dataclass(frozen=True, eq=False)
class Channels:
    """What was estimated.

    Attributes:
        tables: of each source ``(L, L)``: with which probability it says the label of the column of a span with the true
            label of the row.
        posterior: ``(N, L)`` probabilities of the true labels.
    """

    tables: tuple[Floats, ...]
    posterior: Floats


@dataclass(frozen=True, eq=False)
class Said:
    """What a source says of ``N`` spans."""

    labels: Numbers  # (N,) 0: nothing, NOT_ASKED: it has not looked
    looked_for: Flags  # (N, L): where it says nothing, the labels that it might have said, and O


def fit_channels(probabilities: Floats, sources: Sequence[Said], truth: Numbers | None = None) -> Channels:
    """Estimate the channel of each source, and the true labels.

    Args:
        probabilities: ``(N, L)`` of models that have not seen the spans; ``O`` is 0.
        sources: what each says of the same spans. Silence about a label that it has not looked for means nothing.
        truth: ``(N,)`` true labels where they are known, elsewhere :data:`NOT_ASKED`.
    """
    count = probabilities.shape[1]
    given = np.maximum(probabilities, _IMPOSSIBLE)
    if truth is not None:
        known = truth != NOT_ASKED
        given = np.where(known[:, None], np.eye(count)[np.where(known, truth, 0)] + _IMPOSSIBLE, given)
    prior = _prior(count)
    tables = [prior for _ in sources]
    posterior = _believed(given, sources, tables)
    for _ in range(_ROUNDS):
        tables = [_counted(posterior, said, prior) for said in sources]
        before, posterior = posterior, _believed(given, sources, tables)
        if np.abs(posterior - before).max(initial=0.0) < _CLOSE_ENOUGH:
            break
    return Channels(tuple(tables), posterior)


def channel_posterior(spans: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> SpanProbabilities:
    """What spans are, from what models say that have not learned it, and what each source of the corpus says.

    The word of a reviewer is the truth.
    """
    said = labels_by_source(spans, corpus, labels)
    reviewed = said.pop(Source.REVIEWER, None)
    truth = None if reviewed is None else np.where(reviewed.labels > 0, reviewed.labels, NOT_ASKED)
    posterior = fit_channels(spans.probabilities.astype(float), [*said.values()], truth).posterior
    return replace(spans, probabilities=posterior.astype(np.float32))


def labels_by_source(spans: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> dict[str, Said]:
    """What each source of a corpus says of spans.

    A corpus that does not tell sources apart has one, which has looked at every sentence. Of several labels that a source
    gives one span, the first counts. Of a span that consists of words which are unknown to it, it says nothing at all.
    """
    number = {label: index for index, label in enumerate(labels)}
    shape = (len(spans), len(labels))
    apart = any(sentence.by_source for sentence in corpus)
    found: dict[str, Said] = {}
    for index in np.unique(spans.sentence).tolist():
        sentence, where = corpus[index], spans.of(index)
        places = list(zip(spans.start[where].tolist(), spans.end[where].tolist(), strict=True))
        said = annotations_of(sentence) if apart else (_unnamed(sentence),)
        for annotation in said:
            of_span = {(e.start, e.end): number[e.label] for e in reversed(annotation.entities) if e.label in number}
            if annotation.source not in found:
                nothing = np.full(len(spans), NOT_ASKED, dtype=np.int64)
                found[annotation.source] = Said(nothing, np.ones(shape, dtype=bool))
            own, unknown = found[annotation.source], annotation.unknown_tokens
            own.labels[where] = [
                of_span.get(place, NOT_ASKED if unknown and unknown.issuperset(range(*place)) else 0)
                for place in places
            ]
            if annotation.annotated_labels is not None:
                own.looked_for[where, 1:] = [label in annotation.annotated_labels for label in labels[1:]]
    return found


def _unnamed(sentence: Sentence) -> SourceAnnotation:
    """What a sentence says that does not tell sources apart."""
    return SourceAnnotation(
        UNNAMED,
        sentence.entities,
        annotated_labels=sentence.annotated_labels,
        unknown_tokens=sentence.unknown_tokens,
    )


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


def _believed(given: Floats, sources: Sequence[Said], tables: Sequence[Floats]) -> Floats:
    """``(N, L)``: Bayes' rule."""
    logits = np.log(given)
    for said, table in zip(sources, tables, strict=True):
        asked = said.labels != NOT_ASKED
        telling = said.looked_for[asked] | (said.labels[asked] > 0)[:, None]
        logits[asked] += np.log(table[:, said.labels[asked]]).T * telling
    logits -= logits.max(1, keepdims=True)
    weights = np.exp(logits)
    believed: Floats = weights / weights.sum(1, keepdims=True)
    return believed


def _counted(posterior: Floats, said: Said, prior: Floats) -> Floats:
    """``(L, L)``: how often a source says what of which true label that it has looked for, with the pseudo-counts."""
    count = posterior.shape[1]
    asked = said.labels != NOT_ASKED
    weights = posterior[asked] * said.looked_for[asked]
    table = _PSEUDO_COUNT * prior + weights.T @ np.eye(count)[said.labels[asked]]
    counted: Floats = table / table.sum(1, keepdims=True)
    return counted
