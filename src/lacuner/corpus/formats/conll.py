"""Column files: one word a line, its tag in the last column, a blank line after every sentence.

What tags cannot say (completeness, rejected spans, sources) stands before the sentence in a line ``# lacuner: {JSON}``,
written only where there is something to say.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.records import sentence_from_record, sentence_to_record
from lacuner.corpus.formats.tag_schemes import UNKNOWN_TAGS, Scheme, TagError, decode_tags, detect_scheme, encode_tags
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
    path: str | Path, report: ReadingReport, scheme: Scheme | None = None, tagged: bool = True
) -> Iterator[Sentence]:
    """Sentences of a column file, streamed.

    Args:
        path: the file.
        report: counts broken tags.
        scheme: the tag scheme; found out from the first sentences if not given.
        tagged: ``False`` also takes files that have words and nothing else.
    """
    blocks = _blocks(path)
    ahead = _look_ahead(blocks)
    separator = _find_separator(ahead)
    if not tagged and not _has_columns(ahead, separator):
        for block in chain(ahead, blocks):
            yield Sentence(tuple(line.strip(" \t") for _, line in block.lines))
        return
    for block in ahead:
        block.columns = [_columns(line, separator) for _, line in block.lines]
        _check_columns(block, path)
    scheme = scheme or detect_scheme(block.tags for block in ahead)
    # A file that writes "unknown" where it is unknown means what it says where it writes O. Our own says so itself.
    outside_is_known = any(not block.status and not UNKNOWN_TAGS.isdisjoint(block.tags) for block in ahead)
    for block in chain(ahead, blocks):
        if not block.columns:
            block.columns = [_columns(line, separator) for _, line in block.lines]
            _check_columns(block, path)
        yield _sentence(block, scheme, outside_is_known, path, report)


def write_conll(
    sentences: Iterable[Sentence], file: TextIO, scheme: Scheme = "bio2", name: str = "", first: int = 1
) -> None:
    """Write ``word<TAB>tag`` lines; errors call the file ``name`` and count sentences from ``first`` on."""
    for number, sentence in enumerate(sentences, first):
        place = f"{name or 'output'}: sentence {number}"
        if not sentence.tokens:
            raise DataError(f"{place} has no words, which columns cannot show", _WRITE_JSONL)
        try:
            tags = encode_tags(sentence.entities, len(sentence), scheme, sentence.unknown_tokens)
        except ValueError as error:
            raise DataError(f"{place}: {error}", _WRITE_JSONL) from error
        status = _status(sentence)
        if status:
            file.write(_STATUS_LINE + json.dumps(status, ensure_ascii=False) + "\n")
        elif sentence.tokens[0].startswith("\ufeff"):
            file.write("\n")  # at the very beginning of a file it would be a byte order mark
        _check_words(sentence.tokens, place)
        for tag in dict.fromkeys(tags):
            if tag != tag.strip() or _BREAKS.search(tag):
                raise DataError(f"{place}: the tag {tag!r} does not fit on a line", _WRITE_JSONL)
        lines = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
        file.write("".join(lines) + "\n")


def _check_words(tokens: Sequence[str], place: str) -> None:
    """Refuse words that columns cannot show; most sentences have none, which can be seen at a glance."""
    text = "".join(tokens)
    if "" not in tokens and not _BREAKS.search(text) and _DOCUMENT_LINE not in text and _STATUS_LINE not in text:
        return
    for token in tokens:
        if not token or _BREAKS.search(token) or token.startswith((_DOCUMENT_LINE, _STATUS_LINE)):
            raise DataError(f"{place}: the word {token!r} does not fit on a line", _WRITE_JSONL)


def _blocks(path: str | Path) -> Iterator[_Block]:
    block = _Block()
    for number, line in read_lines(path):
        if not line.strip(" \t") or line.startswith(_DOCUMENT_LINE):
            if block.lines:
                yield block
                block = _Block()
        elif line.startswith(_STATUS_LINE) and not block.lines:
            block.status = number, line.removeprefix(_STATUS_LINE)
        else:
            block.lines.append((number, line))
    if block.lines:
        yield block


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


def _check_columns(block: _Block, path: str | Path) -> None:
    for (number, line), row in zip(block.lines, block.columns, strict=True):
        if len(row) < 2:
            raise DataError(f"one column only: {line[:60]!r}", "write the word, a tab and its tag", path, number)
        if not row[0]:
            raise DataError("the word is empty", "give it at least one character", path, number)
        if not row[-1]:
            raise DataError(f"the tag of {row[0]!r} is empty", "write O, a tag such as B-PER, or ?", path, number)


def _sentence(
    block: _Block, scheme: Scheme, outside_is_known: bool, path: str | Path, report: ReadingReport
) -> Sentence:
    first_line = block.lines[0][0]
    try:
        entities, repairs, unknown = decode_tags(block.tags, scheme)
    except TagError as error:
        line = block.lines[error.index][0]
        raise DataError(str(error), f"correct the tag (the file reads as {scheme.upper()})", path, line) from None
    for repair in repairs:
        line = block.lines[repair.place][0]
        report.note("repaired tags", repair.what, f"correct the tag (the file reads as {scheme.upper()})", path, line)
    record: dict[str, Any] = {"tokens": [row[0] for row in block.columns]}
    record["entities"] = [{"start": e.start, "end": e.end, "label": e.label} for e in entities]
    if unknown:
        record["unknown_tokens"] = sorted(unknown)
    record["complete"] = bool(unknown) or outside_is_known
    if block.status:
        try:
            status = json.loads(block.status[1])
            sources = status.pop("sources", [])
            if sources and len(sources) != len(entities):
                what = f"{len(sources)} sources are given for {len(entities)} entities; they are left out"
                report.note("sources left out", what, "correct the line or remove it", path, block.status[0])
                sources = []
            for entity, source in zip(record["entities"], sources, strict=False):
                entity["source"] = source
            record |= status
        except (ValueError, TypeError, AttributeError) as error:
            what = f"the line '{_STATUS_LINE.strip()}' does not hold a JSON object ({error})"
            raise DataError(what, "mend or remove it", path, block.status[0]) from error
    return sentence_from_record(record, path, first_line, report)


def _status(sentence: Sentence) -> dict[str, Any]:
    status = sentence_to_record(sentence)
    entities = status.pop("entities", [])
    status.pop("tokens")
    if sentence.unknown_tokens:
        status["complete"] = sentence.complete
    if not any(sentence.unknown_tokens.intersection(range(e.start, e.end)) for e in sentence.entities):
        status.pop("unknown_tokens", None)  # the tags say it
    if any("source" in entity for entity in entities):
        status["sources"] = [entity.get("source") for entity in entities]
    return status
