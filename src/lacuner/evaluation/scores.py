"""Precision, recall and F1 of exact matches, as in conlleval; entities may be nested."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lacuner.corpus import Entity, Sentence


@dataclass(frozen=True)
class LabelScores:
    """Counts and derived scores. A ratio without a denominator is 0, as in conlleval."""

    correct: int = 0
    predicted: int = 0
    support: int = 0

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        both = self.predicted + self.support
        return 2 * self.correct / both if both else 0.0

    @property
    def pu_estimate(self) -> float:
        """Recall² divided by predictions per annotated entity: a selection metric for incomplete dev data (Lee & Liu 2003).

        With incomplete annotation, recall can be measured, but precision cannot: a seeming false positive may just be
        unannotated. But recall² / Pr(predicted) is proportional to true precision · recall if annotated entities are a random
        sample. Here it is scaled to equal their product if annotation is complete.
        """
        return self.recall**2 * self.support / self.predicted if self.predicted else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.support}


@dataclass(frozen=True)
class Scores(LabelScores):
    """Scores over all labels (micro), with those of each label."""

    labels: dict[str, LabelScores] = field(default_factory=dict)

    @property
    def macro(self) -> dict[str, float]:
        """Unweighted means over the labels that were annotated or predicted."""
        names = ("precision", "recall", "f1")
        count = max(1, len(self.labels))
        return {name: sum(getattr(label, name) for label in self.labels.values()) / count for name in names}

    def as_dict(self) -> dict[str, Any]:
        own = super().as_dict() | {"macro": self.macro, "pu_estimate": self.pu_estimate}
        return own | {"labels": {name: label.as_dict() for name, label in self.labels.items()}}

    def table(self) -> str:
        """Format as a table, in percent."""
        rows = [(name, scores) for name, scores in self.labels.items()]
        width = max([len(name) for name, _ in rows] + [len("macro")])
        lines = [f"{'':{width}}  precision  recall      F1  support"]
        for name, scores in rows:
            lines.append(_row(name, width, scores.precision, scores.recall, scores.f1, scores.support))
        lines.append(_row("micro", width, self.precision, self.recall, self.f1, self.support))
        lines.append(
            _row("macro", width, self.macro["precision"], self.macro["recall"], self.macro["f1"], self.support)
        )
        return "\n".join(lines)


@dataclass
class ScoreCounts:
    """Counts by label over a stream of sentences."""

    correct: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    support: Counter[str] = field(default_factory=Counter)

    def add(self, sentence: Sentence, found: Iterable[Entity]) -> None:
        """Count an annotated sentence and its predictions."""
        gold, guesses = comparable_entities(sentence, found)
        self.support.update(entity.label for entity in gold)
        self.predicted.update(entity.label for entity in guesses)
        self.correct.update(entity.label for entity in gold & guesses)

    def scores(self) -> Scores:
        """Scores derived from the counts."""
        names = sorted(self.support.keys() | self.predicted.keys())
        labels = {name: LabelScores(self.correct[name], self.predicted[name], self.support[name]) for name in names}
        return Scores(self.correct.total(), self.predicted.total(), self.support.total(), labels)


def score_entities(pairs: Iterable[tuple[Sentence, Iterable[Entity]]]) -> Scores:
    """Score predicted against annotated entities, over pairs of (annotated sentence, prediction).

    Entities are compared as sets, so they may be nested on both sides. Predictions that the annotation cannot judge are
    ignored: those of labels that were not annotated (``annotated_labels``), and those inside words marked as unknown. A span
    annotated with several labels has one of them, as in training: it counts as one entity, found by a prediction of any of
    these labels.
    """
    counts = ScoreCounts()
    for sentence, found in pairs:
        counts.add(sentence, found)
    return counts.scores()


def comparable_entities(sentence: Sentence, predicted: Iterable[Entity]) -> tuple[set[Entity], set[Entity]]:
    """The annotated entities, and the predictions that the annotation can judge.

    Of a span annotated with several labels, one is kept on either side: one that was predicted, if any.
    """
    gold, found = set(sentence.entities), set(predicted)
    if len(gold) > 1:
        _settle_alternatives(gold, found)
    if sentence.annotated_labels is not None:
        sought = sentence.annotated_labels | {entity.label for entity in gold}
        found = {entity for entity in found if entity.label in sought}
    if sentence.unknown_tokens:
        undecided = {e for e in found if sentence.unknown_tokens.issuperset(range(e.start, e.end))}
        found -= undecided - gold
    return gold, found


def _settle_alternatives(gold: set[Entity], found: set[Entity]) -> None:
    """Keep one label of every span annotated with several."""
    by_span: dict[tuple[int, int], list[Entity]] = defaultdict(list)
    for entity in sorted(gold):
        by_span[entity.start, entity.end].append(entity)
    for alternatives in by_span.values():
        if len(alternatives) > 1:
            kept = next((entity for entity in alternatives if entity in found), alternatives[0])
            others = set(alternatives) - {kept}
            gold -= others
            if kept in found:
                found -= others


def _row(name: str, width: int, precision: float, recall: float, f1: float, support: int) -> str:
    return f"{name:{width}}  {100 * precision:9.2f}  {100 * recall:6.2f}  {100 * f1:6.2f}  {support:7d}"
