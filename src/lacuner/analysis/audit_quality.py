"""How good an audit is, where the truth is known; and the ranking of cleanlab, to compare it with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lacuner.corpus import Corpus
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.errors import ConfigError
from lacuner.supervision.posterior import SpanProbabilities

RANKS = (100, 500, 1000)

Suggestion = tuple[int, int, int, str]
"""Sentence, start, end and label of an entity."""


@dataclass(frozen=True)
class AuditQuality:
    """How many of the entities that somebody missed are found, and how early.

    Attributes:
        missing: entities of the complete labels that overlap nothing annotated.
        found: spans that were suggested.
        right: of those, entities of the complete labels: boundaries and label.
        precision: of the first 100, 500 and 1000; what a shorter list lacks counts as wrong.
        average_precision: precision at the rank of each missing entity in the list, mean over all of them; 0 for those
            that are not in it.
    """

    missing: int
    found: int
    right: int
    precision: dict[int, float]
    average_precision: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "missing": self.missing,
            "found": self.found,
            "right": self.right,
            "precision": {str(rank): round(value, 5) for rank, value in self.precision.items()},
            "average_precision": round(self.average_precision, 5),
        }


def measure_audit(suggested: Iterable[Suggestion], corpus: Corpus, complete: Corpus) -> AuditQuality:
    """Compare suggestions, best first, with the entities that are missing in a corpus.

    >>> from lacuner.corpus import Entity, Sentence
    >>> corpus = Corpus([Sentence(("Ada", "met", "Bo"))])
    >>> complete = Corpus([Sentence(("Ada", "met", "Bo"), (Entity(0, 1, "PER"), Entity(2, 3, "PER")))])
    >>> measure_audit([(0, 0, 1, "PER"), (0, 1, 2, "PER"), (0, 2, 3, "LOC")], corpus, complete).average_precision
    0.5
    """
    missing = missing_entities(corpus, complete)
    hits = np.array([suggestion in missing for suggestion in suggested], dtype=np.int64)
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return AuditQuality(
        missing=len(missing),
        found=len(hits),
        right=int(hits.sum()),
        precision={rank: float(hits[:rank].sum()) / rank for rank in RANKS},
        average_precision=float((precision * hits).sum()) / len(missing) if missing else 0.0,
    )


def missing_entities(corpus: Corpus, complete: Corpus) -> set[Suggestion]:
    """Entities of the complete labels that overlap nothing annotated."""
    known = (OverlapIndex(sentence.entities) for sentence in corpus)
    return {
        (number, entity.start, entity.end, entity.label)
        for number, (annotated, truth) in enumerate(zip(known, complete, strict=True))
        for entity in truth.entities
        if not annotated.any(entity)
    }


def rank_by_cleanlab(probabilities: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> list[Suggestion]:
    """Spans in the order of cleanlab's label issues among the words.

    Its ranking is about words, so each word means the most probable entity around it that overlaps nothing annotated.
    """
    try:
        from cleanlab.token_classification.filter import find_label_issues
    except ImportError as error:
        raise ConfigError("an audit is compared with cleanlab's ranking: pip install cleanlab") from error
    probable = token_probabilities(probabilities, corpus, len(labels))
    number = {label: index for index, label in enumerate(labels)}
    given = []
    for sentence in corpus:
        tags = [0] * len(sentence.tokens)
        for entity in sentence.entities:
            tags[entity.start : entity.end] = [number[entity.label]] * (entity.end - entity.start)
        given.append(tags)
    filled = [index for index, sentence in enumerate(corpus) if sentence.tokens]
    issues = find_label_issues([given[index] for index in filled], [probable[index] for index in filled], n_jobs=1)
    ranked: dict[Suggestion, None] = {}
    for index, word in issues:
        sentence = filled[index]
        part = probabilities.of(sentence)
        known = corpus[sentence].entities
        around = [
            row
            for row in range(part.start, part.stop)
            if probabilities.start[row] <= word < probabilities.end[row]
            and not any(probabilities.start[row] < e.end and e.start < probabilities.end[row] for e in known)
        ]
        if around:
            best = min(around, key=lambda row: probabilities.probabilities[row, 0])
            label = labels[int(probabilities.probabilities[best, 1:].argmax()) + 1]
            ranked[sentence, int(probabilities.start[best]), int(probabilities.end[best]), label] = None
    return list(ranked)


def token_probabilities(probabilities: SpanProbabilities, corpus: Corpus, labels: int) -> list[npt.NDArray[np.float64]]:
    """``(words, labels)`` of each sentence: the sums over the spans around each word, scaled down where they exceed 1."""
    tables = [np.zeros((len(sentence.tokens), labels)) for sentence in corpus]
    for row in range(len(probabilities)):
        table = tables[int(probabilities.sentence[row])]
        table[probabilities.start[row] : probabilities.end[row], 1:] += probabilities.probabilities[row, 1:]
    for table in tables:
        table[:] /= np.maximum(table.sum(1, keepdims=True), 1)
        table[:, 0] = 1 - table.sum(1)
    return tables
