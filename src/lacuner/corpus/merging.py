"""Several annotations of the same text as one: who said what is kept, and where they contradict each other is counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lacuner.corpus.sentence import Entity, Sentence, Span
from lacuner.errors import DataError

REJECTED_BY = "rejected_by"
"""Field of an entity that others have rejected: who they are."""
_JOINED = "+"
Words = tuple[str, ...]
_Key = tuple[Words, int]
"""The words of a sentence, and how many sentences with the same words are before it."""


@dataclass(frozen=True)
class Layer:
    """What one of the annotators says.

    Attributes:
        name: the source of entities and rejected spans that name none themselves.
        sentences: what it says about each.
    """

    name: str
    sentences: Sequence[Sentence]


@dataclass
class MergeReport:
    """How well layers fit each other.

    Attributes:
        sentences: in the result.
        entities: in the result; the same span with the same label counts once.
        agreed: of these, those that at least two layers have.
        conflicts: spans that have another label in another layer; all labels are kept.
        rejected: entities that another layer rejects; they stay, and have a field ``rejected_by``.
        denied: entities of a layer where another one says that everything is annotated, but not this.
        fields: other fields with several values; that of the first layer is kept.
        missing: sentences of the result that a layer lacks, by its name.
    """

    sentences: int = 0
    entities: int = 0
    agreed: int = 0
    conflicts: int = 0
    rejected: int = 0
    denied: int = 0
    fields: int = 0
    missing: Counter[str] = field(default_factory=Counter)


def merge_layers(layers: Sequence[Layer]) -> tuple[list[Sentence], MergeReport]:
    """Sentences with what every layer says about them, in the order of the first layer.

    Sentences are the same if their words are; of several with the same words, the first of one layer is the first of
    another, and so on. A sentence that the first layer lacks follows the one that it follows in its own layer.
    """
    found: dict[_Key, list[tuple[str, Sentence]]] = {}
    for layer in layers:
        for key, sentence in _keyed(layer.sentences):
            found.setdefault(key, []).append((layer.name, sentence))
    if len(layers) > 1 and found and all(len(versions) == 1 for versions in found.values()):
        what = "no sentence is in two of the files: their texts, or their words, are different"
        raise DataError(what, "merge annotations of the same words; train takes files with different texts as they are")
    report, merged = MergeReport(), []
    for key in _in_order(layers):
        versions = found[key]
        present = {name for name, _ in versions}
        report.missing.update(layer.name for layer in layers if layer.name not in present)
        merged.append(merge_sentences(versions, report))
    return merged, report


def merge_sentences(versions: Sequence[tuple[str, Sentence]], report: MergeReport) -> Sentence:
    """One sentence out of several with the same words, each with the name of its layer.

    It is complete if one of them is, and then for the labels that those looked for. Otherwise, what anybody looked for was
    looked for. A word is unknown if anybody says so, unless another one knows the same labels and does not.
    """
    first = versions[0][1]
    complete = [sentence for _, sentence in versions if sentence.complete]
    entities = _merge_entities(versions, report)
    rejected: dict[tuple[int, int], Span] = {}
    for name, sentence in versions:
        for span in sentence.non_entities:
            place = span.start, span.end
            named = replace(span, source=span.source or name)
            if place not in rejected:
                rejected[place] = named
            else:
                other = rejected[place]
                sources, extra = _joined(other.source, named.source), {**named.extra, **other.extra}
                rejected[place] = replace(other, source=sources, extra=extra)
    contradicted = {(entity.start, entity.end) for entity in entities} & rejected.keys()
    entities = [
        _with_field(entity, REJECTED_BY, rejected[entity.start, entity.end].source)
        if (entity.start, entity.end) in contradicted
        else entity
        for entity in entities
    ]
    report.sentences += 1
    report.entities += len(entities)
    report.rejected += sum((entity.start, entity.end) in contradicted for entity in entities)
    spelled = next((sentence for _, sentence in versions if sentence.text is not None), first)
    return Sentence(
        tokens=first.tokens,
        entities=tuple(entities),
        non_entities=tuple(span for place, span in rejected.items() if place not in contradicted),
        complete=bool(complete),
        annotated_labels=_looked_for(complete or [sentence for _, sentence in versions]),
        unknown_tokens=_unknown(complete or [sentence for _, sentence in versions], bool(complete)),
        text=spelled.text,
        token_offsets=spelled.token_offsets,
        extra=_merge_fields([sentence.extra for _, sentence in versions], report),
    )


def _merge_entities(versions: Sequence[tuple[str, Sentence]], report: MergeReport) -> list[Entity]:
    merged: dict[Entity, Entity] = {}
    said: Counter[Entity] = Counter()
    for name, sentence in versions:
        for entity in dict.fromkeys(sentence.entities):
            named = replace(entity, source=entity.source or name)
            said[entity] += 1
            if entity not in merged:
                merged[entity] = named
                continue
            other = merged[entity]
            merged[entity] = replace(
                other,
                text=named.text if other.text is None else other.text,
                score=named.score if other.score is None else other.score,
                source=_joined(other.source, named.source),
                extra={**named.extra, **other.extra},
            )
    report.agreed += sum(count > 1 for count in said.values())
    given = [_labels_of_spans(sentence) for _, sentence in versions]
    for span in {(entity.start, entity.end) for entity in merged}:
        report.conflicts += len({frozenset(labels[span]) for labels in given if span in labels}) > 1
    for (_, sentence), labels in zip(versions, given, strict=True):
        if sentence.complete:
            decided = labels.keys() | {(span.start, span.end) for span in sentence.non_entities}
            report.denied += sum(
                (entity.start, entity.end) not in decided
                and entity.label not in sentence.unannotated_labels(entity.start, entity.end, (entity.label,))
                for entity in merged
            )
    return list(merged.values())


def _labels_of_spans(sentence: Sentence) -> dict[tuple[int, int], set[str]]:
    labels: dict[tuple[int, int], set[str]] = {}
    for entity in sentence.entities:
        labels.setdefault((entity.start, entity.end), set()).add(entity.label)
    return labels


def _looked_for(versions: Iterable[Sentence]) -> frozenset[str] | None:
    labels: set[str] = set()
    for sentence in versions:
        if sentence.annotated_labels is None:
            return None
        labels |= sentence.annotated_labels
    return frozenset(labels)


def _unknown(versions: Sequence[Sentence], complete: bool) -> frozenset[int]:
    unknown = [sentence.unknown_tokens for sentence in versions]
    same = len({sentence.annotated_labels for sentence in versions}) == 1
    return frozenset.intersection(*unknown) if complete and same else frozenset[int]().union(*unknown)


def _merge_fields(fields: Sequence[Mapping[str, Any]], report: MergeReport) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for each in fields:
        report.fields += sum(key in merged and merged[key] != value for key, value in each.items())
        merged = {**each, **merged}
    return merged


def _joined(one: str | None, other: str | None) -> str:
    """Both sources, each once."""
    return _JOINED.join(dict.fromkeys(part for source in (one, other) if source for part in source.split(_JOINED)))


def _with_field(entity: Entity, name: str, value: str | None) -> Entity:
    return replace(entity, extra={**entity.extra, name: value})


def _keyed(sentences: Iterable[Sentence]) -> Iterator[tuple[_Key, Sentence]]:
    seen: Counter[Words] = Counter()
    for sentence in sentences:
        yield (sentence.tokens, seen[sentence.tokens]), sentence
        seen[sentence.tokens] += 1


def _in_order(layers: Sequence[Layer]) -> Iterator[_Key]:
    """Every sentence once: those of the first layer, and each other one after that which it follows in its layer."""
    following: dict[_Key | None, _Key | None] = {None: None}  # a chain that begins and ends with None
    for layer in layers:
        previous: _Key | None = None
        for key, _ in _keyed(layer.sentences):
            if key not in following:
                following[key], following[previous] = following[previous], key
            previous = key
    reached = following[None]
    while reached is not None:
        yield reached
        reached = following[reached]
