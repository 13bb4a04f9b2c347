"""Statistics of out-of-fold predictions: how many entities are missing, and which spans to review.

Spans are of two kinds: names that the models were trained on elsewhere, and new names. Each kind is calibrated separately,
because annotation depends on it. Of the names in a dictionary, nearly all occurrences are annotated; of others, none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lacuner.audit.calibration import Calibration, calibrate, missing_probability
from lacuner.audit.finding import Finding, Kind
from lacuner.audit.label_noise import fit_label_noise
from lacuner.corpus import OUTSIDE, Corpus, Entity
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.supervision.posterior import SpanProbabilities

MIN_PROBABILITY = 0.1
"""Default minimum probability of findings, lowered if there would be too few."""
NOTICED = 0.02
"""Spans with a lower score count as not detected, and are not used to estimate the number of missing entities."""
_RESAMPLES = 100
_LOOKS_LIKE_AN_ENTITY = 0.5
"""Spans with at least this score are findings, however few entities seem to be missing."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_KINDS = (0, 1)
"""Kinds of spans: names that were trained on, and new ones."""


@dataclass(frozen=True)
class Estimate:
    """Estimated number of missing entities, with a 95 % interval.

    Attributes:
        total: expected number.
        low: of the interval.
        high: of the interval.
        labels: expected number of each label, with intervals: ``{"PER": (total, low, high)}``.
        annotated_share: fraction of all entities that are annotated.
        at_least: most missing entities are names that are annotated nowhere, as with labels from a dictionary. Names missing
            from it may be harder to find than those in it, so there may be more; then ``low`` is a lower bound, and ``high``
            is no 95 % bound: it counts every span that models predict as an entity, however improbable.
    """

    total: float
    low: float
    high: float
    labels: dict[str, tuple[float, float, float]]
    annotated_share: float
    at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        labels = {
            label: {"total": round(total, 1), "low": round(low, 1), "high": round(high, 1)}
            for label, (total, low, high) in self.labels.items()
        }
        interval = {"total": round(self.total, 1), "low": round(self.low, 1), "high": round(self.high, 1)}
        share = {"annotated_share": round(self.annotated_share, 4)}
        return interval | {"at_least": self.at_least, "labels": labels} | share


@dataclass(frozen=True, eq=False)
class AuditModel:
    """Out-of-fold predictions for the spans of a corpus, compared with its annotation.

    Attributes:
        predicted: label probabilities of annotated spans, and of all that are probable enough.
        labels: their names; the first is ``O``.
        annotated: ``(N,)`` index of each span's label in the corpus; 0: none.
        unknown: ``(N, L)`` labels that have not been ruled out for each span; never ``O``.
        sought: ``(N, L)`` labels that were annotated where the span is.
        counts: ``(N,)`` whether the span is used to estimate how often entities are annotated.
        unannotated: ``(N,)`` whether the span overlaps no annotated one, so that it may be missing.
        detected: ``(N,)`` whether a model detects the span: others are included because they are annotated, or because the
            same words may be detected elsewhere, and say nothing about the frequency of such spans.
        new_names: ``(N,)`` whether the models were trained on no entity with the same words.
        calibrations: of the probabilities of being an entity, and of being annotated given the label; for spans with names
            that were trained on, and for those with new names.
    """

    predicted: SpanProbabilities
    labels: Sequence[str]
    annotated: npt.NDArray[np.int64]
    unknown: Flags
    sought: Flags
    counts: Flags
    unannotated: Flags
    detected: Flags
    new_names: Flags
    calibrations: tuple[Calibration, Calibration]

    @classmethod
    def of(
        cls,
        predicted: SpanProbabilities,
        corpus: Corpus,
        labels: Sequence[str],
        known: Collection[str] | None = None,
        new_names: Flags | None = None,
    ) -> "AuditModel":
        """Compare predictions with the annotation.

        Args:
            predicted: out-of-fold predictions.
            corpus: the annotation.
            labels: of both, ``O`` first.
            known: labels that the models can predict; by default all. Annotations with other labels are omitted.
            new_names: ``(N,)`` spans with names that the models were not trained on; None: unknown, so all are treated alike.
        """
        kept = _with_known_labels(predicted, corpus, frozenset(labels if known is None else known))
        predicted = predicted[kept]
        new_names = np.zeros(len(predicted), dtype=bool) if new_names is None else new_names[kept]
        annotated, free = _against(predicted, corpus, labels)
        unknown, sought = _unsettled(predicted, corpus, labels)
        complete = np.array([sentence.complete for sentence in corpus], dtype=bool)[predicted.sentence]
        spans = _Spans.of(predicted, annotated)
        best = predicted.probabilities[:, 1:].argmax(1) + 1
        counts = ~complete & ((annotated > 0) | (free & sought[np.arange(len(best)), best]))
        detected = spans.score >= max(NOTICED, spans.score[annotated == 0].min(initial=1.0))
        everywhere = np.ones(len(predicted))
        taught, new = (spans.fit(counts & detected & (new_names == kind), everywhere) for kind in _KINDS)
        unannotated = free & unknown.any(1)
        return cls(
            predicted, labels, annotated, unknown, sought, counts, unannotated, detected, new_names, (taught, new)
        )

    @property
    def scores(self) -> Floats:
        """Entity score of each span: ``(N,)``."""
        return 1 - self.predicted.probabilities[:, 0].astype(float)

    @property
    def recovered(self) -> float:
        """Fraction of the annotated entities that the models find, of those with names that they were taught."""
        asked = (self.annotated > 0) & ~self.new_names
        return float((self.scores[asked] >= 0.5).mean()) if asked.any() else 0.0

    def missing(self) -> Floats:
        """Probability that an unannotated span is an entity of each label: ``(N, L)``; 0 for ``O``."""
        return self._missing(self.calibrations, np.arange(len(self.predicted)))

    def estimate(self, seed: int = 1) -> Estimate:
        """Estimate the number of missing entities; the interval is from a bootstrap over sentences.

        Models fail to detect some annotated entities, and so some missing ones; the estimate is corrected for these.
        """
        totals = self._count(self.calibrations, np.ones(len(self.predicted)))  # (2, labels)
        sentences, row = np.unique(self.predicted.sentence, return_inverse=True)
        spans, counts = _Spans.of(self.predicted, self.annotated), self.counts & self.detected
        generator = np.random.default_rng(seed)
        drawn = []
        for _ in range(_RESAMPLES):
            times = np.bincount(generator.integers(len(sentences), size=len(sentences)), minlength=len(sentences))
            weights = times[row].astype(float)
            taught, new = (
                spans.fit(counts & (self.new_names == kind), weights, self.calibrations[kind]) for kind in _KINDS
            )
            drawn.append(self._count((taught, new), weights).sum(0))
        table = np.array(drawn) if len(sentences) else np.zeros((1, totals.shape[1]))
        low, high = np.quantile(table, [0.025, 0.975], axis=0)
        low_sum, high_sum = np.quantile(table.sum(1), [0.025, 0.975])
        at_least = bool(totals[1].sum() > totals[0].sum())
        if at_least:
            most = [self._at_most(label) for label in range(1, len(self.labels))]
            high, high_sum = np.maximum(high, most), max(high_sum, self._at_most())
        total = totals.sum(0)
        found, entities = float(total.sum()), int((self.annotated > 0).sum())
        return Estimate(
            total=found,
            low=float(low_sum),
            high=float(high_sum),
            labels={label: (float(total[n]), float(low[n]), float(high[n])) for n, label in enumerate(self.labels[1:])},
            annotated_share=entities / (entities + found) if entities else 0.0,
            at_least=at_least,
        )

    def _missing(self, calibrations: tuple[Calibration, Calibration], rows: npt.NDArray[np.int64]) -> Floats:
        """Probabilities that spans are missing entities of each label: ``(n, L)``."""
        probabilities = self.predicted.probabilities[rows].astype(float)
        inside = 1 - probabilities[:, 0]
        kind = self.new_names[rows].astype(int)
        entity = np.stack([calibration.entity(inside) for calibration in calibrations])[kind, np.arange(len(kind))]
        among = probabilities[:, 1:] / np.maximum(inside, 1e-12)[:, None]  # (n, L - 1) label, given an entity
        annotated = np.array([calibration.shares for calibration in calibrations])[kind] * self.sought[rows, 1:]
        annotated[~self.unknown[rows, 1:]] = 1  # where all of them were annotated, none is missing
        missing = missing_probability(entity[:, None] * among, annotated)
        return np.pad(missing, ((0, 0), (1, 0)))

    def _counted(self) -> npt.NDArray[np.int64]:
        """Spans whose probabilities sum to the number of missing entities."""
        return np.flatnonzero(self.unannotated & self.detected)

    def _count(self, calibrations: tuple[Calibration, Calibration], weights: Floats) -> Floats:
        """Number of missing entities, with names that were trained on and with new ones: ``(2, labels)``."""
        rows = self._counted()
        missing, new = self._missing(calibrations, rows) * weights[rows, None], self.new_names[rows]
        return np.stack([missing[new == kind].sum(0)[1:] * self._undetected(weights, kind) for kind in _KINDS])

    def _at_most(self, label: int | None = None) -> float:
        """Upper bound: the maximum number of non-overlapping detected spans.

        Args:
            label: count only spans for which this is the best label; by default all.
        """
        rows = self._counted()
        if label is not None:
            rows = rows[self.predicted.probabilities[rows, 1:].argmax(1) + 1 == label]
        sentence, start, end = (
            column[rows] for column in (self.predicted.sentence, self.predicted.start, self.predicted.end)
        )
        order = np.lexsort((end, sentence))  # greedy interval scheduling: by earliest end
        everywhere = np.ones(len(self.predicted))
        factors = [self._undetected(everywhere, kind) for kind in _KINDS]
        columns = (sentence[order], start[order], end[order], self.new_names[rows[order]])
        most, last = 0.0, (-1, 0)
        for place, first, behind, new in zip(*(column.tolist() for column in columns), strict=True):
            if (place, first) >= last:
                most += factors[new]
                last = place, behind
        return most

    def _undetected(self, weights: Floats, new_names: int) -> float:
        """Ratio of entities to detected entities."""
        entities = (self.annotated > 0) & (self.new_names == new_names)
        detected = weights[entities & self.detected].sum()
        return float(weights[entities].sum() / detected) if detected else 1.0

    def findings(self, corpus: Corpus, min_probability: float | None = None) -> list[Finding]:
        """All findings with at least this probability, best first; of overlapping missing spans, the best.

        Spans that look like entities are listed even if hardly anything is estimated to be missing: the estimate may be
        wrong. Spans with the same words are ranked together.

        Args:
            corpus: what was predicted.
            min_probability: by default 0.1, or lower if needed to list as many missing entities as estimated.
        """
        least = MIN_PROBABILITY if min_probability is None else min_probability
        expected = self._count(self.calibrations, np.ones(len(self.predicted))).sum() if min_probability is None else 0
        found = [*self._missing_findings(corpus, least, float(expected)), *self._label_findings(corpus, least)]
        found.sort(key=lambda f: (-f.probability, f.sentence, f.start, f.end, f.kind))
        return _with_texts(found, corpus)

    def _missing_findings(self, corpus: Corpus, min_probability: float, expected: float) -> Iterator[Finding]:
        """Spans that are probable enough, or look like entities; if fewer than expected, also the most probable others."""
        probable = self.missing()
        best = probable[:, 1:].argmax(1) + 1 if len(self.labels) > 1 else np.zeros(len(probable), dtype=np.int64)
        own = probable[np.arange(len(probable)), best]
        possible = np.flatnonzero(self.unannotated & (own > 0))
        total = np.zeros(len(own))
        total[possible] = _agree(own[possible], self._same_words(possible, corpus), self.detected[possible])
        chosen = (total >= min_probability) | (self.scores >= _LOOKS_LIKE_AN_ENTITY)
        order = possible[np.lexsort((-total[possible], ~chosen[possible]))]  # the chosen ones first
        taken: dict[int, set[int]] = {}
        count = 0
        for row in order.tolist():
            if not chosen[row] and count >= expected:
                break
            sentence, start, end = self._place(row)
            words = taken.setdefault(sentence, set())
            if words.isdisjoint(range(start, end)):
                words.update(range(start, end))
                label = self.labels[int(best[row])]
                count += 1
                yield Finding(sentence, start, end, label, float(total[row]), "missing", "")

    def _label_findings(self, corpus: Corpus, min_probability: float) -> Iterator[Finding]:
        """Annotated spans that the models predict differently: with another label, other boundaries, or as no entity."""
        entity = np.where(self.new_names, *(calibration.entity(self.scores) for calibration in self.calibrations[::-1]))
        among = self.predicted.probabilities[:, 1:].astype(float)
        known = self.annotated > 0
        noise = fit_label_noise(among[known], self.annotated[known] - 1)
        overlooked = (~self.detected[known]).sum() + 1  # models miss some entities, so they cannot be certain of O
        entity = np.maximum(entity, overlooked / (known.sum() + 1))
        rows = {self._place(row): row for row in np.flatnonzero(known).tolist()}
        for sentence in np.unique(self.predicted.sentence).tolist():
            rivals = self._unannotated_spans(sentence)
            for own in corpus[sentence].entities:
                row = rows.get((sentence, own.start, own.end))
                if row is None or own.source in ("reviewer", "human-checked"):
                    continue
                old = Entity(own.start, own.end, own.label)
                label = noise.label(among[row], self.labels.index(own.label) - 1)
                nothing = noise.nothing(entity[row])
                ways: list[tuple[float, int, int, str, Kind]] = [
                    (float(label.max()), own.start, own.end, self.labels[int(label.argmax()) + 1], "label"),
                    (nothing, own.start, own.end, OUTSIDE, "label"),
                ]
                rival = min(rivals.all(own), key=attrgetter("outside", "row"), default=None)
                if rival is not None:
                    better = noise.instead(entity[rival.row], entity[row])
                    new = self.labels[int(among[rival.row].argmax()) + 1]
                    ways.append((better, rival.start, rival.end, new, "boundary"))
                probability, start, end, new, kind = max(ways)
                if probability >= min_probability:
                    yield Finding(sentence, start, end, new, probability, kind, "", old)

    def _unannotated_spans(self, sentence: int) -> "OverlapIndex[_Rival]":
        """The unannotated spans of a sentence."""
        part = self.predicted.of(sentence)
        rows = part.start + np.flatnonzero(self.annotated[part] == 0)
        columns = rows, self.predicted.start[rows], self.predicted.end[rows], self.predicted.probabilities[rows, 0]
        return OverlapIndex(map(_Rival, *(column.tolist() for column in columns)))

    def _same_words(self, rows: npt.NDArray[np.int64], corpus: Corpus) -> npt.NDArray[np.int64]:
        """Group index of each span, shared by spans with the same words, ignoring case."""
        words = [" ".join(corpus[s].tokens[i:j]).casefold() for s, i, j in map(self._place, rows.tolist())]
        return np.unique(np.array(words, dtype=object), return_inverse=True)[1]

    def _place(self, row: int) -> tuple[int, int, int]:
        predicted = self.predicted
        return int(predicted.sentence[row]), int(predicted.start[row]), int(predicted.end[row])


class _Rival(NamedTuple):
    """An unannotated span that may be the correct version of an annotated one."""

    row: int
    start: int
    end: int
    outside: float  # the probability that it is no entity


def _agree(probability: Floats, words: npt.NDArray[np.int64], detected: Flags) -> Floats:
    """Reorder probabilities between spans, so that predictions for other occurrences of the same words count, too.

    A span is ranked by its own log-odds, plus the mean log-odds of all occurrences of its words times the logarithm of their
    number: names that models detect many times are more trustworthy. Only the order is changed, because a sum of dependent
    log-odds is no probability. So the expected number of missing entities stays the same.

    Args:
        probability: ``(n,)`` of each span by itself.
        words: ``(n,)`` group index, equal for the same words.
        detected: ``(n,)`` whether models detect the span; others do not contribute to their group.
    """
    inside = np.clip(probability, 1e-4, 1 - 1e-4)
    odds = np.log(inside / (1 - inside))
    count = np.bincount(words, detected)
    mean = np.bincount(words, odds * detected) / np.maximum(count, 1)
    together = odds + (mean * np.log(np.maximum(count, 1)))[words]
    agreed = np.empty_like(probability)
    agreed[np.lexsort((probability, together))] = np.sort(probability)
    return agreed


def _with_texts(findings: Iterable[Finding], corpus: Corpus) -> list[Finding]:
    """The findings with their text; each sentence is accessed once."""
    findings = list(findings)
    numbers: dict[int, list[int]] = defaultdict(list)
    for number, finding in enumerate(findings):
        numbers[finding.sentence].append(number)
    for sentence, own in numbers.items():
        for number, text in zip(own, corpus[sentence].texts_of(findings[number] for number in own), strict=True):
            findings[number] = replace(findings[number], text=text)
    return findings


def _with_known_labels(spans: SpanProbabilities, corpus: Corpus, known: Collection[str]) -> Flags:
    """Spans except those whose annotated label the models cannot predict: ``(N,)``."""
    unknown = {
        (index, entity.start, entity.end)
        for index in np.unique(spans.sentence).tolist()
        for entity in corpus[index].entities
        if entity.label not in known
    }
    if not unknown:
        return np.ones(len(spans), dtype=bool)
    return np.array([tuple(span) not in unknown for span in spans.spans().tolist()], dtype=bool)


def _against(
    predicted: SpanProbabilities, corpus: Corpus, labels: Sequence[str]
) -> tuple[npt.NDArray[np.int64], Flags]:
    """Index of each span's label in the corpus (0: none), and whether the span overlaps no annotated one."""
    number = {label: index for index, label in enumerate(labels)}
    annotated = np.zeros(len(predicted), dtype=np.int64)
    free = np.ones(len(predicted), dtype=bool)
    for sentence in np.unique(predicted.sentence).tolist():
        part, entities = predicted.of(sentence), corpus[sentence].entities
        if not entities:
            continue
        start, end = predicted.start[part], predicted.end[part]
        numbers = {(entity.start, entity.end): number[entity.label] for entity in entities}
        annotated[part] = [numbers.get(span, 0) for span in zip(start.tolist(), end.tolist(), strict=True)]
        reached = np.maximum.accumulate([entity.end for entity in entities])  # they are ordered by start
        before = np.searchsorted([entity.start for entity in entities], end)  # entities that start before the span ends
        free[part] = (before == 0) | (reached[before - 1] <= start)
    return annotated, free


def _unsettled(predicted: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> tuple[Flags, Flags]:
    """Labels that each span may have although it is unannotated, and which of these were annotated there: ``(N, L)``."""
    shape = (len(predicted), len(labels))
    unknown, sought = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for index in np.unique(predicted.sentence).tolist():
        sentence, part = corpus[index], predicted.of(index)
        names = sentence.looked_for(labels[1:])
        looked_for = np.array([label in names for label in labels])
        unknown[part] = ~looked_for if sentence.complete else True
        sought[part] = looked_for
        if sentence.unknown_tokens:
            spans = zip(predicted.start[part].tolist(), predicted.end[part].tolist(), strict=True)
            inside = np.array([sentence.unknown_tokens.issuperset(range(start, end)) for start, end in spans])
            unknown[part] |= inside[:, None]
            sought[part] &= ~inside[:, None]
    unknown[:, 0] = sought[:, 0] = False
    return unknown, sought


@dataclass(frozen=True, eq=False)
class _Spans:
    """Data that a calibration is fitted to."""

    score: Floats  # (N,)
    annotated: Flags  # (N,)
    among: Floats  # (N, L) label probabilities of an entity, without O; of an annotated one, 1 for its label

    @classmethod
    def of(cls, predicted: SpanProbabilities, annotated: npt.NDArray[np.int64]) -> "_Spans":
        known = annotated > 0
        among = predicted.probabilities[:, 1:].astype(float)
        among /= np.maximum(among.sum(1, keepdims=True), 1e-12)
        among[known] = np.eye(among.shape[1])[annotated[known] - 1]
        return cls(1 - predicted.probabilities[:, 0].astype(float), known, among)

    def fit(self, counts: Flags, weights: Floats, start: Calibration | None = None) -> Calibration:
        """Fit the calibration to the spans that count."""
        return calibrate(self.score[counts], self.annotated[counts], self.among[counts], weights[counts], start)
