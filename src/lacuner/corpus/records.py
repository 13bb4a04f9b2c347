"""A sentence as a JSON object, and back: the one place that knows the field names."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.sentence import Entity, Sentence, Span
from lacuner.errors import DataError


def sentence_to_record(sentence: Sentence) -> dict[str, Any]:
    """``tokens`` and ``entities``, and whatever else is not as usual."""
    record: dict[str, Any] = {}
    if sentence.text is not None:
        record["text"] = sentence.text
    record["tokens"] = list(sentence.tokens)
    record["entities"] = [entity_to_record(entity) for entity in sentence.entities]
    if sentence.non_entities:
        record["non_entities"] = [
            {"start": s.start, "end": s.end} | ({} if s.source is None else {"source": s.source})
            for s in sentence.non_entities
        ]
    if sentence.complete:
        record["complete"] = True
    if sentence.annotated_labels is not None:
        record["annotated_labels"] = sorted(sentence.annotated_labels)
    if sentence.unknown_tokens:
        record["unknown_tokens"] = sorted(sentence.unknown_tokens)
    return record


def entity_to_record(entity: Entity) -> dict[str, Any]:
    """``start``, ``end``, ``label``, and ``text``, ``score``, ``source`` where they are known."""
    record: dict[str, Any] = {"start": entity.start, "end": entity.end, "label": entity.label}
    if entity.text is not None:
        record["text"] = entity.text
    if entity.score is not None:
        record["score"] = round(entity.score, 6)
    if entity.source is not None:
        record["source"] = entity.source
    return record


def sentence_from_record(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport | None = None
) -> Sentence:
    """The sentence of a record whose spans count words."""
    report = report or ReadingReport()
    tokens = record["tokens"]
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise DataError('"tokens" must be a list of non-empty strings', "correct the record", path, line)
    entities: dict[Entity, None] = {}
    for item in _items(record, "entities", path, line):
        entity = entity_from_record(item, path, line)
        if entity in entities:
            report.note("duplicate entities", f"{entity} stands twice", "remove one", path, line)
        entities[entity] = None
    ordered = sorted(entities)
    for one, other in pairwise(ordered):
        if other.start < one.end:
            report.note("overlapping entities", f"{one} and {other} overlap", "keep one of them", path, line)
    text, labels = record.get("text"), record.get("annotated_labels")
    try:
        return Sentence(
            tokens=tuple(tokens),
            entities=tuple(entities),
            non_entities=tuple(_span(item, path, line) for item in _items(record, "non_entities", path, line)),
            complete=bool(record.get("complete", False)),
            annotated_labels=None if labels is None else frozenset(labels),
            unknown_tokens=frozenset(record.get("unknown_tokens") or ()),
            text=text,
        )
    except (ValueError, TypeError) as error:
        raise DataError(str(error), "correct the record", path, line) from None


def entity_from_record(item: object, path: str | Path, line: int) -> Entity:
    """An entity written as ``[start, end, label]`` or as an object with these fields."""
    try:
        if isinstance(item, Mapping):
            start = item["start"] if "start" in item else item["start_offset"]
            end = item["end"] if "end" in item else item["end_offset"]
            return Entity(
                _integer(start), _integer(end), item["label"], item.get("text"), item.get("score"), item.get("source")
            )
        start, end, label = cast(list[Any], item)
        return Entity(_integer(start), _integer(end), label)
    except KeyError as error:
        raise DataError(f"an entity lacks {error}", "give it start, end and label", path, line) from None
    except (TypeError, ValueError) as error:
        what = f"{item!r} is not an entity ({error})"
        raise DataError(what, "write [start, end, label] with start < end", path, line) from None


def _span(item: object, path: str | Path, line: int) -> Span:
    try:
        if isinstance(item, Mapping):
            return Span(_integer(item["start"]), _integer(item["end"]), item.get("source"))
        start, end = cast(list[Any], item)
        return Span(_integer(start), _integer(end))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{item!r} is not a span ({error})"
        raise DataError(what, "write [start, end] with start < end", path, line) from None


def _items(record: Mapping[str, Any], key: str, path: str | Path, line: int) -> list[Any]:
    items = record.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise DataError(f'"{key}" must be a list', "correct the record", path, line)
    return items


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
