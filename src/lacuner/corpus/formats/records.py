"""A sentence as a JSON object, and back: the one place that knows the field names."""

from collections.abc import Mapping
from dataclasses import replace
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
    _check_fields(record, path, line)
    entities: dict[Entity, None] = {}
    for item in _items(record, "entities", path, line):
        entity = entity_from_record(item, path, line)
        if entity in entities:
            report.note("duplicate entities", f"{entity} stands twice", "remove one", path, line)
        entities[entity] = None
    widest: Entity | None = None
    for entity in sorted(entities):
        if widest is not None and entity.start < widest.end:
            report.note("overlapping entities", f"{widest} and {entity} overlap", "keep one of them", path, line)
        if widest is None or entity.end > widest.end:
            widest = entity
    labels = record.get("annotated_labels")
    try:
        sentence = Sentence(
            tokens=tuple(record["tokens"]),
            entities=tuple(entities),
            non_entities=tuple(
                span_from_record(item, path, line) for item in _items(record, "non_entities", path, line)
            ),
            complete=bool(record.get("complete")),
            annotated_labels=None if labels is None else frozenset(labels),
            unknown_tokens=frozenset(record.get("unknown_tokens") or ()),
            text=record.get("text"),
        )
    except ValueError as error:
        raise DataError(str(error), "correct the record", path, line) from None
    if sentence.text is not None:
        try:
            sentence.offsets()
        except ValueError:
            what, remedy = "the text does not hold the words; it is left out", "give the text that they were cut out of"
            report.note("texts left out", what, remedy, path, line)
            return replace(sentence, text=None)
    return sentence


def entity_from_record(item: object, path: str | Path, line: int) -> Entity:
    """An entity written as ``[start, end, label]`` or as an object with these fields."""
    try:
        if isinstance(item, Mapping):
            start = item["start"] if "start" in item else item["start_offset"]
            end = item["end"] if "end" in item else item["end_offset"]
            text, score, source = item.get("text"), item.get("score"), item.get("source")
            return Entity(
                _integer(start),
                _integer(end),
                _string(item["label"]),
                None if text is None else _string(text),
                None if score is None else float(score),
                None if source is None else _string(source),
            )
        start, end, label = cast(list[Any], item)
        return Entity(_integer(start), _integer(end), _string(label))
    except KeyError as error:
        raise DataError(f"an entity lacks {error}", "give it start, end and label", path, line) from None
    except (TypeError, ValueError) as error:
        what = f"{item!r} is not an entity ({error})"
        raise DataError(what, "write [start, end, label] with start < end", path, line) from None


def span_from_record(item: object, path: str | Path, line: int) -> Span:
    """A span written as ``[start, end]`` or as an object with these fields."""
    try:
        if isinstance(item, Mapping):
            return Span(_integer(item["start"]), _integer(item["end"]), item.get("source"))
        start, end = cast(list[Any], item)
        return Span(_integer(start), _integer(end))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{item!r} is not a span ({error})"
        raise DataError(what, "write [start, end] with start < end", path, line) from None


def _check_fields(record: Mapping[str, Any], path: str | Path, line: int) -> None:
    def check(key: str, right: bool, what: str) -> None:
        if not right:
            raise DataError(f'"{key}" must be {what}', "correct the record", path, line)

    tokens = record["tokens"]
    right = isinstance(tokens, list) and all(isinstance(token, str) and token for token in tokens)
    check("tokens", right, "a list of non-empty strings")
    labels = record.get("annotated_labels")
    right = labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels))
    check("annotated_labels", right, "a list of strings")
    unknown = record.get("unknown_tokens")
    right = unknown is None or (isinstance(unknown, list) and all(type(index) is int for index in unknown))
    check("unknown_tokens", right, "a list of whole numbers")
    check("complete", record.get("complete") in (None, True, False), "true or false")
    check("text", isinstance(record.get("text"), str | None), "a string")


def _items(record: Mapping[str, Any], key: str, path: str | Path, line: int) -> list[Any]:
    items = record.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise DataError(f'"{key}" must be a list', "correct the record", path, line)
    return items


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
