"""The layout of column files: separator, and the columns of words and tags."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.lookalikes import refuse_lookalikes, refuse_texts
from lacuner.corpus.formats.tag_schemes import NO_TAG, UNKNOWN_TAGS, label_of
from lacuner.corpus.sentence import OUTSIDE
from lacuner.errors import DataError

_SEPARATORS = ("\t", " ", ",", ";", "|")
_COMMENT = "#"
_BETWEEN_WORDS = re.compile(r"[0-9]+[-.][0-9]+")
"""CoNLL-U IDs of multiword tokens (``1-2``), and of empty nodes (``1.1``)."""
_ONLY_TWO = "write two columns, the word and its tag"


@dataclass
class Block:
    """The numbered lines of one sentence, and their columns: all at first, then words and tags.

    ``begins_document``: whether it follows a ``-DOCSTART-`` line.
    """

    lines: list[tuple[int, str]] = field(default_factory=list)
    status: tuple[int, str] | None = None
    begins_document: bool = False
    columns: list[list[str]] = field(default_factory=list)

    @property
    def tags(self) -> list[str]:
        return [row[-1] for row in self.columns]


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are split.

    Attributes:
        separator: between columns; a space stands for any number of spaces and tabs.
        count: number of columns.
        first_number: value of the first column at a sentence's first word, if that column numbers words.
        tag: the requested tag column; the last one by default.
        tagged: whether there are tags.
    """

    separator: str
    count: int = 2
    first_number: int | None = None
    tag: int | None = None
    tagged: bool = True

    @classmethod
    def of(cls, blocks: Sequence[Block], tagged: bool, tag: int | None, path: str | Path) -> "Layout":
        """Detect the layout from the first blocks of a file; unless ``tagged``, a single column of words is accepted."""
        separator = _find_separator([line for block in blocks for _, line in block.lines])
        for block in blocks:
            block.columns = [cut_line(line, separator, path, number) for number, line in block.lines]
        tables = [block.columns for block in blocks]
        rows = list(chain.from_iterable(tables))
        if not tagged and 2 * sum(len(row) > 1 for row in rows) <= len(rows):
            return cls(separator, 1, tagged=False)
        if not tagged:
            refuse_texts(rows, separator, path)
        elif tag is None:
            refuse_lookalikes(rows, separator, len(blocks), path)
        first_number = _first_number(tables, path)
        if first_number is not None:
            rows = [row for row in rows if row[0].isdecimal()]
        counts = Counter(map(len, rows))
        count = max(2, max(counts, key=lambda count: (counts[count], -count), default=2))
        if not tagged and all(row[-1] == NO_TAG for row in rows):
            return cls(separator, count, first_number, tagged=False)
        return cls(separator, count, first_number, tag)

    def cut(self, block: Block, path: str | Path, report: ReadingReport) -> None:
        """Reduce each line of a block to word and tag; comments between numbered words are skipped."""
        if self.count == 1:
            block.columns = [[line.strip(" \t")] for _, line in block.lines]
            return
        rows = block.columns or [cut_line(line, self.separator, path, number) for number, line in block.lines]
        if self.first_number is not None:
            rows = self._without_numbers(block, rows, path, report)
        block.columns = rows
        if not self.tagged:
            block.columns = [row[:1] for row in rows]
        elif self.tag is not None:
            self._choose_column(block, self.tag, path)
            _check_rows(block, path)
        else:
            _check_rows(block, path)
            self._check_counts(block, path, report)

    def check_other_columns(self, blocks: Sequence[Block], path: str | Path, report: ReadingReport) -> None:
        """Warn if other columns contain tags, too; reject a file in which only others do."""
        width = self.count - (self.first_number is not None)
        if self.tag is not None or not self.tagged or width == 2:
            return
        rows = [row for block in blocks for row in block.columns if len(row) == width]
        values = [set(column) for column in zip(*rows, strict=True)]
        others = {index: _labels(column) for index, column in enumerate(values[1:-1], 1)}
        shift = 1 + (self.first_number is not None)
        if values and OUTSIDE not in values[-1] and not _labels(values[-1]):
            for index, labels in others.items():
                if labels and OUTSIDE in values[index]:
                    what = f"there are tags in column {index + shift}, but not in the last one, where they belong"
                    raise DataError(what, _ONLY_TWO, path)
        read = _labels(values[-1]) if values else set()
        for index, labels in others.items():
            if labels and (labels & read or not read):
                what = f"column {index + shift} holds tags, too ({min(labels)}, …); only the last column is read"
                report.note("columns with tags that are not read", what, _ONLY_TWO, path, _first_line(blocks))

    def _without_numbers(
        self, block: Block, rows: list[list[str]], path: str | Path, report: ReadingReport
    ) -> list[list[str]]:
        kept: list[list[str]] = []
        lines, expected = [], self.first_number or 0
        for (number, line), row in zip(block.lines, rows, strict=True):
            if line.startswith(_COMMENT) and not kept:
                report.remark("comments before sentences are not read", path)
            elif _BETWEEN_WORDS.fullmatch(row[0]):
                if row[-1] not in (OUTSIDE, NO_TAG, *UNKNOWN_TAGS):
                    what = f"{row[0]} is not the number of one word; the line is left out, with its tag {row[-1]!r}"
                    report.note("lines that are no words", what, "give the tag to the words", path, number)
                report.remark("lines numbered such as 1-2 or 1.1 are not read", path)
            elif row[0] == str(expected) and len(row) > 2:
                kept.append(row[1:])
                lines.append((number, line))
                expected += 1
            else:
                what = f"the first column counts words, but here it is {row[0]!r} instead of {expected}"
                raise DataError(what, "correct the number, or remove the column everywhere (cut -f 2-)", path, number)
        block.lines = lines
        return kept

    def _choose_column(self, block: Block, tag: int, path: str | Path) -> None:
        rows = []
        shift = self.first_number is not None
        for (number, line), row in zip(block.lines, block.columns, strict=True):
            if len(row) + shift <= tag:
                count = len(row) + shift
                what = f"only {count} column{'s' * (count != 1)}: {line[:60]!r}"
                raise DataError(what, f"the tag belongs in column {tag + 1}", path, number)
            rows.append([row[0], row[tag - shift]])
        block.columns = rows

    def _check_counts(self, block: Block, path: str | Path, report: ReadingReport) -> None:
        """Reject rows with too many columns, or too few for the last one to be a tag."""
        width = self.count - (self.first_number is not None)
        if all(len(row) == width for row in block.columns):
            return
        for (number, line), row in zip(block.lines, block.columns, strict=True):
            if len(row) == width:
                continue
            what = f"{len(row) + self.count - width} columns instead of {self.count}: {line[:60]!r}"
            if len(row) > width or not is_tag(row[-1]):
                raise DataError(what, "give every line the same columns", path, number)
            what += "; the last one is read as the tag"
            report.note("lines with fewer columns", what, "give every line the same columns", path, number)


def cut_line(line: str, separator: str, path: str | Path, number: int) -> list[str]:
    """Split a line into columns."""
    if separator == " ":
        return [column for column in line.replace("\t", " ").split(" ") if column]
    if separator != "\t" and line.startswith('"') and f'"{separator}' in line[1:]:
        try:
            columns = next(csv.reader([line], delimiter=separator))
        except csv.Error as error:
            raise DataError(f"not a line of a CSV file ({error})", "separate columns with tabs", path, number) from None
    else:
        columns = line.split(separator)
    return [columns[0], *(column.strip() for column in columns[1:])]


def is_tag(value: str) -> bool:
    """Whether this is ``O``, a prefixed tag, or one that means unknown."""
    return value == OUTSIDE or value in UNKNOWN_TAGS or label_of(value) is not None


def _find_separator(lines: Sequence[str]) -> str:
    """The separator that occurs in most lines; of ties, the one followed by the most tags."""
    shown = [line.replace(", ", ",") for line in lines]
    counts = {separator: sum(separator in line.strip(separator) for line in shown) for separator in _SEPARATORS}
    most = [separator for separator in _SEPARATORS if counts[separator] == max(counts.values())]
    if len(most) == 1:
        return most[0]
    return max(
        most, key=lambda separator: sum(is_tag(line.rstrip().rpartition(separator)[2].strip()) for line in lines)
    )


def _first_number(tables: Sequence[Sequence[Sequence[str]]], path: str | Path) -> int | None:
    """The first number, if the first column numbers the words of every sentence, and another column contains the words."""
    numbers = []
    for table in tables:
        rows = [row for row in table if not row[0].startswith(_COMMENT) and not _BETWEEN_WORDS.fullmatch(row[0])]
        if not all(row[0].isascii() and row[0].isdecimal() and len(row) > 1 for row in rows):
            return None
        if rows:
            numbers.append([row[0] for row in rows])
    if not numbers:
        return None
    widths = {len(row) for table in tables for row in table if row[0].isdecimal()}
    last = {row[-1] for table in tables for row in table if row[0].isdecimal()}
    if min(widths) == 2 and any(map(is_tag, last)):
        return None  # numbers can be words
    for first in (1, 0):
        if all(sentence == [str(first + index) for index in range(len(sentence))] for sentence in numbers):
            if min(widths) == 2:
                raise DataError("there are numbers and words, but no tags", "remove the numbers (cut -f 2)", path)
            if max(map(len, numbers)) == 1:
                what = f"{first} is in the first column of every line: a word, or the number of one?"
                raise DataError(what, _ONLY_TWO, path)
            return first
    everything = list(chain.from_iterable(numbers))
    if len(everything) > 1 and everything == [str(int(everything[0]) + index) for index in range(len(everything))]:
        what = "the first column counts words through the whole file: are they words, or numbers of words?"
        raise DataError(what, _ONLY_TWO, path)
    return None


def _first_line(blocks: Iterable[Block]) -> int:
    return next((block.lines[0][0] for block in blocks if block.lines), 1)


def _labels(values: Iterable[str]) -> set[str]:
    return {label for label in map(label_of, values) if label is not None}


def _check_rows(block: Block, path: str | Path) -> None:
    if all(len(row) > 1 and row[0] and row[-1] for row in block.columns):
        return
    for (number, line), row in zip(block.lines, block.columns, strict=True):
        if len(row) < 2:
            raise DataError(f"one column only: {line[:60]!r}", "write the word, a tab and its tag", path, number)
        if not row[0]:
            raise DataError("the word is empty", "give it at least one character", path, number)
        if not row[-1]:
            raise DataError(f"the tag of {row[0]!r} is empty", "write O, a tag such as B-PER, or ?", path, number)
