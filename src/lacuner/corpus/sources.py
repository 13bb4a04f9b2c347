"""Annotation sources: which of them annotated a sentence, and what each says about a span."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lacuner.corpus.sentence import OUTSIDE, Entity, Sentence, Source, SourceAnnotation, Span

UNNAMED = "unnamed"
"""The default source, if there is no file name either."""
JOINED = "+"
"""Separator of the sources of an entity annotated by several."""
Votes = Mapping[str, frozenset[str]]
"""Each source's vote on a span: its labels, ``O`` alone for a rejection, or empty for no vote."""


def annotations_of(sentence: Sentence, name: str = UNNAMED) -> tuple[SourceAnnotation, ...]:
    """The annotation of each source of a sentence, whether sources are separate or only named by its entities.

    Entities and rejected spans missing from ``by_source`` belong to the source that they name, such as a later reviewer.

    Args:
        sentence: the sentence.
        name: the source of entities and rejected spans that name none.
    """
    said = {annotation.source: annotation for annotation in sentence.by_source}
    known = {entity for annotation in said.values() for entity in annotation.entities}
    rejected = {span for annotation in said.values() for span in annotation.non_entities}
    entities: dict[str, list[Entity]] = {}
    spans: dict[str, list[Span]] = {}
    for entity in sentence.entities:
        if entity not in known:
            for source in names_of(entity.source, name):
                entities.setdefault(source, []).append(entity)
    for span in sentence.non_entities:
        if span not in rejected:
            for source in names_of(span.source, name):
                spans.setdefault(source, []).append(span)
    for source in dict.fromkeys((*entities, *spans)):
        before = said.get(source, SourceAnnotation(source, annotated_labels=sentence.annotated_labels))
        added = tuple(entities.get(source, ()))
        annotated = {(entity.start, entity.end) for entity in (*before.entities, *added)}
        denied = (*before.non_entities, *spans.get(source, ()))
        kept = tuple(span for span in denied if (span.start, span.end) not in annotated)
        said[source] = replace(before, entities=(*before.entities, *added), non_entities=kept)
    return tuple(said.values())


def with_sources(sentences: Sequence[Sentence], name: str = UNNAMED) -> list[Sentence]:
    """Separate the sources of all sentences.

    A sentence without separate sources counts as annotated by every source named in such sentences, except reviewers: these
    decide about single spans, so they only annotated the sentences with their decisions.

    Args:
        sentences: such as those of one file.
        name: the source of entities that name none, and of a file without source names.
    """
    named = list(named_sources(sentences, name))
    return [with_sources_apart(sentence, name, named) for sentence in sentences]


def with_sources_apart(sentence: Sentence, name: str, named: Sequence[str]) -> Sentence:
    """Separate the sources of one sentence from a file that names the sources ``named``."""
    if sentence.by_source:
        return sentence
    looked = [source for source in named if source != Source.REVIEWER or len(named) == 1] or [name]
    return _apart(sentence, name, looked)


def has_several_sources(sentences: Sequence[Sentence], name: str = UNNAMED) -> bool:
    """Whether sentences without separate sources name more than one."""
    return len(named_sources(sentences, name)) > 1


def named_sources(sentences: Iterable[Sentence], name: str = UNNAMED) -> dict[str, None]:
    """The sources named in sentences without separate sources, in order of appearance."""

    def each() -> Iterator[str]:
        for sentence in sentences:
            if not sentence.by_source:
                spans: tuple[Entity | Span, ...] = (*sentence.entities, *sentence.non_entities)
                for span in spans:
                    yield from names_of(span.source, name)

    return dict.fromkeys(each())


def votes_of(sentence: Sentence) -> dict[tuple[int, int], Votes]:
    """Every span that a source of the sentence annotates or rejects, with the vote of each source.

    Each value has all sources that annotated the sentence. One without annotation of the span has no labels there, or ``O``
    if it is complete and annotates all labels.
    """
    annotations = annotations_of(sentence)
    spoken: list[dict[tuple[int, int], set[str]]] = []
    for annotation in annotations:
        labels: dict[tuple[int, int], set[str]] = {
            (span.start, span.end): {OUTSIDE} for span in annotation.non_entities
        }
        for entity in annotation.entities:
            labels.setdefault((entity.start, entity.end), set()).add(entity.label)
        spoken.append(labels)
    return {
        span: {
            annotation.source: frozenset(labels.get(span) or ({OUTSIDE} if _denies_all(annotation, span) else ()))
            for annotation, labels in zip(annotations, spoken, strict=True)
        }
        for span in sorted({span for labels in spoken for span in labels})
    }


def names_of(source: str | None, name: str) -> Iterable[str]:
    """Split a joined source name; ``name`` if it is empty."""
    return [part for part in (source or "").split(JOINED) if part] or [name]


def join_names(*sources: str | None) -> str:
    """Join source names, without duplicates."""
    return JOINED.join(dict.fromkeys(part for source in sources if source for part in source.split(JOINED)))


def _apart(sentence: Sentence, name: str, looked: Sequence[str]) -> Sentence:
    said = {annotation.source: annotation for annotation in annotations_of(sentence, name)}
    silent = [source for source in looked if source not in said]
    said |= {source: SourceAnnotation(source, annotated_labels=sentence.annotated_labels) for source in silent}
    if len(said) == 1:  # of several sources, none claims by itself that the sentence is complete
        said = {
            source: replace(only, complete=sentence.complete, unknown_tokens=sentence.unknown_tokens)
            for source, only in said.items()
        }
    order = [*looked, *(source for source in said if source not in looked)]
    return replace(sentence, by_source=tuple(said[source] for source in order))


def _denies_all(annotation: SourceAnnotation, span: tuple[int, int]) -> bool:
    return (
        annotation.complete
        and annotation.annotated_labels is None
        and not annotation.unknown_tokens.issuperset(range(*span))
    )
