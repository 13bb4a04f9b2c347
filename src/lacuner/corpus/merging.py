"""Merging several annotations of the same text: the annotation of each source is kept, and conflicts are counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lacuner.corpus.corpus import Corpus
from lacuner.corpus.files import STANDARD_INPUT
from lacuner.corpus.sentence import Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.sources import JOINED, UNNAMED, annotations_of, has_several_sources, join_names, with_sources
from lacuner.corpus.voting import Candidate, Ties, Trust, decide
from lacuner.errors import ConfigError, DataError

REJECTED_BY = "rejected_by"
"""Field of an entity with the sources that have rejected it."""
Words = tuple[str, ...]
_Key = tuple[Words, int]
"""The words of a sentence, and the number of earlier sentences with the same words."""


@dataclass(frozen=True)
class Layer:
    """The annotation of the text by one annotator.

    Attributes:
        name: the source of entities and rejected spans that name none themselves.
        sentences: with its annotation.
    """

    name: str
    sentences: Sequence[Sentence]


@dataclass
class MergeReport:
    """Statistics of a merge.

    Attributes:
        sentences: in the result.
        entities: in the result; the same span with the same label counts once.
        agreed: of these, those annotated by at least two sources.
        conflicts: spans with different labels by different sources.
        tied: conflicts that keep several labels, because of equal votes.
        outvoted: entities that lose the vote; kept in ``by_source`` only.
        rejected: entities that another source rejects; they are kept, with a field ``rejected_by``.
        denied: entities missing from another source that is complete; they are kept.
        fields: other fields with several values; that of the first layer is kept.
        missing: sentences of the result that a layer lacks, by its name.
        shared: sources named by several layers; they are treated as one.
    """

    sentences: int = 0
    entities: int = 0
    agreed: int = 0
    conflicts: int = 0
    tied: int = 0
    outvoted: int = 0
    rejected: int = 0
    denied: int = 0
    fields: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    shared: tuple[str, ...] = ()

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the user, one sentence each."""
        if self.conflicts:
            yield (
                f"{self.conflicts:,} spans have different labels: the one with the most votes is used, "
                "or all of them if the votes are tied, and each may be the right one."
            )
        if self.tied:
            yield f"{self.tied:,} spans keep several labels, because the votes are tied."
        if self.outvoted:
            yield f"{self.outvoted:,} entities are outvoted; they are kept only in by_source, with their sources."
        if self.rejected:
            yield f"{self.rejected:,} entities are rejected by another source; they are kept with the field rejected_by."
        if self.denied:
            yield f"{self.denied:,} entities are not annotated in a file that is complete; they are kept."
        if self.fields:
            yield f"{self.fields:,} other fields have different values; those of the first file are kept."
        for name, count in self.missing.items():
            yield f"{count:,} of the {self.sentences:,} sentences are not in {name}."
        for source in self.shared:
            yield f"several files have the source {source}; it is treated as one source."


def merge_layers(
    layers: Sequence[Layer], trust: Trust | None = None, ties: Ties = "all"
) -> tuple[list[Sentence], MergeReport]:
    """Merge the annotation of all layers, in the order of the first layer.

    Sentences are matched by their words; of several with the same words, the first of one layer matches the first of another,
    and so on. A sentence missing from the first layer follows its predecessor in its own layer.

    Args:
        layers: in order of precedence.
        trust: weights of the sources' votes; others keep their own weight, usually 1.
        ties: which labels of a span are kept if they have equal votes.
    """
    told = [with_sources(layer.sentences, layer.name) for layer in layers]
    sources = [{said.source for sentence in sentences for said in sentence.by_source} for sentences in told]
    _check_trust(trust or {}, set().union(*sources))
    found: dict[_Key, list[tuple[str, Sentence]]] = {}
    for layer, sentences in zip(layers, told, strict=True):
        for key, sentence in _keyed(sentences):
            found.setdefault(key, []).append((layer.name, sentence))
    if len(layers) > 1 and found and all(len(versions) == 1 for versions in found.values()):
        what = "no sentence occurs in two of the files: their texts or their words differ"
        raise DataError(what, "merge annotations of the same words; train takes files with different texts as they are")
    times = Counter(source for named in sources for source in named)
    report, merged = MergeReport(shared=tuple(sorted(source for source in times if times[source] > 1))), []
    for key in _in_order(layers):
        versions = found[key]
        present = {name for name, _ in versions}
        report.missing.update(layer.name for layer in layers if layer.name not in present)
        merged.append(merge_sentences(versions, report, trust, ties))
    return merged, report


def count_shared(corpora: Sequence[Corpus]) -> tuple[int, int]:
    """Number of distinct sentences that are in several corpora, and how many of these differ in their entities."""
    found: dict[Words, dict[int, frozenset[Entity]]] = {}
    for number, corpus in enumerate(corpora):
        for sentence in corpus:
            found.setdefault(sentence.tokens, {}).setdefault(number, frozenset(sentence.entities))
    shared = [versions for versions in found.values() if len(versions) > 1]
    return len(shared), sum(len(set(versions.values())) > 1 for versions in shared)


def source_names(paths: Sequence[str | Path]) -> list[str]:
    """Names of files as sources: without extension, with extension, or the path, whichever is the first to be unique."""
    named = [Path(path) for path in paths]
    choices = [[_stem(path) for path in named], [path.name for path in named], [str(path) for path in named]]
    names = next((choice for choice in choices if len(set(choice)) == len(choice)), None)
    if names is None:
        twice = next(str(path) for path in named if named.count(path) > 1)
        raise ConfigError(f"{twice} is given twice — leave out one of them")
    return ["standard input" if name == STANDARD_INPUT else name.replace(JOINED, "_") for name in names]


def tell_sources_apart(corpus: Corpus, name: str = UNNAMED) -> tuple[Corpus, MergeReport | None]:
    """Merge a corpus whose entities name several sources as if each source had its own file; return others unchanged.

    Sentences that already have separate sources are unchanged: their entities are the result of an earlier merge.

    Args:
        corpus: such as that of one file.
        name: the source of entities that name none.
    """
    if not has_several_sources(corpus.sentences, name):
        return corpus, None
    report = MergeReport()
    told = with_sources(corpus.sentences, name)
    merged = (
        before if before.by_source else merge_sentences([(name, after)], report)
        for before, after in zip(corpus, told, strict=True)
    )
    return Corpus(tuple(merged), corpus.report), report


def merge_sentences(
    versions: Sequence[tuple[str, Sentence]], report: MergeReport, trust: Trust | None = None, ties: Ties = "all"
) -> Sentence:
    """Merge several versions of a sentence, each with the name of its layer.

    ``by_source`` keeps each source's annotation; the entities are those that win the vote (:func:`decide`). The result is
    complete if one of the versions is, for the labels annotated by the complete ones. Otherwise, all labels annotated by any
    version count as annotated. A word is unknown if any version says so, unless another one covers the same labels and knows
    it.
    """
    first = versions[0][1]
    complete = [sentence for _, sentence in versions if sentence.complete]
    said = _joined([annotation for name, sentence in versions for annotation in _said(name, sentence)])
    if trust:
        said = [replace(annotation, weight=trust.get(annotation.source, annotation.weight)) for annotation in said]
    rejected: dict[Span, Span] = {}
    for annotation in said:
        for span in annotation.non_entities:
            other = rejected.get(span)
            sources = join_names(None if other is None else other.source, annotation.source)
            rejected[span] = replace(other or span, source=sources, extra={**span.extra, **(other or span).extra})
    chosen = decide(said, ties)
    entities = [_merged_entity(one, said, rejected) for one in chosen]
    annotated = {entity.span for entity in entities}
    _count(report, chosen, said)
    spelled = next((sentence for _, sentence in versions if sentence.text is not None), first)
    return Sentence(
        tokens=first.tokens,
        entities=tuple(entities),
        non_entities=tuple(span for span in rejected.values() if span not in annotated),
        complete=bool(complete),
        annotated_labels=_looked_for(complete or [sentence for _, sentence in versions]),
        unknown_tokens=_unknown(complete or [sentence for _, sentence in versions], bool(complete)),
        text=spelled.text,
        token_offsets=spelled.token_offsets,
        by_source=tuple(said),
        extra=_merge_fields([sentence.extra for _, sentence in versions], report),
    )


def _said(name: str, sentence: Sentence) -> Iterable[SourceAnnotation]:
    """The source annotations of a version; if its sources are not separate, those of a file with only this sentence."""
    return annotations_of(sentence if sentence.by_source else with_sources([sentence], name)[0], name)


def _joined(said: Iterable[SourceAnnotation]) -> list[SourceAnnotation]:
    """Combine annotations by the same source; if they contradict each other, annotation wins over rejection."""
    joined: dict[str, SourceAnnotation] = {}
    for annotation in said:
        before = joined.get(annotation.source)
        if before is None:
            joined[annotation.source] = annotation
            continue
        entities = tuple(dict.fromkeys((*before.entities, *annotation.entities)))
        annotated = {entity.span for entity in entities}
        spans = dict.fromkeys((*before.non_entities, *annotation.non_entities))
        joined[annotation.source] = SourceAnnotation(
            annotation.source,
            entities,
            tuple(span for span in spans if span not in annotated),
            before.complete or annotation.complete,
            _looked_for([each for each in (before, annotation) if each.complete] or [before, annotation]),
            before.unknown_tokens & annotation.unknown_tokens,
            before.weight,
        )
    return list(joined.values())


def _merged_entity(one: Candidate, said: Sequence[SourceAnnotation], rejected: Mapping[Span, Span]) -> Entity:
    """An entity with all of its sources, and the fields given by any of them."""
    versions = [entity for number in one.sayers for entity in said[number].entities if entity == one.entity]
    extra: dict[str, Any] = {}
    for entity in versions:
        extra = {**entity.extra, **extra}
    if one.entity.span in rejected:
        extra[REJECTED_BY] = rejected[one.entity.span].source
    return replace(
        one.entity,
        text=next((entity.text for entity in versions if entity.text is not None), None),
        score=next((entity.score for entity in versions if entity.score is not None), None),
        source=join_names(*(said[number].source for number in one.sayers)),
        extra=extra,
    )


def _count(report: MergeReport, chosen: Sequence[Candidate], said: Sequence[SourceAnnotation]) -> None:
    given = [_labels_of_spans(annotation) for annotation in said]
    everything = {entity for annotation in said for entity in annotation.entities}
    rejected = {span for annotation in said for span in annotation.non_entities}
    report.sentences += 1
    report.entities += len(chosen)
    report.agreed += sum(len(one.sayers) > 1 for one in chosen)
    report.outvoted += len(everything) - len(chosen)
    report.rejected += sum(one.entity.span in rejected for one in chosen)
    report.denied += sum(one.against > 0 and one.entity.span not in rejected for one in chosen)
    sayers: dict[Span, list[tuple[int, ...]]] = {}
    for one in chosen:
        sayers.setdefault(one.entity.span, []).append(one.sayers)
    report.tied += sum(len(groups) > 1 and not set(groups[0]).issuperset(*groups[1:]) for groups in sayers.values())
    for span in {entity.span for entity in everything}:
        report.conflicts += len({frozenset(labels[span]) for labels in given if span in labels}) > 1


def _labels_of_spans(said: SourceAnnotation) -> dict[Span, set[str]]:
    labels: dict[Span, set[str]] = {}
    for entity in said.entities:
        labels.setdefault(entity.span, set()).add(entity.label)
    return labels


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem or path.name


def _check_trust(trust: Trust, sources: set[str]) -> None:
    for source, weight in trust.items():
        if source not in sources:
            named = ", ".join(sorted(sources)) or "none"
            raise ConfigError(f"trust: there is no source {source!r} — choose one of: {named}")
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"trust: the weight of {source} must be a number that is not negative, not {weight:g}")


def _looked_for(versions: Iterable[Sentence | SourceAnnotation]) -> frozenset[str] | None:
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


def _keyed(sentences: Iterable[Sentence]) -> Iterator[tuple[_Key, Sentence]]:
    seen: Counter[Words] = Counter()
    for sentence in sentences:
        yield (sentence.tokens, seen[sentence.tokens]), sentence
        seen[sentence.tokens] += 1


def _in_order(layers: Sequence[Layer]) -> Iterator[_Key]:
    """Every sentence once: those of the first layer, and each other one after its predecessor in its own layer."""
    following: dict[_Key | None, _Key | None] = {None: None}  # a linked list that begins and ends with None
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
