"""Result tables in Markdown pages, generated from benchmarks.

Such a table follows a comment with result folders, relative to the page, optional columns, and rows::

    <!-- lacuner bench: docs/results/masked docs/results/distant; columns: conll03 0.5, ec, mean; kb; full; lacuner -->
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from lacuner.bench.folder import RESULTS, read_results
from lacuner.bench.recipe import ALL_LABELS
from lacuner.bench.results import DIGITS, Results, Title, best_rows, spread, test_f1
from lacuner.bench.tables import NOT_CONVERGED, coded, emphasized, markdown_table
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError

MAX_COLUMNS = 7
"""Maximum number of selected columns that fit on a page."""
_COMMENT = re.compile(r"^<!-- lacuner bench: ([^;\n]+);([^\n]+) -->\n\n*(?:\|.*\n)*\n*", re.MULTILINE)
_COLUMNS = "columns:"
_MEAN = "mean"


@dataclass(frozen=True)
class Cell:
    """F1 on test data of all seeds, in percent, and whether all of them converged."""

    values: tuple[float, ...] = ()
    is_converged: bool = True

    @property
    def mean(self) -> float:
        """The mean as printed."""
        return round(mean(self.values), DIGITS)

    def text(self, is_best: bool = False) -> str:
        """``mean ± deviation``, bold if it is the best, and marked if not converged."""
        return emphasized(spread(self.values), is_best) + ("" if self.is_converged else NOT_CONVERGED)


_Table = dict[str, dict[str, Cell]]
"""By column and row."""


def renew_tables(page: Path) -> int:
    """Regenerate the tables of a page in place; return their number."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{page}: {error} — give a Markdown file") from error
    renewed, count = with_tables(text, page.parent)
    if not count:
        comment = "<!-- lacuner bench: FOLDER; METHOD; METHOD -->"
        raise ConfigError(f"{page}: it has no comment {comment} — write one where the table belongs")
    if renewed != text:
        with open_for_writing(page) as file:
            file.write(renewed)
    return count


def with_tables(text: str, base: Path) -> tuple[str, int]:
    """Regenerate the tables of a page, and return it with their number; paths are relative to ``base``."""

    def renew(found: re.Match[str]) -> str:
        folders = [base / folder for folder in found[1].split()]
        parts = [part.strip() for part in found[2].split(";")]
        chosen = next((part.removeprefix(_COLUMNS) for part in parts if part.startswith(_COLUMNS)), None)
        columns = None if chosen is None else [column.strip() for column in chosen.split(",")]
        rows = [part for part in parts if not part.startswith(_COLUMNS)]
        return f"{found[0].splitlines()[0]}\n\n{f1_table(folders, rows, columns)}\n\n"

    return _COMMENT.subn(renew, text)


def f1_table(folders: Sequence[Path], rows: Sequence[str], columns: Sequence[str] | None = None) -> str:
    """Table of F1 on test data in percent; the best of each column is bold.

    Args:
        folders: of benchmarks.
        rows: methods, with suffixes for other encoders than the first and for complete labels, as in the report.
        columns: at most seven, possibly including ``mean``; by default all of the benchmarks, and their mean.
    """
    known = _joined(folders)
    wanted = [*known, *([_MEAN] if len(known) > 1 else [])] if columns is None else list(columns)
    _check(wanted, known, rows, is_chosen=columns is not None)
    shown = {column: known[column] for column in wanted if column != _MEAN}
    cells = {(row, column): cells.get(row, Cell()) for column, cells in shown.items() for row in rows}
    texts: dict[tuple[str, str], str] = {}
    for column in shown:
        best = best_rows(_competing({row: cells[row, column] for row in rows}))
        texts |= {(row, column): cells[row, column].text(row in best) for row in rows}
    means = {row: _mean_cell([cells[row, column] for column in shown]) for row in rows}
    best = best_rows(_competing(means))
    texts |= {
        (row, _MEAN): emphasized(f"{cell.mean:.{DIGITS}f}", row in best) for row, cell in means.items() if cell.values
    }
    lines = [[coded(row), *(texts.get((row, column), "") for column in wanted)] for row in rows]
    corner = f"{NOT_CONVERGED} not converged" if any(NOT_CONVERGED in text for text in texts.values()) else ""
    return markdown_table([corner, *wanted], lines)


def _competing(cells: Mapping[str, Cell]) -> dict[str, float]:
    return {row: cell.mean for row, cell in cells.items() if cell.values and not row.endswith(ALL_LABELS)}


def _mean_cell(cells: Sequence[Cell]) -> Cell:
    """The mean over columns, if none is empty."""
    return (
        Cell((mean(mean(cell.values) for cell in cells),)) if cells and all(cell.values for cell in cells) else Cell()
    )


def _check(columns: Sequence[str], known: _Table, rows: Iterable[str], is_chosen: bool) -> None:
    if is_chosen and len(columns) > MAX_COLUMNS:
        raise ConfigError(f"{len(columns)} columns are chosen, and a page has room for {MAX_COLUMNS} — leave some out")
    for column in columns:
        if column not in known and column != _MEAN:
            raise ConfigError(f"no result has a column {column!r} — choose from: {', '.join((*known, _MEAN))}")
    for row in rows:
        if not any(row in cells for cells in known.values()):
            there = "; ".join(dict.fromkeys(name for cells in known.values() for name in cells))
            raise ConfigError(f"no result has a row {row!r} — choose from: {there}")


def _joined(folders: Sequence[Path]) -> _Table:
    """The cells of several benchmarks; duplicates are an error."""
    joined: _Table = {}
    for folder in folders:
        for column, cells in read_cells(folder).items():
            twice = next((row for row in cells if row in joined.get(column, ())), None)
            if twice is not None:
                raise ConfigError(
                    f"{folder}: another folder has {twice!r} in the column {column!r}, too — name one of them"
                )
            joined.setdefault(column, {}).update(cells)
    return joined


def read_cells(folder: Path) -> _Table:
    """The main table of a benchmark; rows of the recipe's first encoder can omit its name."""
    results = Results.of(Title.read(folder), read_results(folder / RESULTS))
    table: _Table = {column: {} for column in results.columns}
    for (row, column), records in results.cells.items():
        is_first = records[0]["encoder"] in ("", results.title.recipe.encoders[0])
        name = results.curve(records[0]) if is_first else row
        values = tuple(results.values(row, column, test_f1))
        if values:
            table[column][name] = Cell(values, results.is_converged(row, column))
    return table


def read_scores(folder: Path) -> dict[str, dict[str, list[float]]]:
    """F1 on test data of all seeds, in percent, by column and row."""
    return {
        column: {row: list(cell.values) for row, cell in cells.items()} for column, cells in read_cells(folder).items()
    }
