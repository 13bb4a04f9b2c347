"""Label sources as noisy channels: the reliability of their labels, and of their silence.

A source (a dictionary, a language model, an annotator) labels a span of true label ``t`` as ``a`` with probability
``C(a | t)``, where ``a`` may be nothing. A model that has not seen the span predicts ``p(t)``. Then

    p(t | a₁ … a_k) ∝ p(t) · Π_s C_s(a_s | t)

This covers missing labels (``C(nothing | t)``), wrong or spurious ones (``C(a | O)``), several sources over the same text,
and trusted labels (``C`` is the identity). The channels are unknown, so they are estimated jointly with the true labels by
expectation maximization, as in Dawid and Skene: the E-step computes the posterior above, the M-step counts each source's
labels under it. Pseudo-counts regularize channels with few observations.
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
"""Instead of a label: the source has not annotated the span, or the truth is unknown."""
_RIGHT, _NOTHING = 0.6, 0.3
"""Prior probabilities that a source labels an entity correctly, or not at all."""
_SPURIOUS = 0.02
"""Prior probability that it labels a non-entity."""
_PSEUDO_COUNT = 20.0
"""Number of pseudo-counts for each true label."""
_IMPOSSIBLE = 1e-12
_ROUNDS, _CLOSE_ENOUGH = 100, 1e-5


@dataclass(frozen=True, eq=False)
class Channels:
    """Estimated channels and posterior.

    Attributes:
        tables: for each source ``(L, L)``, the probability of its label (column) given the true label (row).
        posterior: ``(N, L)`` probabilities of the true labels.
    """

    tables: tuple[Floats, ...]
    posterior: Floats


@dataclass(frozen=True, eq=False)
class Said:
    """Labels of ``N`` spans by one source."""

    labels: Numbers  # (N,) 0: no label, NOT_ASKED: not annotated by the source
    looked_for: Flags  # (N, L): for spans without a label, the labels that the source annotates, and O


def fit_channels(probabilities: Floats, sources: Sequence[Said], truth: Numbers | None = None) -> Channels:
    """Estimate the channel of each source jointly with the true labels.

    Args:
        probabilities: ``(N, L)`` predictions of models that have not seen the spans; ``O`` is 0.
        sources: labels of the same spans. A missing label carries no information if the source does not annotate it.
        truth: ``(N,)`` known true labels, :data:`NOT_ASKED` elsewhere.
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
    """Posterior label probabilities of spans, from held-out predictions and the labels of each source of the corpus.

    Labels from a reviewer are taken as the truth.
    """
    said = labels_by_source(spans, corpus, labels)
    reviewed = said.pop(Source.REVIEWER, None)
    truth = None if reviewed is None else np.where(reviewed.labels > 0, reviewed.labels, NOT_ASKED)
    posterior = fit_channels(spans.probabilities.astype(float), [*said.values()], truth).posterior
    return replace(spans, probabilities=posterior.astype(np.float32))


def labels_by_source(spans: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> dict[str, Said]:
    """Labels of spans by each source of a corpus.

    A corpus without source names has a single source, which has annotated every sentence. Of several labels that a source
    gives one span, the first counts. A span consisting only of words unknown to a source is not annotated by it.
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
    """Annotation of a sentence without source names."""
    return SourceAnnotation(
        UNNAMED,
        sentence.entities,
        annotated_labels=sentence.annotated_labels,
        unknown_tokens=sentence.unknown_tokens,
    )


def _prior(count: int) -> Floats:
    """Initial channel, before any counts: ``(L, L)``."""
    others = max(count - 2, 1)
    table = np.full((count, count), (1 - _RIGHT - _NOTHING) / others)
    np.fill_diagonal(table, _RIGHT)
    table[:, 0] = _NOTHING
    table[0] = _SPURIOUS / max(count - 1, 1)
    table[0, 0] = 1 - _SPURIOUS
    normalized: Floats = table / table.sum(1, keepdims=True)
    return normalized


def _believed(given: Floats, sources: Sequence[Said], tables: Sequence[Floats]) -> Floats:
    """Posterior of the true labels, by Bayes' rule: ``(N, L)``."""
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
    """Channel estimated from expected counts, over the labels that the source annotates, plus pseudo-counts: ``(L, L)``."""
    count = posterior.shape[1]
    asked = said.labels != NOT_ASKED
    weights = posterior[asked] * said.looked_for[asked]
    table = _PSEUDO_COUNT * prior + weights.T @ np.eye(count)[said.labels[asked]]
    counted: Floats = table / table.sum(1, keepdims=True)
    return counted
