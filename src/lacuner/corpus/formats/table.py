"""CSV and TSV with a header: rows of word, tag and sentence number, or rows of text and spans.

Column files with the same extensions have no header; :func:`find_header` distinguishes the two.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.columns import Block, is_tag
from lacuner.corpus.formats.documents import fields_of, status_of, with_status
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.literals import parse_literal
from lacuner.corpus.formats.records import SENTENCE_KEYS
from lacuner.corpus.formats.span_keys import SPAN_KEYS
from lacuner.corpus.formats.tag_schemes import detect_scheme
from lacuner.corpus.formats.tagged import parse_status, tagged_sentence
from lacuner.corpus.formats.text_records import sentence_from_text_record
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

_SEPARATORS = ("\t", ",", ";", "|")
_WORDS = ("word", "token", "form")
_TAGS = ("tag", "ner", "nertag", "ne", "netag", "bio", "biotag", "iob", "iobtag", "entity", "label", "tags", "nertags")
_SENTENCES = (
    "sentence",
    "sentenceid",
    "sentid",
    "sent",
    "sentenceno",
    "sentencenumber",
    "sentenceidx",
    "sentenceindex",
)
_DOCUMENTS = ("document", "documentid", "docid", "doc", "file", "filename")
_TEXTS = ("text", "sentence", "content")
_OWN = "lacuner"
"""Column with everything that text and spans cannot represent, as JSON."""
_NAME = re.compile(r"[\w #:.()/-]{0,60}")
_MAX_CELL = 10_000_000
_LOOK_AHEAD = 10_000
_SPANS_REMEDY = "write [[start, end, label], …] into the column entities"


@dataclass(frozen=True)
class Header:
    """The first row of a table.

    Attributes:
        names: of the columns.
        separator: between columns.
        kind: whether a row is a word or a text.
        first: the column with the word, or with the text.
        second: the column with the tag, or with the spans; ``None`` if no column has a name for these.
    """

    names: tuple[str, ...]
    separator: str
    kind: Literal["words", "texts"]
    first: int
    second: int | None

    def columns(self, names: Iterable[str]) -> list[int]:
        """The columns with one of these names, except those of words and tags, or texts and spans."""
        plain = {index: _plain(name) for index, name in enumerate(self.names)}
        return [index for index in plain if plain[index] in names and index not in (self.first, self.second)]


def find_header(line: str) -> Header | None:
    """Parse a line as a header; ``None`` if it is not one, so that files without a header are read as such.

    >>> find_header("Sentence #,Word,POS,Tag").kind
    'words'
    >>> find_header("Ada,NNP,B-PER") is None
    True
    """
    for separator in _SEPARATORS:
        if separator not in line or line.startswith("#"):
            continue
        try:
            names = [name.strip() for name in next(csv.reader([line], delimiter=separator, strict=True))]
        except csv.Error:
            continue
        if is_tag(names[-1]) or len(names) < 2 or not all(map(_NAME.fullmatch, names)):
            continue
        plain = [_plain(name) for name in names]
        word, tag = _first(plain, _WORDS), _first(plain, _TAGS)
        if word is not None and tag is not None:
            return Header(tuple(names), separator, "words", word, tag)
        text = _first(plain, _TEXTS)
        spans = _first(plain, SPAN_KEYS)
        if text is not None and (spans is not None or plain[text] == "text"):
            return Header(tuple(names), separator, "texts", text, spans)
        if "tokens" in plain and tag is not None:
            return Header(tuple(names), separator, "texts", plain.index("tokens"), None)
    return None


def read_table(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a table with a header."""
    lines = read_lines(path, keep_ends=True)
    first = next(lines, None)
    if first is None:
        return
    header = find_header(first[1].rstrip("\r\n"))
    if header is None:
        what = f"the first line is no header that can be read: {first[1][:60].strip()!r}"
        remedy = "name the columns sentence_id, word and tag, or text and entities; without a header, read it as conll"
        raise DataError(what, remedy, path, 1)
    yield from read_rows(header, lines, path, report, options)


def read_rows(
    header: Header, lines: Iterator[tuple[int, str]], path: str | Path, report: ReadingReport, options: ReadOptions
) -> Iterator[Sentence]:
    """Yield sentences of a table below its header; lines include their ends."""
    twice = next((name for name in header.names if name and header.names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two columns are called {twice!r}", "rename one of them", path, 1)
    if header.kind == "words":
        yield from _word_rows(header, lines, path, report)
        return
    if header.second is None and options.tagged:
        what = f"none of the columns {', '.join(header.names)[:80]} holds spans that can be read"
        raise DataError(what, _SPANS_REMEDY, path, 1)
    for number, cells in _rows(header, lines, path):
        if any(cells):
            yield _text_row(header, cells, path, number, report, options)


def write_table(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write rows of a text and its spans as JSON."""
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "text", "entities", _OWN])
    for sentence in sentences:
        offsets, given = sentence.offsets(), sentence.extra.get("id")
        spans = [
            {"start": offsets[e.start][0], "end": offsets[e.end - 1][1], "label": e.label} | fields_of(e)
            for e in sentence.entities
        ]
        known = ["id"] if isinstance(given, str) and given else []
        status = status_of(sentence, options, known)
        cells = [given if known else "", sentence.raw_text, to_line(spans).rstrip("\n")]
        writer.writerow([*cells, to_line(status).rstrip("\n") if status else ""])


def _word_rows(
    header: Header, lines: Iterator[tuple[int, str]], path: str | Path, report: ReadingReport
) -> Iterator[Sentence]:
    blocks = _blocks(header, lines, path, report)
    ahead = list(islice(blocks, _LOOK_AHEAD))
    tags = {tag for _, block in ahead for tag in block.tags}
    if tags and all(tag.isdecimal() for tag in tags):
        what = f"the tags are numbers ({', '.join(sorted(tags)[:3])}, …)"
        raise DataError(what, "write their names, such as B-PER and O", path, ahead[0][1].lines[0][0])
    scheme = detect_scheme(block.tags for _, block in ahead)
    for fields, block in chain(ahead, blocks):
        yield tagged_sentence(block, scheme, path, report, fields)


def _blocks(
    header: Header, lines: Iterator[tuple[int, str]], path: str | Path, report: ReadingReport
) -> Iterator[tuple[dict[str, Any], Block]]:
    """Words and tags of each sentence, up to the next sentence or document number, or a blank line."""
    keys = header.columns([*_SENTENCES, *_DOCUMENTS])
    unread = [name for index, name in enumerate(header.names) if index not in (header.first, header.second, *keys)]
    if any(unread):
        report.remark(f"columns that are not read: {', '.join(name for name in unread if name)}", path)
    if not keys:
        report.remark("no column has numbers of sentences; they end at blank lines", path)
    block, current = Block(), ("",) * len(keys)
    seen: set[tuple[str, ...]] = set()

    def fields() -> dict[str, Any]:
        return {"id": " ".join(filter(None, current))} if any(current) else {}

    for number, cells in _rows(header, lines, path):
        given = tuple(cells[index].strip() for index in keys)
        key = tuple(new or old for new, old in zip(given, current, strict=True))
        blank = not any(cells)
        if block.lines and (blank or key != current):
            yield fields(), block
            block = Block()
        if blank:
            continue
        if key != current and key in seen:
            what = f"the sentence {' '.join(key)!r} goes on after another one; it is read as a new one"
            report.note("sentences that go on later", what, "sort the rows by sentence", path, number)
        current = key
        seen.add(key)
        word, tag = cells[header.first].strip(), cells[header.second or 0].strip()
        if not word or not tag:
            what = f"the tag of {word!r} is empty" if word else "the word is empty"
            raise DataError(what, "give every row a word and a tag", path, number)
        block.lines.append((number, word))
        block.columns.append([word, tag])
    if block.lines:
        yield fields(), block


def _text_row(
    header: Header,
    cells: Sequence[str],
    path: str | Path,
    number: int,
    report: ReadingReport,
    options: ReadOptions,
) -> Sentence:
    record: dict[str, Any] = {"text": cells[header.first], "entities": []}
    if header.second is not None:
        record["entities"] = _spans(cells[header.second], header.names[header.second], path, number)
    extra: dict[str, Any] = {}
    status: dict[str, Any] = {}
    for index, (name, cell) in enumerate(zip(header.names, cells, strict=True)):
        if index in (header.first, header.second) or not cell or not name:
            continue
        if name == _OWN:
            status = parse_status(cell, path, number, f"the column {_OWN}")
        elif name in SENTENCE_KEYS:
            what = f"the column {name!r} is not read here"
            raise DataError(what, "rename it, or write JSON Lines", path, 1)
        else:
            extra[name] = cell
    record = with_status(record, status, extra, path, number)
    return sentence_from_text_record(record, "entities", path, number, report, options.split)


def _spans(cell: str, name: str, path: str | Path, number: int) -> list[Any]:
    """The spans in a cell; the list may be inside an object ``{"entities": […]}``."""
    if not cell.strip():
        return []
    try:
        value = parse_literal(cell.strip())
    except ValueError as error:
        what = f"the column {name} holds no list of spans: {cell[:60]!r} ({str(error)[:80]})"
        raise DataError(what, _SPANS_REMEDY, path, number) from None
    if isinstance(value, Mapping) and list(value) == ["entities"]:
        value = value["entities"]
    if value is None:
        return []
    if not isinstance(value, list):
        raise DataError(f"the column {name} holds no list of spans: {cell[:60]!r}", _SPANS_REMEDY, path, number)
    return [span for item in value for span in _with_one_label(item)]


def _with_one_label(item: object) -> list[Any]:
    """Split a span with a list of labels into one span per label."""
    if not isinstance(item, Mapping) or "label" in item or not isinstance(item.get("labels"), list):
        return [item]
    others = {key: value for key, value in item.items() if key != "labels"}
    return [{**others, "label": label} for label in item["labels"]] or [item]


def _rows(header: Header, lines: Iterator[tuple[int, str]], path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, with the number of its first line; blank lines are rows of empty cells."""
    # In a tab-separated table of words, a quotation mark is a word; elsewhere it opens a cell with line breaks.
    by_line = header.kind == "words" and header.separator == "\t"
    rows = _cut_lines(lines) if by_line else _csv_rows(lines, header.separator, path)
    for number, cells in rows:
        if not any(cell.strip() for cell in cells):
            yield number, [""] * len(header.names)
            continue
        if len(cells) != len(header.names):
            shown = header.separator.join(cells)[:60]
            what = f"{len(cells)} columns instead of {len(header.names)}: {shown!r}"
            raise DataError(what, "give every row the columns of the header", path, number)
        if header.kind == "words" and any("\n" in cell for cell in cells):
            what = "a quotation mark opens a cell that goes on in the next line"
            raise DataError(what, 'write the word " as """" (four of them)', path, number)
        yield number, cells


def _cut_lines(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        yield number, [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _unquoted(cell: str) -> str:
    if len(cell) > 2 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', ""):
        return cell[1:-1].replace('""', '"')
    return cell


def _csv_rows(lines: Iterator[tuple[int, str]], separator: str, path: str | Path) -> Iterator[tuple[int, list[str]]]:
    number = 1

    def contents() -> Iterator[str]:
        nonlocal number
        for number, line in lines:  # noqa: B007 the number is read outside
            yield line

    reader = csv.reader(contents(), delimiter=separator, strict=True)
    while True:
        first = number + 1
        limit = csv.field_size_limit(_MAX_CELL)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            what = f"not a row of a table ({error})"
            raise DataError(what, "close every quotation mark, and double those inside of cells", path, first) from None
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        yield first, cells


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _first(plain: Sequence[str], names: Iterable[str]) -> int | None:
    return next((plain.index(name) for name in names if name in plain), None)


FORMATS = [
    Format("csv", read=read_table, write=write_table, cannot_hold=frozenset({"by_source"}), line_based=False),
]
