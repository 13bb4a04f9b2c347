"""Tagged words, preceded by a line ``# lacuner: {JSON}`` with what tags cannot represent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.columns import Block
from lacuner.corpus.formats.json_lines import decode_json
from lacuner.corpus.formats.records import SENTENCE_KEYS, own_fields, sentence_from_record
from lacuner.corpus.formats.tag_schemes import Scheme, TagError, decode_tags, encode_tags
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

STATUS_LINE = "# lacuner: "
WRITE_JSONL = "write JSON Lines (.jsonl) instead"
_IN_COLUMNS = ("tokens", "entities")
"""Fields given by the columns, which a status line must not contain."""
_IN_TAGS = frozenset({"start", "end", "label", "source"})


def tagged_sentence(
    block: Block,
    scheme: Scheme | None,
    path: str | Path,
    report: ReadingReport,
    fields: Mapping[str, Any] | None = None,
) -> Sentence:
    """Build a sentence from a block whose columns are words and tags.

    Args:
        block: the lines, their columns, and the status line.
        scheme: of the tags; ``None``: there are none.
        path: for errors.
        report: counts repairs.
        fields: given by the format itself; the status line takes precedence.
    """
    record: dict[str, Any] = {"tokens": [row[0] for row in block.columns], "entities": [], **(fields or {})}
    if scheme is not None:
        record |= _tagged(block, scheme, path, report)
    if block.status:
        line, content = block.status
        status = parse_status(content, path, line)
        extra = status.pop("extra", {})
        for key in ("sources", "entity_fields"):
            _add_to_entities(record["entities"], key, status.pop(key, []), path, line, report)
        clash = [key for key in _IN_COLUMNS if key in status]
        if clash:
            raise DataError(f'the line says "{clash[0]}", as the columns do', "remove it there", path, line)
        known = status.get("unknown_tokens")
        if isinstance(known, list) and any(index not in known for index in record.get("unknown_tokens", ())):
            what = '"unknown_tokens" lacks words that are tagged as unknown'
            raise DataError(what, "add them, or leave it out", path, line)
        record |= status
        check_extra(extra, path, line)
        record |= extra
    return sentence_from_record(record, path, block.lines[0][0], report)


def tags_of(sentence: Sentence, scheme: Scheme, where: str) -> list[str]:
    """The tags to write for a sentence; ``where`` is its position in errors."""
    if not sentence.tokens:
        raise DataError(f"{where} has no words, which columns cannot show", WRITE_JSONL)
    try:
        return encode_tags(sentence.entities, len(sentence), scheme, sentence.unknown_tokens)
    except ValueError as error:
        raise DataError(f"{where}: {error}", WRITE_JSONL) from error


def status_of_tagged(sentence: Sentence) -> dict[str, Any]:
    """What words and tags cannot represent of a sentence, for its status line."""
    status = own_fields(sentence)
    entities = status.pop("entities", [])
    status.pop("tokens")
    if sentence.unknown_tokens:
        status["complete"] = sentence.complete
    if not any(sentence.unknown_tokens.intersection(range(e.start, e.end)) for e in sentence.entities):
        status.pop("unknown_tokens", None)  # in the tags
    if any("source" in entity for entity in entities):
        status["sources"] = [entity.get("source") for entity in entities]
    fields = [{key: entity[key] for key in entity if key not in _IN_TAGS} for entity in entities]
    if any(fields):
        status["entity_fields"] = fields
    if sentence.extra:
        status["extra"] = dict(sentence.extra)
    return status


def parse_status(
    content: str, path: str | Path, line: int, where: str = f"the line '{STATUS_LINE.strip()}'"
) -> dict[str, Any]:
    """Parse the object of a status line, or its equivalent in other formats."""
    status = parse_object(content, path, line, where)
    if not isinstance(status.get("extra", {}), dict):
        raise DataError(f'{where} does not hold a JSON object ("extra" is none)', "correct or remove it", path, line)
    return status


def parse_object(content: str, path: str | Path, line: int, where: str) -> dict[str, Any]:
    """Parse a JSON object; ``where`` is its description in errors."""
    try:
        value = decode_json(content)
        what = None if isinstance(value, dict) else "it holds something else"
    except ValueError as error:
        what = str(error)
    if what is not None:
        raise DataError(f"{where} does not hold a JSON object ({what})", "correct or remove it", path, line)
    return cast(dict[str, Any], value)


def check_extra(extra: Mapping[str, Any], path: str | Path, line: int) -> None:
    """Reject fields under "extra" that are standard fields of sentences."""
    clash = sorted(SENTENCE_KEYS.intersection(extra))
    if clash:
        raise DataError(f'"extra" holds {", ".join(map(repr, clash))}', "rename the field", path, line)


def _tagged(block: Block, scheme: Scheme, path: str | Path, report: ReadingReport) -> dict[str, Any]:
    """The annotation in the tags of a block, as fields of a record."""
    remedy = f"correct the tag (the file reads as {scheme.upper()})"
    try:
        entities, repairs, unknown = decode_tags(block.tags, scheme)
    except TagError as error:
        raise DataError(str(error), remedy, path, block.lines[error.index][0]) from None
    for repair in repairs:
        report.note("repaired tags", repair.what, remedy, path, block.lines[repair.token_index][0])
    record: dict[str, Any] = {"entities": [{"start": e.start, "end": e.end, "label": e.label} for e in entities]}
    if unknown:  # explicit unknown tags imply that O is meant
        record |= {"unknown_tokens": sorted(unknown), "complete": True}
    return record


def _add_to_entities(
    entities: list[dict[str, Any]], key: str, values: Any, path: str | Path, line: int, report: ReadingReport
) -> None:
    """Add the sources or other fields from the status line to the entities."""
    if not values:
        return
    right = isinstance(values, list) and all(
        isinstance(value, dict if key == "entity_fields" else str | None) for value in values
    )
    if not right or len(values) != len(entities):
        what = f'"{key}" does not fit the {len(entities)} entities; it is left out'
        report.note(f"{key.replace('_', ' ')} left out", what, "correct the line or remove it", path, line)
        return
    for entity, value in zip(entities, values, strict=True):
        others = {"source": value} if key == "sources" else value
        entity.update({name: other for name, other in others.items() if name not in entity})
