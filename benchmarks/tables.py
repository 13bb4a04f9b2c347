"""Renew the tables of pages that are made of what ``lacuner bench`` measured.

    python benchmarks/tables.py README.md …

Such a table stands below a comment ``<!-- docs/results: masked distant; full uniform -->``: results that lie below that
folder, and the runs that are its rows, in this order.
"""

import re
import sys
from pathlib import Path
from statistics import mean

from lacuner.bench.results import Results, Title, spread, test_f1
from lacuner.bench.runner import RESULTS, read_results
from lacuner.bench.tables import markdown_table

ROOT = Path(__file__).parents[1]
ENCODER = "recurrent"
COMMENT = re.compile(r"^<!-- docs/results: ([\w -]+); ([\w -]+) -->\n\n*(?:\|.*\n)*\n*", re.MULTILINE)


def renewed(page: str) -> str:
    """A page with its tables made anew."""

    def renew(found: re.Match[str]) -> str:
        return f"{found[0].splitlines()[0]}\n\n{table(found[1].split(), found[2].split())}\n\n"

    return COMMENT.sub(renew, page)


def table(names: list[str], runs: list[str]) -> str:
    """F1 on test data in percent, of some runs in all columns of several benches."""
    columns: dict[str, dict[str, list[float]]] = {}
    for name in names:
        for run, column, score in measured(name):
            columns.setdefault(column, {}).setdefault(run, []).append(score)
    rows = []
    for run in runs:
        cells = [scores.get(run, []) for scores in columns.values()]
        average = f"{mean(map(mean, cells)):.1f}" if all(cells) else ""
        rows.append([f"`{run}`", *map(spread, cells), average])
    return markdown_table(["", *columns, "mean"], rows)


def measured(name: str) -> list[tuple[str, str, float]]:
    """Run, column and score of every training of a bench on labels with gaps."""
    folder = ROOT / "docs" / "results" / name
    results = Results.of(Title.read(folder), read_results(folder / RESULTS))
    found = ((record["run"], results.column(record), test_f1(record), record) for record in results.records)
    return [
        (run, column, score)
        for run, column, score, record in found
        if score is not None and record["encoder"] == ENCODER and not record["complete"]
    ]


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
