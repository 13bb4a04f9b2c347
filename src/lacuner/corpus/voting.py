"""Voting: merging the annotations of several sources, in which silence is no vote."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lacuner.corpus.sentence import Entity, Sentence, SourceAnnotation, Span

Trust = Mapping[str, float]
"""Weight of each source's vote; 1 by default."""
Ties = Literal["all", "first"]
"""Which of a span's tied labels are kept: all of them, or that of the first source."""


@dataclass(frozen=True)
class Candidate:
    """An entity annotated by at least one source.

    Attributes:
        entity: with the fields given by its first source.
        sayers: indices of the sources that annotate it.
        votes: their total weight.
        against: total weight of sources that reject it, or are complete without it.
    """

    entity: Entity
    sayers: tuple[int, ...]
    votes: float
    against: float


def decide(said: Sequence[SourceAnnotation], ties: Ties = "all") -> list[Candidate]:
    """The entities of a sentence that win the vote, in which each source has its weight as votes.

    * An entity is kept unless there are more votes against it than for it: of sources that reject its span, or that are
      complete without it. An incomplete source without it does not vote.
    * Of different labels of a span, the one with the most votes is kept; of tied ones, all are kept as alternatives, unless
      ``ties`` says otherwise.
    * Of overlapping spans, the one with the most votes is kept; of tied ones, that of the earlier source, then the longer
      one.
    * Two entities that one source annotates both, or whose sources did not annotate the other's label, do not conflict, and
      both are kept.

    Args:
        said: the annotation of each source, in order of precedence.
        ties: which tied labels are kept.
    """
    chosen: list[Candidate] = []
    at_word: dict[int, list[Candidate]] = {}
    for one in sorted(_candidates(said), key=_rank):
        if one.against > one.votes:
            continue
        words = range(one.entity.start, one.entity.end)
        rivals = {id(other): other for word in words for other in at_word.get(word, ())}
        if any(_beats(other, one, said, ties) for other in rivals.values()):
            continue
        chosen.append(one)
        for word in words:
            at_word.setdefault(word, []).append(one)
    return chosen


def agreed_entities(sentence: Sentence) -> dict[Entity, bool]:
    """All entities of all sources, and whether a majority of the sources that annotate their label agrees."""
    said = sentence.by_source
    votes: dict[Entity, float] = {}
    for annotation in said:
        for entity in set(annotation.entities):
            votes[entity] = votes.get(entity, 0.0) + annotation.weight
    return {
        entity: 2 * count > sum(annotation.weight for annotation in said if _looked_for(annotation, entity))
        for entity, count in votes.items()
    }


def undecided_spans(sentence: Sentence, labels: Container[str] | None = None) -> tuple[Span, ...]:
    """Spans annotated by some source, but not by a majority of the sources that annotate the label.

    Whether they are entities, and of which label, is undecided: a source without the annotation may have missed it, or be
    right. Nothing is undecided in a complete sentence, nor about a span that is rejected, or was annotated after merging the
    sources.

    Args:
        sentence: the sentence.
        labels: omit spans that some source gives a label not among these; by default all labels.
    """
    if len(sentence.by_source) < 2 or sentence.complete:
        return ()
    agreed = agreed_entities(sentence)
    decided = {*sentence.non_entities, *(entity.span for entity in sentence.entities if entity not in agreed)}
    decided |= {e.span for e, majority in agreed.items() if majority or (labels is not None and e.label not in labels)}
    return tuple(sorted({entity.span for entity in agreed} - decided))


def _candidates(said: Sequence[SourceAnnotation]) -> list[Candidate]:
    sayers: dict[Entity, list[int]] = {}
    first: dict[Entity, Entity] = {}
    for number, annotation in enumerate(said):
        for entity in dict.fromkeys(annotation.entities):
            sayers.setdefault(entity, []).append(number)
            first.setdefault(entity, entity)
    spans = [(set(annotation.non_entities), {entity.span for entity in annotation.entities}) for annotation in said]
    return [
        Candidate(
            first[entity],
            tuple(numbers),
            sum(said[number].weight for number in numbers),
            sum(
                annotation.weight
                for annotation, (rejected, annotated) in zip(said, spans, strict=True)
                if _denies(annotation, entity, rejected, annotated)
            ),
        )
        for entity, numbers in sayers.items()
    ]


def _denies(annotation: SourceAnnotation, entity: Entity, rejected: set[Span], annotated: set[Span]) -> bool:
    """Whether a source denies that this is an entity; another label of the same span does not deny that."""
    if entity.span in rejected:
        return True
    if not annotation.complete or entity.span in annotated:
        return False
    return _looked_for(annotation, entity) and not annotation.unknown_tokens.issuperset(range(entity.start, entity.end))


def _rank(one: Candidate) -> tuple[float, int, int, Entity]:
    return -one.votes, one.sayers[0], one.entity.start - one.entity.end, one.entity


def _beats(winner: Candidate, one: Candidate, said: Sequence[SourceAnnotation], ties: Ties) -> bool:
    """Whether a chosen entity excludes another candidate."""
    if not set(winner.sayers).isdisjoint(one.sayers):
        return False
    if ties == "all" and winner.entity.span == one.entity.span and winner.votes == one.votes:
        return False
    return any(_looked_for(said[number], one.entity) for number in winner.sayers) or any(
        _looked_for(said[number], winner.entity) for number in one.sayers
    )


def _looked_for(annotation: SourceAnnotation, entity: Entity) -> bool:
    return annotation.annotated_labels is None or entity.label in annotation.annotated_labels
