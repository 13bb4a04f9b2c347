"""Conversion between sentences and JSON objects: the only place that knows the field names."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.span_keys import LABEL_NAMES, note_unread
from lacuner.corpus.sentence import NO_FIELDS, Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.voting import decide
from lacuner.errors import DataError

SENTENCE_KEYS = frozenset(
    {
        "text", "tokens", "token_offsets", "entities", "non_entities", "complete", "annotated_labels", "unknown_tokens",
        "by_source",
    }
)  # fmt: skip
"""Known keys of a record; all others are passed through."""
_SOURCE_KEYS = frozenset(
    {"source", "entities", "non_entities", "complete", "annotated_labels", "unknown_tokens", "weight"}
)


def sentence_to_record(sentence: Sentence) -> dict[str, Any]:
    """``tokens`` and ``entities``, all other fields without default values, and the unknown fields of the sentence."""
    return own_fields(sentence) | dict(sentence.extra)


def own_fields(sentence: Sentence) -> dict[str, Any]:
    """The record of a sentence without unknown fields."""
    record: dict[str, Any] = {}
    if sentence.text is not None:
        record["text"] = sentence.text
    record["tokens"] = list(sentence.tokens)
    if sentence.token_offsets is not None:
        record["token_offsets"] = [list(pair) for pair in sentence.token_offsets]
    record |= _annotation_to_record(sentence)
    if sentence.by_source:
        record["by_source"] = [_source_to_record(said) for said in sentence.by_source]
    return record


def _annotation_to_record(said: Sentence | SourceAnnotation) -> dict[str, Any]:
    record: dict[str, Any] = {"entities": [entity_to_record(entity) for entity in said.entities]}
    if said.non_entities:
        record["non_entities"] = [span_to_record(span) for span in said.non_entities]
    if said.complete:
        record["complete"] = True
    if said.annotated_labels is not None:
        record["annotated_labels"] = sorted(said.annotated_labels)
    if said.unknown_tokens:
        record["unknown_tokens"] = sorted(said.unknown_tokens)
    return record


def _source_to_record(said: SourceAnnotation) -> dict[str, Any]:
    """The same for one source, whose name is given only once."""
    record = _annotation_to_record(said)
    for span in (*record["entities"], *record.get("non_entities", ())):
        del span["source"]
    weight = {} if said.weight == 1 else {"weight": said.weight}
    return {"source": said.source} | weight | record


def entity_to_record(entity: Entity) -> dict[str, Any]:
    """``start``, ``end``, ``label``, and ``text``, ``score``, ``source`` and other fields if known."""
    record: dict[str, Any] = {"start": entity.start, "end": entity.end, "label": entity.label}
    if entity.text is not None:
        record["text"] = entity.text
    if entity.score is not None:
        record["score"] = round(entity.score, 6)
    if entity.source is not None:
        record["source"] = entity.source
    return record | dict(entity.extra) if entity.extra else record


def span_to_record(span: Span) -> dict[str, Any]:
    """``start``, ``end``, and ``source`` and other fields if known."""
    record: dict[str, Any] = {"start": span.start, "end": span.end}
    if span.source is not None:
        record["source"] = span.source
    return record | dict(span.extra)


def sentence_from_record(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport | None = None
) -> Sentence:
    """The sentence of a record whose spans are in word offsets."""
    _check_tokens(record, path, line)
    entities = [entity_from_record(item, path, line) for item in items_of(record, "entities", path, line)]
    rejected = [span_from_record(item, path, line) for item in items_of(record, "non_entities", path, line)]
    by_source = sources_from_record(record, path, line)
    unknown = record.keys() - SENTENCE_KEYS
    extra = {key: value for key, value in record.items() if key in unknown} if unknown else NO_FIELDS
    return build_sentence(record, record["tokens"], entities, rejected, extra, path, line, report, by_source)


def sources_from_record(record: Mapping[str, Any], path: str | Path, line: int) -> tuple[SourceAnnotation, ...]:
    """The annotation of each source, under ``by_source``: a list of objects with ``source``, ``entities`` and the like."""
    found = []
    for item in items_of(record, "by_source", path, line):
        if not isinstance(item, Mapping) or not isinstance(item.get("source"), str) or not item["source"]:
            what = '"by_source" must be a list of objects, each with its "source"'
            raise DataError(what, 'write [{"source": name, "entities": […]}, …]', path, line)
        if unknown := sorted(item.keys() - _SOURCE_KEYS):
            what = f'"by_source" has the field {unknown[0]!r}, which is not known there'
            raise DataError(what, "remove it", path, line)
        _check_fields(item, path, line)
        labels, weight = item.get("annotated_labels"), item.get("weight", 1.0)
        if type(weight) not in (int, float) or not 0 <= weight < float("inf"):
            raise DataError('"weight" must be a number that is not negative', "correct the record", path, line)
        found.append(
            SourceAnnotation(
                source=item["source"],
                entities=tuple(entity_from_record(each, path, line) for each in items_of(item, "entities", path, line)),
                non_entities=tuple(
                    span_from_record(each, path, line) for each in items_of(item, "non_entities", path, line)
                ),
                complete=bool(item.get("complete")),
                annotated_labels=None if labels is None else frozenset(labels),
                unknown_tokens=frozenset(item.get("unknown_tokens") or ()),
                weight=weight,
            )
        )
    return tuple(found)


def build_sentence(
    record: Mapping[str, Any],
    tokens: Sequence[str],
    entities: Iterable[Entity],
    rejected: Iterable[Span],
    extra: Mapping[str, Any],
    path: str | Path,
    line: int,
    report: ReadingReport | None = None,
    by_source: tuple[SourceAnnotation, ...] = (),
) -> Sentence:
    """Build the sentence of a record from parsed spans; duplicates and overlaps are counted.

    If sources are separate, and no entities are given, these are the result of the sources' vote.
    """
    report = report if report is not None else ReadingReport()
    _check_fields(record, path, line)
    if extra:
        note_unread(extra, None if record.get("tokens") else record.get("text"), path, line, report)
    labels, offsets = record.get("annotated_labels"), record.get("token_offsets")
    if by_source and record.get("entities") is None:
        entities = [one.entity for one in decide(by_source)]
    try:
        sentence = Sentence(
            tokens=tuple(tokens),
            entities=_distinct(entities, path, line, report),
            non_entities=tuple(rejected),
            complete=bool(record.get("complete")),
            annotated_labels=None if labels is None else frozenset(labels),
            unknown_tokens=frozenset(record.get("unknown_tokens") or ()),
            text=record.get("text"),
            token_offsets=None if offsets is None else tuple((start, end) for start, end in offsets),
            by_source=by_source,
            extra=extra,
        )
    except ValueError as error:
        raise DataError(str(error), "correct the record", path, line) from None
    if sentence.text is not None and sentence.token_offsets is None:
        try:
            sentence.offsets()
        except ValueError:
            what, remedy = "the text does not hold the words; it is left out", "give the original text"
            report.note("texts left out", what, remedy, path, line)
            return replace(sentence, text=None)
    return sentence


def _distinct(entities: Iterable[Entity], path: str | Path, line: int, report: ReadingReport) -> tuple[Entity, ...]:
    distinct: dict[Entity, None] = {}
    for entity in entities:
        if entity in distinct:
            report.note("duplicate entities", f"{entity} is annotated twice", "remove one", path, line)
        else:
            distinct[entity] = None
    rightmost: Entity | None = None
    for entity in sorted(distinct):
        if rightmost is not None and rightmost.overlaps(entity):
            report.note("overlapping entities", f"{rightmost} and {entity} overlap", "keep one of them", path, line)
        if rightmost is None or entity.end > rightmost.end:
            rightmost = entity
    return tuple(distinct)


def entity_from_record(item: object, path: str | Path, line: int) -> Entity:
    """Parse an entity written as ``[start, end, label]`` or as an object with these fields; other fields are kept.

    Without ``label``, the field that other tools use for it is read.
    """
    try:
        if isinstance(item, Mapping):
            start, end = (
                f"{name}_offset" if name not in item and f"{name}_offset" in item else name for name in ("start", "end")
            )
            name = _label_name(item)
            text, score, source = item.get("text"), item.get("score"), item.get("source")
            return Entity(
                _integer(item[start]),
                _integer(item[end]),
                _string(item[name]),
                None if text is None else _string(text),
                None if score is None else _finite(score),
                None if source is None else _string(source),
                _others(item, (start, end, name, "text", "score", "source")),
            )
        start, end, label = cast(list[Any], item)
        return Entity(_integer(start), _integer(end), _string(label))
    except KeyError as error:
        raise DataError(f"an entity lacks {error}", "give it start, end and label", path, line) from None
    except (TypeError, ValueError, OverflowError) as error:
        what = f"{item!r} is not an entity ({error})"
        raise DataError(what, "write [start, end, label] with start < end", path, line) from None


def span_from_record(item: object, path: str | Path, line: int) -> Span:
    """Parse a span written as ``[start, end]`` or as an object with these fields; other fields are kept."""
    try:
        if isinstance(item, Mapping):
            known = ("start", "end", "source")
            return Span(_integer(item["start"]), _integer(item["end"]), item.get("source"), _others(item, known))
        start, end = cast(list[Any], item)
        return Span(_integer(start), _integer(end))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{item!r} is not a span ({error})"
        raise DataError(what, "write [start, end] with start < end", path, line) from None


def has_offsets(value: object) -> bool:
    """Whether start and end are integers."""
    return isinstance(value, Mapping) and all(type(value.get(key)) is int for key in ("start", "end"))


def items_of(record: Mapping[str, Any], key: str, path: str | Path, line: int) -> list[Any]:
    """The list under a key, or an empty one."""
    items = record.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise DataError(f'"{key}" must be a list', "correct the record", path, line)
    return items


def _label_name(item: Mapping[str, Any]) -> str:
    """The name of the field with the label."""
    if "label" in item:
        return "label"
    names = [name for name in LABEL_NAMES if isinstance(item.get(name), str)]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} may each be its label")
    if names == ["entity"] and "index" in item and "word" in item:
        raise ValueError('the tag of a piece of a word; call the pipeline with aggregation_strategy="simple"')
    return names[0] if names else "label"


def _others(item: Mapping[str, Any], known: Collection[str]) -> Mapping[str, Any]:
    return {key: value for key, value in item.items() if key not in known} or NO_FIELDS


def _check_tokens(record: Mapping[str, Any], path: str | Path, line: int) -> None:
    tokens = record["tokens"]
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise DataError('"tokens" must be a list of non-empty strings', "correct the record", path, line)


def _check_fields(record: Mapping[str, Any], path: str | Path, line: int) -> None:
    def check(key: str, right: bool, what: str) -> None:
        if not right:
            raise DataError(f'"{key}" must be {what}', "correct the record", path, line)

    labels = record.get("annotated_labels")
    right = labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels))
    check("annotated_labels", right, "a list of strings")
    unknown = record.get("unknown_tokens")
    right = unknown is None or (isinstance(unknown, list) and all(type(index) is int for index in unknown))
    check("unknown_tokens", right, "a list of whole numbers")
    offsets = record.get("token_offsets")
    right = offsets is None or (isinstance(offsets, list) and all(map(_is_pair, offsets)))
    check("token_offsets", right, "a list of pairs of whole numbers")
    check("complete", record.get("complete") in (None, True, False), "true or false")
    check("text", isinstance(record.get("text"), str | None), "a string")


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(number) is int for number in value)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
