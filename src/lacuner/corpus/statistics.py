"""Counts over a corpus, and the quality of distant labels compared with gold."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from lacuner.corpus.overlaps import OverlapIndex
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError


def labels_alike(labels: Iterable[str]) -> list[tuple[str, ...]]:
    """Labels that differ in case only, and are probably meant to be the same.

    >>> labels_alike(["PER", "LOC", "Loc", "loc"])
    [('LOC', 'Loc', 'loc')]
    """
    alike: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        alike.setdefault(label.casefold(), []).append(label)
    return [tuple(group) for group in alike.values() if len(group) > 1]


@dataclass
class Statistics:
    """Statistics of a corpus; computed in one pass by :meth:`count`."""

    sentences: int = 0
    tokens: int = 0
    entities: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    widths: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    entities_by_length: Counter[int] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    non_entities: int = 0
    complete_sentences: int = 0
    partially_labeled_sentences: int = 0
    empty_sentences: int = 0
    sentences_without_entities: int = 0
    overlapping_entities: int = 0
    repeated_sentences: int = 0

    @classmethod
    def count(cls, sentences: Iterable[Sentence]) -> "Statistics":
        """Count a corpus or a stream, keeping only hashes of its sentences in memory."""
        statistics, seen = cls(), set()
        for sentence in sentences:
            statistics._add(sentence)
            key = hash(sentence.tokens)
            statistics.repeated_sentences += key in seen
            seen.add(key)
        return statistics

    def _add(self, sentence: Sentence) -> None:
        length = len(sentence)
        self.sentences += 1
        self.tokens += length
        self.entities += len(sentence.entities)
        self.lengths[length] += 1
        self.entities_by_length[length] += len(sentence.entities)
        self.non_entities += len(sentence.non_entities)
        self.complete_sentences += sentence.complete
        self.partially_labeled_sentences += sentence.annotated_labels is not None
        self.empty_sentences += length == 0
        self.sentences_without_entities += not sentence.entities
        reached = 0
        for entity in sentence.entities:
            self.overlapping_entities += entity.start < reached
            reached = max(reached, entity.end)
            self.labels[entity.label] += 1
            self.widths[entity.end - entity.start] += 1
            if entity.source is not None:
                self.sources[entity.source] += 1

    @property
    def sparsity(self) -> float:
        """Mean of entities per sentence divided by √n. Li et al. (2021) assume that it is small: it rarely exceeds 1."""
        words = [(n, count) for n, count in self.lengths.items() if n]
        sentences = sum(count for _, count in words)
        return sum(self.entities_by_length[n] / sqrt(n) for n, _ in words) / sentences if sentences else 0.0

    def width_covering(self, fraction: float) -> int:
        """The smallest width that covers at least ``fraction`` of the entities."""
        reached = 0
        for width in sorted(self.widths):
            reached += self.widths[width]
            if reached >= fraction * self.entities:
                return width
        return 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "entities": self.entities,
            "labels": dict(sorted(self.labels.items())),
            "widths": {str(width): count for width, count in sorted(self.widths.items())},
            "longest_sentence": max(self.lengths, default=0),
            "sparsity": self.sparsity,
            "sources": dict(sorted(self.sources.items())),
            "non_entities": self.non_entities,
            "complete_sentences": self.complete_sentences,
            "partially_labeled_sentences": self.partially_labeled_sentences,
            "empty_sentences": self.empty_sentences,
            "sentences_without_entities": self.sentences_without_entities,
            "overlapping_entities": self.overlapping_entities,
            "repeated_sentences": self.repeated_sentences,
        }


@dataclass
class Gaps:
    """Errors of distant labels compared with gold ones."""

    correct: int = 0
    missing: int = 0
    wrong_label: int = 0
    wrong_boundary: int = 0
    spurious: int = 0

    @classmethod
    def count(cls, pairs: Iterable[tuple[Sentence, Sentence]]) -> "Gaps":
        """Count over pairs of (distant, gold) sentences.

        A gold entity is *missing* if it overlaps no distant one; a distant one is *spurious* if it overlaps no gold one.
        """
        gaps = cls()
        for distant, gold in pairs:
            gaps.add(distant, gold)
        return gaps

    def add(self, distant: Sentence, gold: Sentence) -> None:
        """Count one pair of sentences."""
        given = set(distant.entities)
        spans = {(e.start, e.end) for e in given}
        touching, touched = OverlapIndex(given), OverlapIndex(gold.entities)
        for entity in gold.entities:
            if entity in given:
                self.correct += 1
            elif (entity.start, entity.end) in spans:
                self.wrong_label += 1
            elif touching.any(entity):
                self.wrong_boundary += 1
            else:
                self.missing += 1
        self.spurious += sum(not touched.any(entity) for entity in given)


def aligned(distant: Iterable[Sentence], gold: Iterable[Sentence], path: object) -> Iterable[tuple[Sentence, Sentence]]:
    """Pairs of sentences of two corpora, which must have the same words in the same order."""
    ours, theirs = iter(distant), iter(gold)
    number = 0
    while True:
        number += 1
        one, other = next(ours, None), next(theirs, None)
        if one is None and other is None:
            return
        if one is None or other is None:
            what = f"the two files have different numbers of sentences (one ends before sentence {number})"
            raise DataError(what, "compare annotations of the same sentences", str(path))
        if one.tokens != other.tokens:
            what = f"sentence {number} has other words ({' '.join(other.tokens[:8])} …)"
            raise DataError(what, "compare annotations of the same sentences", str(path))
        yield one, other
