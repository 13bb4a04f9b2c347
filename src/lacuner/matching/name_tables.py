"""Dictionaries as columns: tabs or commas, with or without a header, with or without labels."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lacuner.corpus import OUTSIDE
from lacuner.corpus.files import ReadingReport, name_of
from lacuner.errors import DataError
from lacuner.matching.entry import CASES, Entry

Lines = Sequence[tuple[int, str]]
"""Non-blank lines with their numbers."""
NAME_COLUMNS = ("surface", "name", "text", "pattern", "term", "phrase", "mention", "alias", "entity", "word")
"""Column or field names of names, in order of precedence."""
LABEL_COLUMNS = ("label", "type", "entity_type", "entity_label", "ner_tag", "tag", "category", "class")
UNTYPED = "?"
"""The label of names that need none."""
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_LOOKED_AT = 1000
_MOST, _MANY = 0.8, 20
"""Fraction of rows that determines how all are read, and number of rows needed to conclude that there are no labels."""
_SPACED = re.compile(r"\S.*\s(\S+)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?")
_KNOWN_LABELS = frozenset(
    {
        "per", "person", "people", "loc", "location", "place", "gpe", "org", "organization", "organisation", "company", "misc",
        "norp", "fac", "facility", "product", "event", "date", "time", "money", "language", "disease", "chemical", "drug",
        "gene", "protein", "species",
    }
)  # fmt: skip


class Row(NamedTuple):
    """The cells of a line."""

    line: int
    cells: list[str]


def read_table(
    lines: Lines, path: str | Path, report: ReadingReport, label: str | None = None
) -> Iterator[tuple[int, Entry]]:
    """Read names from columns (``name, label, case``, in this order or in that of a header), with their line numbers.

    Args:
        lines: of the file.
        path: its name; ``.csv`` means that cells may be quoted, and other separators than tabs are possible.
        report: counts skipped lines.
        label: of all names, if there is no column for it.
    """
    rows = _cut(lines, path)
    header = _header(rows, label)
    if header is not None:
        report.remark(f"the first line is a header ({', '.join(rows[0].cells)}), not a name", path)
        rows = _in_order(rows, header, path, report, label)
    elif label is None:
        _check_columns(lines, rows, path, report)
    if label is not None and header is None and _share(rows, 2) > 0.5:
        what = "there are several columns, so that names may have labels already"
        remedy = (
            "leave out --label, or keep the names only, one a line (in a .csv file, between quotes if they have commas)"
        )
        raise DataError(what, remedy, path)
    for line, cells in rows:
        columns = cells if label is None or len(cells) > 1 else [cells[0], label]
        surface, given, case = [*columns, "", "", ""][:3]
        surface = " ".join(surface.split())
        problem = _problem(columns, surface, given, case)
        if problem is not None:
            kind, what = problem
            report.note(kind, f"{what}; the line is left out", "write surface<TAB>label", path, line)
            continue
        yield line, Entry(surface, given, case or None)  # type: ignore[arg-type]


def read_phrase_table(lines: Lines, path: str | Path, report: ReadingReport) -> Iterator[tuple[int, Entry]]:
    """Read unlabeled phrases: the first column, or the one that a header calls names; after scores, the second."""
    rows = _cut(lines, path)
    column = 0
    cells = [_plain(cell) for cell in rows[0].cells]
    named = [cells.index(name) for name in NAME_COLUMNS if name in cells]
    if named and len(rows) > 1:
        report.remark(f"the first line is a header ({', '.join(rows[0].cells)}), not a name", path)
        rows, column = rows[1:], named[0]
    elif all(len(row.cells) > 1 and _NUMBER.fullmatch(row.cells[0]) for row in rows):
        report.remark("the first column has numbers; the names are read from the second", path)
        column = 1
    for line, row in rows:
        surface = " ".join(row[column].split()) if column < len(row) else ""
        if surface:
            yield line, Entry(surface, UNTYPED)
        else:
            report.note("empty names", "there is no name; the line is left out", "write one a line", path, line)


def _cut(lines: Lines, path: str | Path) -> list[Row]:
    """Split lines into cells. Except in CSV, only tabs separate, since names may contain commas."""
    if not name_of(path).endswith(".csv"):
        return [Row(number, [cell.strip() for cell in line.split("\t")]) for number, line in lines]
    separator = _separator([line for _, line in lines[:_LOOKED_AT]])
    reader = csv.reader((line for _, line in lines), delimiter=separator, skipinitialspace=True, strict=True)
    rows: list[Row] = []
    while True:
        number = lines[min(reader.line_num, len(lines) - 1)][0]
        try:
            cells = next(reader)
        except StopIteration:
            return rows
        except csv.Error as error:
            raise DataError(
                f"not CSV ({error})",
                "close the quotes, write a quote inside of quotes twice, or write tabs",
                path,
                number,
            ) from None
        rows.append(Row(number, [cell.strip() for cell in cells]))


def _separator(lines: Sequence[str]) -> str:
    """The separator that splits most lines into the same number of columns, at least two."""

    def fitting(separator: str) -> int:
        try:
            sizes = Counter(map(len, csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)))
        except csv.Error:
            return 0
        return max((count for size, count in sizes.items() if size > 1), default=0)

    return max(("\t", ",", ";", "|"), key=fitting)


def _header(rows: Sequence[Row], label: str | None) -> dict[str, int] | None:
    """The columns of names, labels and case, if the first line is a header."""
    cells = [_plain(cell) for cell in rows[0].cells]
    columns: dict[str, int] = {}
    for kind, words in (("name", NAME_COLUMNS), ("label", LABEL_COLUMNS), ("case", ("case",))):
        found = next((cells.index(word) for word in words if word in cells), None)
        if found is not None and found not in columns.values():
            columns[kind] = found
    if "name" in columns and ("label" in columns or (label is not None and len(rows) > 1)):
        return columns
    unusual = columns.get("label")
    if (
        unusual == 1
        and len(rows) > 1
        and all(_plain([*row.cells, ""][1]) != cells[1] for row in rows[1:] if row.cells[1:])
    ):
        return {"name": 0, "label": 1}  # such as drug<TAB>type
    return None


def _in_order(
    rows: Sequence[Row], header: dict[str, int], path: str | Path, report: ReadingReport, label: str | None
) -> list[Row]:
    """Reorder the rows below a header: name, label, and case if present."""
    if label is not None and "label" in header:
        what = f"the column {rows[0].cells[header['label']]!r} has labels already"
        raise DataError(what, "leave out --label", path, rows[0].line)
    unread = [cell for index, cell in enumerate(rows[0].cells) if index not in header.values()]
    if unread:
        report.remark(f"columns that are not read: {', '.join(unread)}", path)
    ordered = []
    for line, cells in rows[1:]:
        filled = [*cells, *[""] * (len(rows[0].cells) - len(cells))]
        given = filled[header["label"]] if label is None else label
        case = [filled[header["case"]]] if "case" in header else []
        ordered.append(Row(line, [filled[header["name"]], given, *case]))
    return ordered


def _check_columns(lines: Lines, rows: Sequence[Row], path: str | Path, report: ReadingReport) -> None:
    """Reject a list whose second column is missing, or contains the names."""
    if _share(rows, 2) == 0:
        raise _one_column(lines, path)
    pairs = [row.cells[:2] for row in rows if len(row.cells) > 1 and row.cells[0] and row.cells[1]]
    first, second = ({pair[column] for pair in pairs} for column in (0, 1))
    if pairs and _are_swapped(first, second, len(pairs)):
        what = f"the labels seem to be in the first column ({_shown(first)}), and the names in the second ({_shown(second)})"
        remedy = "swap the columns, or begin with a line that names them: label<TAB>name"
        raise DataError(what, remedy, path, rows[0].line)
    if len(pairs) >= _MANY and 2 * len(second) > len(pairs):
        what = f"{len(pairs):,} names have {len(second):,} different labels ({_shown(second)})"
        report.note("lists with nearly as many labels as names", what, "give the label second", path, rows[0].line)


def _one_column(lines: Lines, path: str | Path) -> DataError:
    """Error for a list without a second column, with a remedy."""
    texts = [line for _, line in lines]
    for separator, name in _SEPARATORS.items():
        sizes = Counter(line.count(separator) for line in texts)
        if max(sizes[1], sizes[2]) >= _MOST * len(texts):
            what = f"columns are separated by {name}, if there are any, and not by tabs"
            return DataError(what, "use the file extension .csv; or, if these are only names, give their --label", path)
    last = Counter(found[1] for found in map(_SPACED.fullmatch, texts) if found)
    known = sum(count for word, count in last.items() if word.lower() in _KNOWN_LABELS or word.isupper())
    if known >= _MOST * len(texts):
        what = f"names and labels ({_shown(last)}) are separated by spaces"
        return DataError(what, "put a tab between them", path, lines[0][0])
    return DataError(
        "there is only one column, so no label",
        "give the label of all names with --label PER, or write name<TAB>label",
        path,
    )


def _are_swapped(first: set[str], second: set[str], rows: int) -> bool:
    known, others = ({value for value in values if value.lower() in _KNOWN_LABELS} for values in (first, second))
    if others:
        return False
    if known == first or (known and len(first) < len(second)):
        return True
    label_like = all(" " not in value and len(value) <= 30 for value in first)
    return label_like and rows >= 5 and 2 * len(first) <= len(second) and not all(map(str.isupper, second))


def _problem(columns: list[str], surface: str, label: str, case: str) -> tuple[str, str] | None:
    """The kind of error in a line and its details, if any."""
    if len(columns) == 1:
        return "lines without a tab", f"there is no tab between name and label in {columns[0][:40]!r}"
    if not surface:
        return "empty names", f"there is no name before the label {label!r}"
    if not label or label == OUTSIDE:
        return "names without a label", f"{surface!r} has the label {label!r}"
    if case and case not in CASES:
        return (
            "unknown third columns",
            f"{surface!r} has {case!r} in its third column, which is neither exact nor ignore",
        )
    if len(columns) > 3:
        return "lines with too many columns", f"{surface!r} has {len(columns)} columns"
    return None


def _share(rows: Sequence[Row], columns: int) -> float:
    return sum(len(row.cells) >= columns for row in rows) / len(rows)


def _plain(cell: str) -> str:
    return cell.strip().lower().replace(" ", "_").replace("-", "_")


def _shown(values: set[str] | Counter[str]) -> str:
    names = sorted(values)
    return ", ".join(name[:30] for name in names[:3]) + (", …" if len(names) > 3 else "")
