"""Agreement between the sources of a corpus, and of each of them with gold annotation."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from lacuner.corpus import OUTSIDE, Entity, Sentence, Source, SourceAnnotation
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.corpus.sources import annotations_of
from lacuner.evaluation.scores import LabelScores, ScoreCounts

_COMMONEST = 5
"""Number of disagreements of a kind that are shown."""
Kind = tuple[str, str]
"""The labels given by the first and the second source."""


@dataclass
class PairAgreement:
    """Agreement of two sources on the sentences and labels that both have annotated.

    Attributes:
        first: name of a source.
        second: name of another.
        sentences: annotated by both.
        counts: scores of the first source, with the second as gold.
        labels: spans annotated by both with different labels.
        boundaries: entities that overlap one of the other source, but have no exact match.
        alone: entities of the first and of the second that overlap none of the other.
        words: label pairs of all words of these sentences.
        examples: text of the first disagreement of each kind.
    """

    first: str
    second: str
    sentences: int = 0
    counts: LabelScores = field(default_factory=LabelScores)
    labels: Counter[Kind] = field(default_factory=Counter)
    boundaries: Counter[Kind] = field(default_factory=Counter)
    alone: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    words: Counter[Kind] = field(default_factory=Counter)
    examples: dict[tuple[str, Kind], tuple[str, str]] = field(default_factory=dict)

    def add(self, sentence: Sentence, first: SourceAnnotation, second: SourceAnnotation) -> None:
        """Count one sentence."""
        ours, theirs = _comparable(first, second), _comparable(second, first)
        self.sentences += 1
        known = self.counts
        self.counts = LabelScores(
            known.correct + len(set(ours) & set(theirs)), known.predicted + len(ours), known.support + len(theirs)
        )
        self.words.update(
            zip(_labels_of_words(ours, len(sentence)), _labels_of_words(theirs, len(sentence)), strict=True)
        )
        of_theirs = OverlapIndex(theirs)
        spans = {entity.span for entity in theirs}
        for entity in ours:
            touched = of_theirs.all(entity)
            if not touched:
                self.alone[0][entity.label] += 1
            elif entity.span in spans:
                others = [other for other in touched if other.span == entity.span]
                if entity not in others:
                    self._note("label", self.labels, sentence, entity, others[0])
            else:
                self._note("boundary", self.boundaries, sentence, entity, touched[0])
        of_ours = OverlapIndex(ours)
        self.alone[1].update(entity.label for entity in theirs if not of_ours.any(entity))

    def _note(self, kind: str, counter: Counter[Kind], sentence: Sentence, one: Entity, other: Entity) -> None:
        labels = one.label, other.label
        counter[labels] += 1
        if (kind, labels) not in self.examples:
            first, second = sentence.texts_of((one, other))
            self.examples[kind, labels] = first, second

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of the words' labels; ``None`` if chance agreement is perfect, or there are no words.

        It is computed over words, as the number of spans left out by both sources is undefined. Unlabeled words count as
        ``O``, so kappa is low for sources with gaps.
        """
        total = self.words.total()
        ours: Counter[str] = Counter()
        theirs: Counter[str] = Counter()
        for (one, other), count in self.words.items():
            ours[one] += count
            theirs[other] += count
        chance = sum(ours[label] * theirs[label] for label in ours) / total**2 if total else 1.0
        if chance >= 1:
            return None
        agreed = sum(count for (one, other), count in self.words.items() if one == other) / total
        return (agreed - chance) / (1 - chance)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        return {
            "sources": [self.first, self.second],
            "sentences": self.sentences,
            "entities": [self.counts.predicted, self.counts.support],
            "common": self.counts.correct,
            "f1": self.counts.f1,
            "kappa": self.kappa,
            "labels": self._commonest("label", self.labels),
            "boundaries": self._commonest("boundary", self.boundaries),
            "alone": [dict(sorted(counts.items())) for counts in self.alone],
        }

    def _commonest(self, kind: str, counter: Counter[Kind]) -> list[dict[str, Any]]:
        return [
            {"labels": list(labels), "count": count, "example": list(self.examples[kind, labels])}
            for labels, count in counter.most_common(_COMMONEST)
        ]


@dataclass
class Agreement:
    """Counts over a stream of sentences with named sources.

    A reviewer is compared with gold annotation only: reviewers replace what others have annotated, so they cannot agree
    with them.
    """

    pairs: dict[tuple[str, str], PairAgreement] = field(default_factory=dict)
    gold: dict[str, ScoreCounts] = field(default_factory=dict)

    def add(self, sentence: Sentence, gold: Sentence | None = None) -> None:
        """Count a sentence, and its gold annotation if given."""
        said = annotations_of(sentence)
        annotators = [each for each in said if each.source != Source.REVIEWER]
        for one, other in combinations(sorted(annotators, key=lambda each: each.source), 2):
            names = one.source, other.source
            self.pairs.setdefault(names, PairAgreement(*names)).add(sentence, one, other)
        if gold is None:
            return
        for each in said:
            looked_for = _looked_for(gold.entities, each)
            entities = set(each.entities)
            self.gold.setdefault(each.source, ScoreCounts()).add(replace(gold, entities=tuple(looked_for)), entities)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        result: dict[str, Any] = {"pairs": [pair.as_dict() for _, pair in sorted(self.pairs.items())]}
        if self.gold:
            result["gold"] = {source: counts.scores().as_dict() for source, counts in sorted(self.gold.items())}
        return result

    def table(self) -> str:
        """Format as a table."""
        lines = ["", "agreement between sources (fractions; kappa is that of the words' labels)"] if self.pairs else []
        for _, pair in sorted(self.pairs.items()):
            counts, kappa = pair.counts, "–" if pair.kappa is None else f"{pair.kappa:.2f}"
            lines += [
                f"  {pair.first} / {pair.second}: {pair.sentences:,} sentences, {counts.predicted:,} and "
                f"{counts.support:,} entities, {counts.correct:,} in common, F1 {counts.f1:.2f}, kappa {kappa}"
            ]
            for name, items in (("label", pair.labels), ("boundary", pair.boundaries)):
                for labels, count in items.most_common(_COMMONEST):
                    shown = (
                        " / ".join(pair.examples[name, labels])
                        if name == "boundary"
                        else pair.examples[name, labels][0]
                    )
                    lines.append(f"    {name:<8} {count:>7,}   {' / '.join(labels)}   e.g. {shown}")
            for source, alone in zip((pair.first, pair.second), pair.alone, strict=True):
                by_label = ", ".join(f"{label} {count:,}" for label, count in alone.most_common(_COMMONEST))
                lines.append(f"    only {source}: {alone.total():,}" + (f"   {by_label}" if by_label else ""))
        if self.gold:
            width = max(map(len, self.gold))
            lines += ["", "each source against gold", f"  {'':{width}}  precision  recall      F1  support"]
            for source, of_source in sorted(self.gold.items()):
                s = of_source.scores()
                shown = f"{100 * s.precision:9.2f}  {100 * s.recall:6.2f}  {100 * s.f1:6.2f}  {s.support:7d}"
                lines.append(f"  {source:{width}}  {shown}")
        return "\n".join(lines)


def _comparable(said: SourceAnnotation, other: SourceAnnotation) -> list[Entity]:
    return _looked_for(dict.fromkeys(said.entities), other)


def _looked_for(entities: "Sequence[Entity] | dict[Entity, None]", said: SourceAnnotation) -> list[Entity]:
    labels = said.annotated_labels
    return [entity for entity in entities if labels is None or entity.label in labels]


def _labels_of_words(entities: Sequence[Entity], length: int) -> list[str]:
    """Label of each word; of nested entities, that of the longest."""
    labels = [OUTSIDE] * length
    for entity in sorted(entities, key=lambda entity: entity.end - entity.start):
        labels[entity.start : entity.end] = [entity.label] * (entity.end - entity.start)
    return labels
