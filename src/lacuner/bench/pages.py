"""Tables in Markdown pages that are made from the results of benches.

Such a table follows a comment with folders of results, relative to the page, and rows::

    <!-- lacuner bench: docs/results/masked docs/results/distant; full; uniform; full, all labels -->
"""

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from lacuner.bench.folder import RESULTS, read_results
from lacuner.bench.results import Results, Title, spread, test_f1
from lacuner.bench.tables import coded, markdown_table
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError

_COMMENT = re.compile(r"^<!-- lacuner bench: ([^;\n]+);([^\n]+) -->\n\n*(?:\|.*\n)*\n*", re.MULTILINE)


def renew_tables(page: Path) -> int:
    """Make the tables of a page again, in place; how many there are."""
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
    """A page with its tables made again, and how many there are; ``base`` is the folder that its paths start from."""

    def renew(found: re.Match[str]) -> str:
        folders = [base / folder for folder in found[1].split()]
        rows = [row.strip() for row in found[2].split(";")]
        return f"{found[0].splitlines()[0]}\n\n{f1_table(folders, rows)}\n\n"

    return _COMMENT.subn(renew, text)


def f1_table(folders: Sequence[Path], rows: Sequence[str]) -> str:
    """F1 on test data in percent, of some rows in all columns of several benches."""
    columns: dict[str, dict[str, list[float]]] = {}
    for folder in folders:
        columns |= read_scores(folder)
    for row in rows:
        if not any(row in scores for scores in columns.values()):
            known = "; ".join(dict.fromkeys(name for scores in columns.values() for name in scores))
            raise ConfigError(f"no result has a row {row!r} — choose from: {known}")
    lines = []
    for row in rows:
        cells = [scores.get(row, []) for scores in columns.values()]
        average = [f"{mean(map(mean, cells)):.1f}" if all(cells) else ""] if len(columns) > 1 else []
        lines.append([coded(row), *map(spread, cells), *average])
    return markdown_table(["", *columns, *(["mean"] if len(columns) > 1 else [])], lines)


def read_scores(folder: Path) -> dict[str, dict[str, list[float]]]:
    """By column and row, F1 on test data of all seeds; the rows of the recipe's first encoder need not name it."""
    results = Results.of(Title.read(folder), read_results(folder / RESULTS))
    scores: dict[str, dict[str, list[float]]] = {column: {} for column in results.columns}
    for (row, column), records in results.cells.items():
        is_first = records[0]["encoder"] in ("", results.title.recipe.encoders[0])
        name = results.curve(records[0]) if is_first else row
        scores[column][name] = results.values(row, column, test_f1)
    return scores
