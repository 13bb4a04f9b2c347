"""Exports of findings to annotation tools, as suggestions in their sentences."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lacuner.audit.finding import Finding
from lacuner.corpus import OUTSIDE, Corpus, Entity, Sentence
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.registry import writer_of


class _Export(NamedTuple):
    """An export file for a tool.

    Attributes:
        format: its name in the registry.
        number_in: the field that holds the sentence's number; ``None``: a separate field.
    """

    format: str
    number_in: str | None = None


_EXPORTS = {
    "label-studio.json": _Export("label_studio"),
    "doccano.jsonl": _Export("doccano"),
    "prodigy.jsonl": _Export("prodigy", "meta"),
    "argilla.json": _Export("argilla", "metadata"),
}


def write_exports(folder: Path, corpus: Corpus, findings: Iterable[Finding]) -> list[Path]:
    """Write one file per tool, with only the sentences that have findings, best first."""
    folder.mkdir(parents=True, exist_ok=True)
    by_sentence: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_sentence[finding.sentence].append(finding)
    scores = [max(finding.probability for finding in found) for found in by_sentence.values()]
    written = []
    for name, export in _EXPORTS.items():
        path = folder / name
        sentences = (_suggested(corpus[n], n, found, export.number_in) for n, found in by_sentence.items())
        with open_for_writing(path) as file:
            options = WriteOptions(name=str(path), agent="lacuner audit", scores=scores, suggestions=True)
            writer_of(path, export.format)(sentences, file, options)
        written.append(path)
    return written


def _suggested(sentence: Sentence, number: int, found: Iterable[Finding], number_in: str | None) -> Sentence:
    """The sentence with its findings as scored entities; entities that a finding would replace are omitted."""
    found = list(found)
    replaced = {finding.annotated for finding in found if finding.annotated is not None}
    annotated = [replace(entity, score=None) for entity in sentence.entities if entity not in replaced]
    suggested = [Entity(f.start, f.end, f.label, score=f.probability) for f in found if f.label != OUTSIDE]
    spans = {(entity.start, entity.end) for entity in suggested}
    return replace(
        sentence,
        entities=(*annotated, *suggested),
        non_entities=tuple(span for span in sentence.non_entities if (span.start, span.end) not in spans),
        extra=_numbered(sentence.extra, number, number_in),
    )


def _numbered(extra: Mapping[str, Any], number: int, number_in: str | None) -> dict[str, Any]:
    if number_in is None:
        return {**extra, "sentence": number}
    others = extra.get(number_in)
    others = dict(others) if isinstance(others, Mapping) else {}
    own_id = {"id": number} if number_in == "metadata" and "id" not in extra else {}
    return {**own_id, **extra, number_in: others | {"sentence": number}}
