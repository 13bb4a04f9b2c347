"""Column files: one word a line, its tag in the last column, a blank line after every sentence.

What tags cannot say (completeness, rejected spans, sources, fields that we do not know) is in a line ``# lacuner: {JSON}``
right before the sentence, written only where there is something to say.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, cast

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.records import SENTENCE_KEYS, own_fields, sentence_from_record
from lacuner.corpus.formats.tag_schemes import Scheme, TagError, decode_tags, detect_scheme, encode_tags
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

LOOK_AHEAD = 10_000
"""How many sentences are looked at to tell separator and scheme; the rest is streamed."""
LOOK_AHEAD_CHARACTERS = 10_000_000
"""Where the look ahead ends if the sentences are very long."""

_BREAKS = re.compile(r"[\t\n\r]")
_WRITE_JSONL = "write JSON Lines (.jsonl) instead"
_SEPARATORS = ("\t", " ", ",", ";", "|")
_DOCUMENT_LINE = "-DOCSTART-"
_STATUS_LINE = "# lacuner: "


@dataclass
class _Block:
    """The lines of one sentence."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    status: tuple[int, str] | None = None
    columns: list[list[str]] = field(default_factory=list)

    @property
    def tags(self) -> list[str]:
        return [row[-1] for row in self.columns]


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
    tagged = options is None or options.tagged
    blocks = _blocks(path, report)
    ahead = _look_ahead(blocks)
    separator = _find_separator(ahead)
    if not tagged and not _has_columns(ahead, separator):
        for block in chain(ahead, blocks):
            yield Sentence(tuple(line.strip(" \t") for _, line in block.lines))
        return
    for block in ahead:
        _cut_columns(block, separator, column, path)
    scheme = scheme or detect_scheme(block.tags for block in ahead)
    for block in chain(ahead, blocks):
        if not block.columns:
            _cut_columns(block, separator, column, path)
        yield _sentence(block, scheme, path, report)


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
        if status:
            file.write(_STATUS_LINE + json.dumps(status, ensure_ascii=False) + "\n")
        elif sentence.tokens[0].startswith("\ufeff"):
            file.write("\n")  # at the very beginning of a file it would be a byte order mark
        _check_words(sentence.tokens, where)
        for tag in dict.fromkeys(tags):
            if tag != tag.strip() or _BREAKS.search(tag):
                raise DataError(f"{where}: the tag {tag!r} does not fit on a line", _WRITE_JSONL)
        lines = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
        file.write("".join(lines) + "\n")


def _check_words(tokens: Sequence[str], where: str) -> None:
    """Refuse words that columns cannot show; most sentences have none, which can be seen at a glance."""
    text = "".join(tokens)
    if "" not in tokens and not _BREAKS.search(text) and _DOCUMENT_LINE not in text and _STATUS_LINE not in text:
        return
    for token in tokens:
        if not token or _BREAKS.search(token) or token.startswith((_DOCUMENT_LINE, _STATUS_LINE)):
            raise DataError(f"{where}: the word {token!r} does not fit on a line", _WRITE_JSONL)


def _blocks(path: str | Path, report: ReadingReport) -> Iterator[_Block]:
    block = _Block()

    def drop_status() -> None:
        if block.status is not None:
            what = f"no sentence follows the line '{_STATUS_LINE.strip()}'; it is left out"
            report.note(
                "status lines without a sentence", what, "put it right before its sentence", path, block.status[0]
            )
            block.status = None

    for number, line in read_lines(path):
        if not line.strip(" \t") or line.startswith(_DOCUMENT_LINE):
            if block.lines:
                yield block
                block = _Block()
            drop_status()
        elif line.startswith(_STATUS_LINE) and not block.lines:
            drop_status()
            block.status = number, line.removeprefix(_STATUS_LINE)
        else:
            block.lines.append((number, line))
    if block.lines:
        yield block
    else:
        drop_status()


def _look_ahead(blocks: Iterator[_Block]) -> list[_Block]:
    ahead, characters = [], 0
    for block in blocks:
        ahead.append(block)
        characters += sum(len(line) for _, line in block.lines)
        if len(ahead) >= LOOK_AHEAD or characters >= LOOK_AHEAD_CHARACTERS:
            break
    return ahead


def _find_separator(blocks: list[_Block]) -> str:
    lines = [line.replace(", ", ",") for block in blocks for _, line in block.lines]
    return max(_SEPARATORS, key=lambda s: (sum(s in line.strip(s) for line in lines), -_SEPARATORS.index(s)))


def _has_columns(blocks: list[_Block], separator: str) -> bool:
    """Whether most lines have more than one column; a comma in a number does not make a list of words a table."""
    lines = [line for block in blocks for _, line in block.lines]
    return 2 * sum(len(_columns(line, separator)) > 1 for line in lines) > len(lines)


def _columns(line: str, separator: str) -> list[str]:
    if separator == " ":
        return [column for column in line.replace("\t", " ").split(" ") if column]
    if separator != "\t" and line.startswith('"') and f'"{separator}' in line[1:]:
        columns = next(csv.reader([line], delimiter=separator))
    else:
        columns = line.split(separator)
    return [columns[0], *(column.strip() for column in columns[1:])]


def _cut_columns(block: _Block, separator: str, column: int | None, path: str | Path) -> None:
    block.columns = [_columns(line, separator) for _, line in block.lines]
    if column is not None:
        for (number, line), row in zip(block.lines, block.columns, strict=True):
            if len(row) <= column:
                what = f"only {len(row)} column{'s' * (len(row) != 1)}: {line[:60]!r}"
                raise DataError(what, f"the tag belongs in column {column + 1}", path, number)
        block.columns = [[row[0], row[column]] for row in block.columns]
    _check_columns(block, path)


def _check_columns(block: _Block, path: str | Path) -> None:
    for (number, line), row in zip(block.lines, block.columns, strict=True):
        if len(row) < 2:
            raise DataError(f"one column only: {line[:60]!r}", "write the word, a tab and its tag", path, number)
        if not row[0]:
            raise DataError("the word is empty", "give it at least one character", path, number)
        if not row[-1]:
            raise DataError(f"the tag of {row[0]!r} is empty", "write O, a tag such as B-PER, or ?", path, number)


def _sentence(block: _Block, scheme: Scheme, path: str | Path, report: ReadingReport) -> Sentence:
    first_line = block.lines[0][0]
    try:
        entities, repairs, unknown = decode_tags(block.tags, scheme)
    except TagError as error:
        line = block.lines[error.index][0]
        raise DataError(str(error), f"correct the tag (the file reads as {scheme.upper()})", path, line) from None
    for repair in repairs:
        line = block.lines[repair.token_index][0]
        report.note("repaired tags", repair.what, f"correct the tag (the file reads as {scheme.upper()})", path, line)
    record: dict[str, Any] = {"tokens": [row[0] for row in block.columns]}
    record["entities"] = [{"start": e.start, "end": e.end, "label": e.label} for e in entities]
    if unknown:  # who writes "unknown" where it is unknown means what it says where it writes O
        record |= {"unknown_tokens": sorted(unknown), "complete": True}
    if block.status:
        line, content = block.status
        status = _parse_status(content, path, line)
        extra = status.pop("extra", {})
        for key in ("sources", "entity_fields"):
            _add_to_entities(record["entities"], key, status.pop(key, []), path, line, report)
        record |= status
        clash = sorted(SENTENCE_KEYS.intersection(extra))
        if clash:
            raise DataError(f'"extra" holds {", ".join(map(repr, clash))}', "rename the field", path, line)
        record |= extra
    return sentence_from_record(record, path, first_line, report)


def _parse_status(content: str, path: str | Path, line: int) -> dict[str, Any]:
    try:
        status = json.loads(content)
        what = None if isinstance(status, dict) else "it holds something else"
        if what is None and not isinstance(status.get("extra", {}), dict):
            what = '"extra" is none'
    except (ValueError, RecursionError) as error:
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
    right = all(isinstance(value, dict if key == "entity_fields" else str | None) for value in values)
    if len(values) != len(entities) or not right:
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
    if sentence.extra:
        status["extra"] = dict(sentence.extra)
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
