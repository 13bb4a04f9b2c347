"""Column files: one word a line, its tag in the last column, a blank line after every sentence.

What tags cannot say (completeness, rejected spans, sources, fields that we do not know) is in a line ``# lacuner: {JSON}``
right before the sentence, written only where there is something to say.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, cast

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.columns import Block, Layout
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import decode_json, to_line
from lacuner.corpus.formats.records import SENTENCE_KEYS, own_fields, sentence_from_record
from lacuner.corpus.formats.tag_schemes import (
    Scheme,
    TagError,
    decode_tags,
    detect_scheme,
    encode_tags,
    holds_comment,
)
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

LOOK_AHEAD = 10_000
"""How many sentences are looked at to tell separator and scheme; the rest is streamed."""
LOOK_AHEAD_CHARACTERS = 10_000_000
"""Where the look ahead ends if the sentences are very long."""

_BREAKS = re.compile(r"[\t\n\r]")
DOCUMENT_MARK = "-DOCSTART-"
"""The line that begins a document, and the field that the first sentence of one has."""
_WRITE_JSONL = "write JSON Lines (.jsonl) instead"
_DOCUMENT_LINE = re.compile(r"-DOCSTART-(?:[\s,;|]|$)")
_TAGGED_DOCUMENT = re.compile(r"[\s,;|][BIESMLUW]-[^\s,;|]+\s*$")
_STATUS_LINE = "# lacuner: "
_IN_COLUMNS = ("tokens", "entities")
"""What the columns say, and no status line may say otherwise."""


def read_conll(
    path: str | Path,
    report: ReadingReport,
    options: ReadOptions | None = None,
    scheme: Scheme | None = None,
    column: int | None = None,
) -> Iterator[Sentence]:
    """Sentences of a column file, streamed.

    Args:
        path: the file.
        report: counts broken tags.
        options: whether words alone are enough.
        scheme: the tag scheme; found out from the first sentences if not given.
        column: the column with the tags, counted from 0; the last one if not given.
    """
    blocks = _blocks(path, report)
    ahead = _look_ahead(blocks)
    layout = Layout.of(ahead, options is None or options.tagged, column, path)
    if layout.first_number is not None:
        report.remark("the first column counts words; the words are read from the second", path)
    for block in ahead:
        layout.cut(block, path, report)
    layout.check_other_columns(ahead, path, report)
    scheme = scheme or detect_scheme(block.tags for block in ahead if layout.tagged)
    for number, block in enumerate(chain(ahead, blocks)):
        if number >= len(ahead):
            layout.cut(block, path, report)
        if block.columns:
            yield _sentence(block, scheme if layout.tagged else None, path, report)


def write_conll(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions | None = None) -> None:
    """Write ``word<TAB>tag`` lines."""
    options = options or WriteOptions()
    for number, sentence in enumerate(sentences, options.first):
        where = f"{options.name or 'output'}: sentence {number}"
        if not sentence.tokens:
            raise DataError(f"{where} has no words, which columns cannot show", _WRITE_JSONL)
        try:
            tags = encode_tags(sentence.entities, len(sentence), options.scheme, sentence.unknown_tokens)
        except ValueError as error:
            raise DataError(f"{where}: {error}", _WRITE_JSONL) from error
        status = _status(sentence)
        if sentence.extra.get(DOCUMENT_MARK) is True:
            file.write(f"{DOCUMENT_MARK}\tO\n\n")
        if status:
            file.write(_STATUS_LINE + to_line(status))
        elif sentence.tokens[0].startswith("\ufeff"):
            file.write("\n")  # at the very beginning of a file it would be a byte order mark
        _check_words(sentence.tokens, where)
        for tag in dict.fromkeys(tags):
            if tag != tag.strip() or _BREAKS.search(tag) or holds_comment(tag):
                raise DataError(f"{where}: the tag {tag!r} does not fit on a line", _WRITE_JSONL)
        lines = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
        file.write("".join(lines) + "\n")


def _check_words(tokens: Sequence[str], where: str) -> None:
    """Refuse words that columns cannot show; most sentences have none, which can be seen at a glance."""
    text = "".join(tokens)
    if "" not in tokens and not _BREAKS.search(text) and "-DOCSTART-" not in text and _STATUS_LINE not in text:
        return
    for token in tokens:
        if not token or _BREAKS.search(token) or _DOCUMENT_LINE.match(token) or token.startswith(_STATUS_LINE):
            raise DataError(f"{where}: the word {token!r} does not fit on a line", _WRITE_JSONL)


def _blocks(path: str | Path, report: ReadingReport) -> Iterator[Block]:
    block = Block()

    def drop_status() -> None:
        if block.status is not None:
            what = f"no sentence follows the line '{_STATUS_LINE.strip()}'; it is left out"
            report.note(
                "status lines without a sentence", what, "put it right before its sentence", path, block.status[0]
            )
            block.status = None

    for number, line in read_lines(path):
        if "\r" in line:
            what = "there is a carriage return inside the line"
            raise DataError(what, "end lines with line feeds (tr '\\r' '\\n')", path, number)
        document = line.startswith("-DOCSTART-") and _DOCUMENT_LINE.match(line)
        if document and _TAGGED_DOCUMENT.search(line):
            what = f"the beginning of a document is tagged; the line is left out: {line[:60]!r}"
            report.note("tagged document lines", what, "tag it O", path, number)
        if document or not line.strip(" \t"):
            if block.lines:
                yield block
                block = Block()
            block.begins_document = block.begins_document or bool(document)
            drop_status()
        elif line.startswith(_STATUS_LINE):
            if block.lines:
                what = f"the line '{_STATUS_LINE.strip()}' is inside a sentence"
                raise DataError(what, "put it right before the sentence", path, number)
            drop_status()
            block.status = number, line.removeprefix(_STATUS_LINE)
        else:
            block.lines.append((number, line))
    if block.lines:
        yield block
    else:
        drop_status()


def _look_ahead(blocks: Iterator[Block]) -> list[Block]:
    ahead, characters = [], 0
    for block in blocks:
        ahead.append(block)
        characters += sum(len(line) for _, line in block.lines)
        if len(ahead) >= LOOK_AHEAD or characters >= LOOK_AHEAD_CHARACTERS:
            break
    return ahead


def _sentence(block: Block, scheme: Scheme | None, path: str | Path, report: ReadingReport) -> Sentence:
    """The sentence of a block; without a scheme there are no tags."""
    record: dict[str, Any] = {"tokens": [row[0] for row in block.columns], "entities": []}
    if scheme is not None:
        record |= _tagged(block, scheme, path, report)
    if block.status:
        line, content = block.status
        status = _parse_status(content, path, line)
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
        clash = sorted(SENTENCE_KEYS.intersection(extra))
        if clash:
            raise DataError(f'"extra" holds {", ".join(map(repr, clash))}', "rename the field", path, line)
        record |= extra
    sentence = sentence_from_record(record, path, block.lines[0][0], report)
    return replace(sentence, extra={**sentence.extra, DOCUMENT_MARK: True}) if block.begins_document else sentence


def _tagged(block: Block, scheme: Scheme, path: str | Path, report: ReadingReport) -> dict[str, Any]:
    """What the tags of a block say, as fields of a record."""
    remedy = f"correct the tag (the file reads as {scheme.upper()})"
    try:
        entities, repairs, unknown = decode_tags(block.tags, scheme)
    except TagError as error:
        raise DataError(str(error), remedy, path, block.lines[error.index][0]) from None
    for repair in repairs:
        report.note("repaired tags", repair.what, remedy, path, block.lines[repair.token_index][0])
    record: dict[str, Any] = {"entities": [{"start": e.start, "end": e.end, "label": e.label} for e in entities]}
    if unknown:  # who writes "unknown" where it is unknown means what it says where it writes O
        record |= {"unknown_tokens": sorted(unknown), "complete": True}
    return record


def _parse_status(content: str, path: str | Path, line: int) -> dict[str, Any]:
    try:
        status = decode_json(content)
        what = None if isinstance(status, dict) else "it holds something else"
        if what is None and not isinstance(status.get("extra", {}), dict):
            what = '"extra" is none'
    except ValueError as error:
        what = str(error)
    if what is not None:
        what = f"the line '{_STATUS_LINE.strip()}' does not hold a JSON object ({what})"
        raise DataError(what, "correct or remove it", path, line)
    return cast(dict[str, Any], status)


def _add_to_entities(
    entities: list[dict[str, Any]], key: str, values: Any, path: str | Path, line: int, report: ReadingReport
) -> None:
    """Give each entity the source or the other fields that the status line has for it."""
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


def _status(sentence: Sentence) -> dict[str, Any]:
    status = own_fields(sentence)
    entities = status.pop("entities", [])
    status.pop("tokens")
    if sentence.unknown_tokens:
        status["complete"] = sentence.complete
    if not any(sentence.unknown_tokens.intersection(range(e.start, e.end)) for e in sentence.entities):
        status.pop("unknown_tokens", None)  # the tags say it
    if any("source" in entity for entity in entities):
        status["sources"] = [entity.get("source") for entity in entities]
    fields = [{key: entity[key] for key in entity if key not in _IN_TAGS} for entity in entities]
    if any(fields):
        status["entity_fields"] = fields
    extra = {key: value for key, value in sentence.extra.items() if key != DOCUMENT_MARK or value is not True}
    if extra:
        status["extra"] = extra
    return status


_IN_TAGS = frozenset({"start", "end", "label", "source"})
FORMATS = [
    Format(
        "conll",
        (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".tsv", ".csv", ".col", ".txt"),
        read_conll,
        write_conll,
    )
]
