"""Column files: one word per line, its tag in the last column, a blank line after every sentence.

What tags cannot represent (completeness, rejected spans, sources, unknown fields) is in a line ``# lacuner: {JSON}`` right
before the sentence, written only if needed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TextIO

from lacuner.corpus.files import FileRange, FileState, ReadingReport, Unit, read_lines, state_of
from lacuner.corpus.formats.columns import Block, Layout
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.table import find_header, read_rows
from lacuner.corpus.formats.tag_schemes import Scheme, detect_scheme, holds_comment
from lacuner.corpus.formats.tagged import STATUS_LINE, WRITE_JSONL, status_of_tagged, tagged_sentence, tags_of
from lacuner.corpus.ranges import lines_of, until_error
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

LOOK_AHEAD = 10_000
"""Number of sentences examined to detect separator and scheme; the rest is streamed."""
LOOK_AHEAD_CHARACTERS = 10_000_000
"""Maximum number of characters examined, if sentences are very long."""

_BREAKS = re.compile(r"[\t\n\r]")
DOCUMENT_MARK = "-DOCSTART-"
"""The line that begins a document, and a field of its first sentence."""
_DOCUMENT_LINE = re.compile(r"-DOCSTART-(?:[\s,;|]|$)")
_TAGGED_DOCUMENT = re.compile(r"[\s,;|][BIESMLUW]-[^\s,;|]+\s*$")


def read_conll(
    path: str | Path,
    report: ReadingReport,
    options: ReadOptions | None = None,
    scheme: Scheme | None = None,
    column: int | None = None,
) -> Iterator[Sentence]:
    """Yield sentences of a column file, or of a table with a header.

    Args:
        path: the file.
        report: counts broken tags.
        options: whether words alone are enough.
        scheme: tagging scheme; detected from the first sentences by default.
        column: the column with the tags, from 0; the last one by default.
    """
    if options is not None and options.range is not None:
        yield from _read_range(path, report, options.range, options.tagged)
        return
    lines = read_lines(path, keep_ends=True)
    first = next(lines, (0, ""))
    if scheme is None and column is None and (header := find_header(first[1].rstrip("\r\n"))):
        yield from read_rows(header, lines, path, report, options or ReadOptions())
        return
    blocks = _blocks(chain([first], lines), path, report)
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
            yield _sentence(block, layout, scheme, path, report)


def _read_range(path: str | Path, report: ReadingReport, range: FileRange, tagged: bool) -> Iterator[Sentence]:
    """Yield sentences that begin in a part of a file, with the layout detected at the start of the file."""
    layout, scheme = _look_at(path, state_of(path), tagged)
    if range.begin == 0 and layout.first_number is not None:
        report.remark("the first column counts words; the words are read from the second", path)
    for block in _blocks(lines_of(path, range, keep_ends=True, mark=DOCUMENT_MARK.encode()), path, report):
        layout.cut(block, path, report)
        if block.columns:
            yield _sentence(block, layout, scheme, path, report)


@lru_cache(maxsize=8)  # a worker reads many parts of a file
def _look_at(path: str | Path, state: FileState, tagged: bool) -> tuple[Layout, Scheme]:
    ignored = ReadingReport()
    ahead = _look_ahead(until_error(_blocks(read_lines(path, keep_ends=True), path, ignored)))
    try:
        layout = Layout.of(ahead, tagged, None, path)
        for block in ahead:
            with suppress(DataError):  # reported by the reader of the part that contains it
                layout.cut(block, path, ignored)
        layout.check_other_columns(ahead, path, ignored)
    except DataError as error:
        if error.line is None:
            raise
        raise DataError(f"line {error.line}: {error.what}", error.remedy, path) from None  # from the start of the file
    return layout, detect_scheme(block.tags for block in ahead if layout.tagged)


def _sentence(block: Block, layout: Layout, scheme: Scheme, path: str | Path, report: ReadingReport) -> Sentence:
    sentence = tagged_sentence(block, scheme if layout.tagged else None, path, report)
    return replace(sentence, extra={**sentence.extra, DOCUMENT_MARK: True}) if block.begins_document else sentence


def unit_of_columns(path: str | Path) -> Unit:
    """Blocks between empty lines; a table with a header is read as a whole."""
    _, first = next(read_lines(path), (0, ""))
    return "file" if find_header(first) else "block"


def write_conll(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions | None = None) -> None:
    """Write ``word<TAB>tag`` lines."""
    options = options or WriteOptions()
    for number, sentence in enumerate(sentences, options.first):
        where = f"{options.name or 'output'}: sentence {number}"
        tags = tags_of(sentence, options.scheme, where)
        begins_document = sentence.extra.get(DOCUMENT_MARK) is True
        if begins_document:
            file.write(f"{DOCUMENT_MARK}\tO\n\n")
        status = status_of_tagged(_without_mark(sentence) if begins_document else sentence)
        if status:
            file.write(STATUS_LINE + to_line(status))
        elif sentence.tokens[0].startswith("\ufeff"):
            file.write("\n")  # at the start of a file it would be a byte order mark
        _check_words(sentence.tokens, where)
        for tag in dict.fromkeys(tags):
            if tag != tag.strip() or _BREAKS.search(tag) or holds_comment(tag):
                raise DataError(f"{where}: the tag {tag!r} does not fit on a line", WRITE_JSONL)
        lines = [f"{token}\t{tag}\n" for token, tag in zip(sentence.tokens, tags, strict=True)]
        file.write("".join(lines) + "\n")


def _check_words(tokens: Sequence[str], where: str) -> None:
    """Reject words that columns cannot represent, with a fast check that passes most sentences."""
    text = "".join(tokens)
    if "" not in tokens and not _BREAKS.search(text) and "-DOCSTART-" not in text and STATUS_LINE not in text:
        return
    for token in tokens:
        if not token or _BREAKS.search(token) or _DOCUMENT_LINE.match(token) or token.startswith(STATUS_LINE):
            raise DataError(f"{where}: the word {token!r} does not fit on a line", WRITE_JSONL)


def _blocks(lines: Iterable[tuple[int, str]], path: str | Path, report: ReadingReport) -> Iterator[Block]:
    block = Block()

    def drop_status() -> None:
        if block.status is not None:
            what = f"no sentence follows the line '{STATUS_LINE.strip()}'; it is left out"
            report.note(
                "status lines without a sentence", what, "put it right before its sentence", path, block.status[0]
            )
            block.status = None

    for number, ended in lines:
        line = ended.rstrip("\r\n")
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
        elif line.startswith(STATUS_LINE):
            if block.lines:
                what = f"the line '{STATUS_LINE.strip()}' is inside a sentence"
                raise DataError(what, "put it right before the sentence", path, number)
            drop_status()
            block.status = number, line.removeprefix(STATUS_LINE)
        else:
            block.lines.append((number, line))
    if block.lines:
        yield block
    else:
        drop_status()


def _without_mark(sentence: Sentence) -> Sentence:
    return replace(sentence, extra={key: value for key, value in sentence.extra.items() if key != DOCUMENT_MARK})


def _look_ahead(blocks: Iterator[Block]) -> list[Block]:
    ahead, characters = [], 0
    for block in blocks:
        ahead.append(block)
        characters += sum(len(line) for _, line in block.lines)
        if len(ahead) >= LOOK_AHEAD or characters >= LOOK_AHEAD_CHARACTERS:
            break
    return ahead


FORMATS = [
    Format(
        "conll",
        (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".tsv", ".csv", ".col", ".txt"),
        read_conll,
        write_conll,
        unit=unit_of_columns,
    )
]
