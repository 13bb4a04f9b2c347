"""Tables and figures from the results of cells."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from lacuner.bench.recipe import Recipe, column_name
from lacuner.bench.significance import RESAMPLES, Counts, Difference, compare, unpack
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError
from lacuner.parts import validate

REPORT, RECIPE = "report.md", "recipe.json"
_SURE = 0.05
"""Greatest p that counts as a difference."""
_SMALLEST_GAP = 5.0
"""Points of F1 that gaps must cost, so that a share of them can be told from noise."""
_BETTER, _WORSE, _FEWER = "↑", "↓", "†"


@dataclass(frozen=True)
class Title:
    """What a report is about; stands beside the results, so that the report can be made again."""

    name: str
    profile: str
    recipe: Recipe
    cells: int | None = None
    """How many there are to be; none: nobody has said."""

    def write(self, folder: Path) -> None:
        """Into the folder of the results."""
        recipe = self.recipe.model_dump(mode="json")
        content = {"name": self.name, "profile": self.profile, "cells": self.cells, "recipe": recipe}
        with open_for_writing(folder / RECIPE) as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")

    @classmethod
    def read(cls, folder: Path) -> "Title":
        """As :meth:`write` wrote it."""
        try:
            content = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
            recipe = validate(Recipe, content["recipe"])
            return cls(content["name"], content["profile"], recipe, content.get("cells"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{folder / RECIPE}: {error} — give the folder that a bench has written") from error


@dataclass(frozen=True)
class Results:
    """All results of a recipe, by row and column of its table."""

    title: Title
    records: tuple[dict[str, Any], ...]
    failures: Mapping[str, str]
    cells_done: int

    @classmethod
    def of(
        cls, title: Title, records: Iterable[Mapping[str, Any]], failures: Mapping[str, str] | None = None
    ) -> "Results":
        """Results; a cell that stands for several rows is taken apart."""
        parts: list[dict[str, Any]] = []
        done = list(records)
        for record in done:
            rows = record.get("rows")
            parts += [{**record, **row, "run": name} for name, row in rows.items()] if rows else [dict(record)]
        return cls(title, tuple(parts), failures or {}, len(done))

    @cached_property
    def data(self) -> str:
        """The data that the figures are about: the papers have some tables of dev data."""
        datasets = [record.get("config", {}).get("dataset", {}) for record in self.records]
        on_dev = all(dataset and dataset["dev"] == dataset["test"] for dataset in datasets)
        return "dev" if datasets and on_dev else "test"

    @cached_property
    def most_seeds(self) -> int:
        """How many seeds the cells have that have most."""
        return max(map(len, self.cells.values()), default=0)

    @cached_property
    def several_encoders(self) -> bool:
        return len({record["encoder"] for record in self.records}) > 1

    def row(self, record: Mapping[str, Any]) -> str:
        """The row of a record."""
        encoder = f" · {record['encoder']}" if self.several_encoders else ""
        return f"{record['run']}{encoder}" + (", all labels" if record.get("complete") else "")

    def column(self, record: Mapping[str, Any]) -> str:
        """The column of a record."""
        return column_name(record["data"], record["hidden"])

    @cached_property
    def columns(self) -> list[str]:
        own = (record for record in self.records if not record.get("complete"))
        return list(dict.fromkeys(map(self.column, own)))

    @cached_property
    def rows(self) -> list[str]:
        """In the recipe's order; what has all labels last."""
        recipe = self.title.recipe
        order = {run: number for number, run in enumerate(recipe.runs)}

        def place(record: Mapping[str, Any]) -> tuple[Any, ...]:
            encoder = record["encoder"]
            number = recipe.encoders.index(encoder) if encoder in recipe.encoders else len(recipe.encoders)
            return bool(record.get("complete")), number, order.get(record["run"], len(order))

        return list(dict.fromkeys(self.row(record) for record in sorted(self.records, key=place)))

    @cached_property
    def cells(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """The records of each row and column, by seed; complete labels stand in all columns of their dataset."""
        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for record in sorted(self.records, key=lambda record: record["seed"]):
            same = [r for r in self.records if r["data"] == record["data"] and not r.get("complete")]
            for column in dict.fromkeys(map(self.column, same if record.get("complete") else [record])):
                cells.setdefault((self.row(record), column), []).append(record)
        return cells

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Of every row and column to the baseline of the same encoder, with the seeds that both have."""
        found: dict[tuple[str, str], Difference] = {}
        baseline = self.title.recipe.baseline
        for (row, column), records in self.cells.items():
            first = records[0]
            if baseline is None or first.get("complete") or first["run"] == baseline:
                continue
            others = self.cells.get((self.row(first | {"run": baseline}), column), ())
            base = {record["seed"]: record for record in others if "counts" in record}
            pairs = [(r, base[r["seed"]]) for r in records if r["seed"] in base and "counts" in r]
            if pairs:
                ours, theirs = ([_counts(pair[side]) for pair in pairs] for side in (0, 1))
                if len({len(counts) for counts in (*ours, *theirs)}) == 1:
                    found[row, column] = compare(ours, theirs)
        return found

    def values(self, row: str, column: str, value: Callable[[Mapping[str, Any]], float | None]) -> list[float]:
        """A figure of each seed."""
        found = (value(record) for record in self.cells.get((row, column), ()))
        return [one for one in found if one is not None]


def summary(results: Results) -> dict[str, Any]:
    """The main table for JSON: fractions, not percent."""
    table = []
    for (row, column), records in results.cells.items():
        values = [record["test"]["f1"] for record in records if "test" in record]
        if values:
            deviation = stdev(values) if len(values) > 1 else None
            entry = {"run": records[0]["run"], "encoder": records[0]["encoder"], "column": column, "row": row}
            table.append(entry | {"f1": mean(values), "deviation": deviation, "seeds": len(values)})
    return {"results": len(results.records), "table": table}


def test_f1(record: Mapping[str, Any]) -> float | None:
    """F1 on test data, in percent."""
    f1 = record.get("test", {}).get("f1")
    return None if f1 is None else 100 * f1


def spread(values: Sequence[float], digits: int = 1) -> str:
    """``mean ± deviation``; of a single value there is no deviation.

    >>> spread([1.0, 2.0]), spread([1.25]), spread([])
    ('1.5 ± 0.7', '1.2', '')
    """
    if not values:
        return ""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column stands left, the others right."""
    first, *others = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (head, *rows))
    return "\n".join([first, f"| --- |{' --: |' * (len(head) - 1)}", *others])


def write_report(results: Results, out: Path, figures: bool = True) -> Path:
    """``report.md``, and ``figures/`` beside it."""
    drawn: list[tuple[str, str]] = []
    if figures:
        from lacuner.bench.figures import draw_figures

        drawn = draw_figures(results, out)
    with open_for_writing(out / REPORT) as file:
        file.write(report(results, drawn))
    return out / REPORT


def report(results: Results, figures: Sequence[tuple[str, str]] = ()) -> str:
    """The whole report as Markdown; ``figures`` are captions and files."""
    recipe = results.title.recipe
    parts = [f"# {recipe.title}", recipe.about.strip(), _described(results)]
    sections = (
        ("", main_table),
        ("The share of the gap that is closed", gap_table),
        (f"Differences to `{recipe.baseline}`", difference_table),
        ("Precision and recall", precision_table),
        ("O-values", o_value_table),
        ("Missampling", missampling_table),
        ("What an audit finds", audit_table),
        ("How many are missing", estimate_table),
        ("Cost", cost_table),
    )
    for heading, make in sections:
        text = make(results)
        if text:
            parts += ([f"## {heading}"] if heading else []) + [text]
    if figures:
        parts.append("## Figures")
        parts += [f"![{caption}]({file})" for caption, file in figures]
    if results.failures:
        parts += ["## Failed", "\n".join(f"* {reason}" for reason in results.failures.values())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _described(results: Results) -> str:
    title = results.title
    seeds = sorted({record["seed"] for record in results.records})
    versions = sorted({record["version"] for record in results.records})
    how = "Epochs are chosen on dev data; the chosen weights are tested once."
    if title.recipe.experiment == "audit":
        how = "Models are trained to the last epoch, and judge what they have not seen."
    elif results.data == "dev":
        how = "Epochs are chosen on the same dev data that the figures are about."
    command = f"`lacuner bench {title.name} --profile {title.profile}`"
    if not results.records:
        return f"{command}: no cell has a result yet."
    count = f"{len(results.records)} results"
    if title.cells is not None and results.cells_done < title.cells:
        count = f"**{results.cells_done} of {title.cells} cells so far**"
    return f"{command}: {count}, seeds {', '.join(map(str, seeds))}, lacuner {', '.join(versions)}. {how}"


def main_table(results: Results) -> str:
    """F1 of every row and column, with the papers' figures and signs of significance."""
    recipe = results.title.recipe
    several = len(results.columns) > 1
    rows, any_paper, fewer = [], False, False
    signs = _signs(results)
    for row in results.rows:
        cells, means = [], []
        for column in results.columns:
            values = results.values(row, column, test_f1)
            text = spread(values) + signs.get((row, column), "")
            if values and len(values) < results.most_seeds:
                text, fewer = f"{text}{_FEWER}", True
            paper = _paper(results, row, column)
            if paper is not None and values:
                text, any_paper = f"{text} ({paper:.1f})", True
            cells.append(text)
            means += [mean(values)] if values else []
        if not any(cells):
            continue
        average = [f"{mean(means):.1f}" if len(means) == len(results.columns) else ""] if several else []
        rows.append([_coded(row), *cells, *average])
    if not rows:
        return ""
    notes = [f"F1 on {results.data} data in percent, mean ± standard deviation over seeds."]
    if fewer:
        notes.append(f"{_FEWER} fewer seeds than the others.")
    if any_paper:
        notes.append("In brackets: what the paper reports.")
    if signs:
        notes.append(
            f"{_BETTER} better and {_WORSE} worse than `{recipe.baseline}`, p < {_SURE:g} "
            f"(paired bootstrap over sentences, {RESAMPLES:,} resamples)."
        )
    head = ["", *results.columns, *(["mean"] if several else [])]
    return f"{markdown_table(head, rows)}\n\n{' '.join(notes)}"


def _paper(results: Results, row: str, column: str) -> float | None:
    records = results.cells.get((row, column))
    if not records or records[0].get("complete"):
        return None
    figures, run = results.title.recipe.paper, records[0]["run"]
    return figures.get(f"{run} · {records[0]['encoder']}", figures.get(run, {})).get(column)


def gap_table(results: Results) -> str:
    """``(F1 - F1 of naive) / (F1 with all labels - F1 of naive)``, of the means."""
    recipe = results.title.recipe
    if recipe.naive is None:
        return ""
    rows = []
    for row in results.rows:
        first = next((records[0] for (name, _), records in results.cells.items() if name == row), None)
        if first is None or first.get("complete") or first["run"] == recipe.naive:
            continue
        cells = []
        for column in results.columns:
            naive = results.row(first | {"run": recipe.naive})
            known = [results.values(name, column, test_f1) for name in (row, naive, f"{naive}, all labels")]
            if all(known):
                ours, low, high = map(mean, known)
                cells.append(f"{(ours - low) / (high - low):.0%}" if high - low >= _SMALLEST_GAP else "—")
            else:
                cells.append("")
        if any(cells):
            rows.append([_coded(row), *cells])
    if not rows:
        return ""
    note = f"Of what gaps cost `{recipe.naive}`: 0 % is `{recipe.naive}` on labels with gaps, 100 % on all labels."
    if any("—" in row for row in rows):
        note += f" —: they cost less than {_SMALLEST_GAP:g} points."
    return f"{markdown_table(['', *results.columns], rows)}\n\n{note}"


def difference_table(results: Results) -> str:
    """Differences of F1 to the baseline, with their p."""
    table = _grid(results, lambda row, column: _difference(results.differences.get((row, column))))
    note = f"Points of F1 with their 95 % interval, and p; paired bootstrap over sentences, {RESAMPLES:,} resamples."
    return table and f"{table}\n\n{note}"


def _difference(found: Difference | None) -> str:
    if found is None:
        return ""
    p = "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return f"{100 * found.f1:+.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}] {p}"


def _signs(results: Results) -> dict[tuple[str, str], str]:
    return {
        place: _BETTER if found.f1 > 0 else _WORSE for place, found in results.differences.items() if found.p < _SURE
    }


def _counts(record: Mapping[str, Any]) -> Counts:
    """Of each sentence of the test data: ``(S, 3)``."""
    return np.stack([unpack(record["counts"][name]) for name in ("correct", "predicted", "support")], axis=1).astype(
        float
    )


def precision_table(results: Results) -> str:
    """Precision and recall on test data."""

    def cell(row: str, column: str) -> str:
        pair = [
            results.values(row, column, lambda record, name=name: record.get("test", {}).get(name))  # type: ignore[misc]
            for name in ("precision", "recall")
        ]
        return f"{100 * mean(pair[0]):.1f} / {100 * mean(pair[1]):.1f}" if all(pair) else ""

    return _grid(results, cell)


def o_value_table(results: Results) -> str:
    """How well small O-values find hidden entities, epoch by epoch."""
    measured = [record for record in results.records if "o_values" in record]
    if not measured:
        return ""
    rows = []
    epochs = max(len(record["o_values"]["epochs"]) for record in measured)
    for row in results.rows:
        for epoch in range(epochs):

            def precision(record: Mapping[str, Any], epoch: int = epoch) -> float | None:
                known = record["o_values"]["epochs"]
                return 100 * float(known[epoch]["average_precision"]) if epoch < len(known) else None

            cells = [spread(results.values(row, column, precision)) for column in results.columns]
            rows.append([f"{_coded(row)}, epoch {epoch + 1}", *cells])
    note = "Average precision in percent of finding the words of hidden entities by their small O-values."
    return f"{markdown_table(['', *results.columns], rows)}\n\n{note}"


def missampling_table(results: Results) -> str:
    """The missampling rate, mean of the epochs."""
    if not any("missampling" in record for record in results.records):
        return ""

    def rate(record: Mapping[str, Any]) -> float | None:
        epochs = record.get("missampling")
        return 100 * mean(epoch["rate"] for epoch in epochs) if epochs else None

    table = _grid(results, lambda row, column: spread(results.values(row, column, rate), 3))
    return f"{table}\n\nOf the negatives of a sentence, the percentage that are hidden entities; mean of all epochs."


def audit_table(results: Results) -> str:
    """Precision of the first findings, and average precision."""
    if not any("audit" in record for record in results.records):
        return ""

    def figure(name: str) -> Callable[[Mapping[str, Any]], float | None]:
        def value(record: Mapping[str, Any]) -> float | None:
            found = record["audit"]
            return 100 * float(found["average_precision"] if name == "AP" else found["precision"][name])

        return value

    rows = [
        [_coded(row), name if name == "AP" else f"first {name}"]
        + [spread(results.values(row, column, figure(name))) for column in results.columns]
        for row in results.rows
        for name in ("100", "500", "1000", "AP")
    ]
    note = (
        "Of the suggested entities the percentage that are missing indeed, with these borders and this label; AP: average "
        "precision, in which missing ones that are not suggested count as never found."
    )
    return f"{markdown_table(['', '', *results.columns], rows)}\n\n{note}"


def estimate_table(results: Results) -> str:
    """The estimated number of missing entities beside the true one."""
    measured = [record for record in results.records if "estimate" in record.get("audit", ())]
    if not measured:
        return ""

    def cell(row: str, column: str) -> str:
        records = [r["audit"] for r in results.cells.get((row, column), ()) if "estimate" in r["audit"]]
        return ", ".join(
            f"{r['estimate']['total']:,.0f} [{r['estimate']['low']:,.0f}, {r['estimate']['high']:,.0f}]"
            f" of {r['missing']:,}: {r['estimate']['total'] / max(r['missing'], 1) - 1:+.0%}"
            for r in records
        )

    note = (
        "Of each seed: the estimate with its 95 % interval, the true number (entities that overlap nothing annotated), "
        "and how far off the estimate is."
    )
    return f"{_grid(results, cell)}\n\n{note}"


def cost_table(results: Results) -> str:
    """Time and memory."""

    def cell(row: str, column: str) -> str:
        cpu = results.values(row, column, lambda record: record.get("cpu_seconds"))
        memory = results.values(row, column, lambda record: record.get("peak_memory_mb"))
        return f"{mean(cpu):,.0f} s, {max(memory) / 1000:.1f} GB" if cpu and memory else ""

    table = _grid(results, cell)
    return (
        table
        and f"{table}\n\nProcessor seconds of a cell with all that belongs to it, mean over seeds; greatest peak memory."
    )


def _grid(results: Results, cell: Callable[[str, str], str]) -> str:
    rows = [[_coded(row), *(cell(row, column) for column in results.columns)] for row in results.rows]
    rows = [row for row in rows if any(row[1:])]
    return markdown_table(["", *results.columns], rows) if rows else ""


def _coded(row: str) -> str:
    """A run's name as code, what else is said about it not."""
    name, comma, labels = row.partition(", all labels")
    run, dot, encoder = name.partition(" · ")
    return f"`{run}`{dot}{encoder}{comma}{labels}"
