"""The results of a recipe's runs, arranged by row and column of its table."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from lacuner.bench.convergence import is_converged
from lacuner.bench.folder import RECIPE
from lacuner.bench.recipe import ALL_LABELS, Recipe, column_name, error_context
from lacuner.bench.significance import Counts, Difference, compare, unpack
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError
from lacuner.parts import validate

DIGITS = 1
"""Decimals of percentages."""
MIN_SEEDS = 3
"""Minimum number of seeds to estimate their variation, and so significance."""


@dataclass(frozen=True)
class Title:
    """Metadata of a report, stored with the results, so that the report can be regenerated."""

    name: str
    profile: str
    recipe: Recipe
    runs: int | None = None
    """Number of runs in the recipe; None: unknown."""

    def write(self, folder: Path) -> None:
        """Write to the folder of the results."""
        recipe = self.recipe.model_dump(mode="json")
        content = {"name": self.name, "profile": self.profile, "runs": self.runs, "recipe": recipe}
        with open_for_writing(folder / RECIPE) as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")

    @classmethod
    def read(cls, folder: Path) -> "Title":
        """Read what :meth:`write` wrote."""
        try:
            content = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
            with error_context(folder / RECIPE):
                recipe = validate(Recipe, content["recipe"])
            return cls(content["name"], content["profile"], recipe, content.get("runs"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{folder / RECIPE}: {error} — give a folder written by lacuner bench run") from error


@dataclass(frozen=True)
class Results:
    """All results of a recipe, by row and column of its table."""

    title: Title
    records: tuple[dict[str, Any], ...]
    failures: Mapping[str, str]
    runs_done: int

    @classmethod
    def of(
        cls, title: Title, records: Iterable[Mapping[str, Any]], failures: Mapping[str, str] | None = None
    ) -> "Results":
        """Build from records; a run with several rows becomes several records."""
        parts: list[dict[str, Any]] = []
        done = list(records)
        for record in done:
            rows = record.get("rows")
            parts += [{**record, **row, "method": name} for name, row in rows.items()] if rows else [dict(record)]
        return cls(title, tuple(parts), failures or {}, len(done))

    @cached_property
    def data(self) -> str:
        """The split that the figures are about: some tables of papers are about dev data."""
        return "dev" if self.columns and self.dev_columns == self.columns else "test"

    @cached_property
    def dev_columns(self) -> list[str]:
        """Columns with results on dev data."""
        datasets = {self.column(record): record.get("config", {}).get("dataset", {}) for record in self.records}
        on_dev = {column for column, dataset in datasets.items() if dataset and dataset["dev"] == dataset["test"]}
        return [column for column in self.columns if column in on_dev]

    @cached_property
    def max_seeds(self) -> int:
        """The maximum number of seeds in a cell."""
        return max(map(len, self.cells.values()), default=0)

    @cached_property
    def several_encoders(self) -> bool:
        return len({record["encoder"] for record in self.records if is_trained(record)}) > 1

    def row(self, record: Mapping[str, Any]) -> str:
        """The row of a record."""
        encoder = f" · {record['encoder']}" if self.several_encoders and is_trained(record) else ""
        return f"{record['method']}{encoder}{_labels(record)}"

    def curve(self, record: Mapping[str, Any]) -> str:
        """The name of a record among those of its encoder."""
        return f"{record['method']}{_labels(record)}"

    def column(self, record: Mapping[str, Any]) -> str:
        """The column of a record."""
        return column_name(record["data"], record["hidden"])

    @cached_property
    def columns(self) -> list[str]:
        """Columns in the recipe's order."""
        recipe = self.title.recipe
        order = [column_name(data, hidden) for data in recipe.data for hidden in recipe.hidden]
        own = [record for record in self.records if not record.get("complete")]
        found = dict.fromkeys(map(self.column, own or self.records))
        return sorted(found, key=lambda column: order.index(column) if column in order else len(order))

    @cached_property
    def rows(self) -> list[str]:
        """Rows in the recipe's order; complete labels last."""
        return list(dict.fromkeys(map(self.row, self._in_order)))

    @cached_property
    def curves(self) -> list[str]:
        """Curves in the same order."""
        return list(dict.fromkeys(map(self.curve, self._in_order)))

    @cached_property
    def _in_order(self) -> list[dict[str, Any]]:
        recipe = self.title.recipe

        def rank(record: Mapping[str, Any]) -> tuple[Any, ...]:
            encoder, method = record["encoder"], record["method"]
            others = len(recipe.encoders) if is_trained(record) else 0
            number = recipe.encoders.index(encoder) if encoder in recipe.encoders else others
            own = [order for order, name in enumerate(recipe.methods) if f"{method}, ".startswith(f"{name}, ")]
            known = method in recipe.methods
            return bool(record.get("complete")), number, max(own, default=len(recipe.methods)), not known

        return sorted(self.records, key=rank)

    @cached_property
    def cells(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """The records of each row and column, by seed; those with complete labels are in all columns of their dataset."""
        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        of_data: dict[str, dict[str, None]] = {}
        for record in self.records:
            if not record.get("complete"):
                of_data.setdefault(record["data"], {})[self.column(record)] = None
        for record in sorted(self.records, key=lambda record: record["seed"]):
            own = self.column(record)
            for column in of_data.get(record["data"], (own,)) if record.get("complete") else (own,):
                cells.setdefault((self.row(record), column), []).append(record)
        return cells

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Differences of every row and column from the baseline with the same encoder, over common seeds."""
        return self.differences_to(self.title.recipe.baseline)

    def differences_to(self, other: str | None) -> dict[tuple[str, str], Difference]:
        """Differences of every row and column from another method with the same encoder, over common seeds."""
        found: dict[tuple[str, str], Difference] = {}
        for cell, pairs in self._pairs(other).items():
            ours, theirs = ([_counts(pair[side]) for pair in pairs] for side in (0, 1))
            if len(pairs) >= MIN_SEEDS and len({len(counts) for counts in (*ours, *theirs)}) == 1:
                found[cell] = compare(ours, theirs)
        return found

    @cached_property
    def too_few_seeds(self) -> bool:
        """Whether any comparison with the baseline is missing only for lack of seeds."""
        return any(len(pairs) < MIN_SEEDS for pairs in self._pairs(self.title.recipe.baseline).values())

    def _pairs(self, other: str | None) -> dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]]:
        """For every comparable row and column, pairs of results with the same seed, of it and the other method."""
        found: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for (row, column), records in self.cells.items():
            first = records[0]
            if other is None or first.get("complete") or first["method"] == other:
                continue
            pairs = [
                (ours, theirs)
                for ours in records
                for theirs in self._cell_of(other, first, column)
                if "counts" in ours and "counts" in theirs
                if ours["seed"] == theirs["seed"] or not (is_trained(ours) and is_trained(theirs))
            ]
            if pairs:
                found[row, column] = pairs
        return found

    def _cell_of(self, method: str, record: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
        """The results of a method to compare a record with: of the same encoder, or without encoder."""
        same = {**record, "method": method}
        cells = ((self.row(described), column) for described in (same, {**same, "encoder": ""}))
        return next((self.cells[cell] for cell in cells if cell in self.cells), [])

    @cached_property
    def winners(self) -> frozenset[tuple[str, str]]:
        """The rows with the best mean F1 (as printed) of each column, excluding complete labels."""
        found: set[tuple[str, str]] = set()
        for column in self.columns:
            means = {
                row: round(mean(values), DIGITS)
                for row in self.rows
                if not self.cells.get((row, column), [{}])[0].get("complete")
                if (values := self.values(row, column, test_f1))
            }
            found |= {(row, column) for row in best_rows(means)}
        return frozenset(found)

    def is_converged(self, row: str, column: str) -> bool:
        """Whether all runs of a cell converged."""
        return all(map(is_converged, self.cells.get((row, column), ())))

    def values(self, row: str, column: str, value: Callable[[Mapping[str, Any]], float | None]) -> list[float]:
        """A value of each seed."""
        found = (value(record) for record in self.cells.get((row, column), ()))
        return [one for one in found if one is not None]


def is_trained(record: Mapping[str, Any]) -> bool:
    """Whether it is the result of a trained model; otherwise there is no encoder, and one seed suffices."""
    return bool(record["encoder"])


def summary(results: Results) -> dict[str, Any]:
    """The main table for JSON: fractions, not percent."""
    table = []
    for (row, column), records in results.cells.items():
        values = [record["test"]["f1"] for record in records if "test" in record]
        if values:
            deviation = stdev(values) if len(values) > 1 else None
            entry = {"method": records[0]["method"], "encoder": records[0]["encoder"], "column": column, "row": row}
            table.append(entry | {"f1": mean(values), "deviation": deviation, "seeds": len(values)})
    return {"results": len(results.records), "table": table}


def test_f1(record: Mapping[str, Any]) -> float | None:
    """F1 on test data, in percent."""
    f1 = record.get("test", {}).get("f1")
    return None if f1 is None else 100 * f1


def best_rows(means: Mapping[str, float]) -> list[str]:
    """The rows with the greatest mean; none if all are equal.

    >>> best_rows({"a": 80.1, "b": 80.1, "c": 79.0}), best_rows({"a": 80.1})
    (['a', 'b'], [])
    """
    return [row for row, value in means.items() if min(means.values()) < value == max(means.values())]


def spread(values: Sequence[float], digits: int = DIGITS) -> str:
    """``mean ± deviation``; without deviation for a single value.

    >>> spread([1.0, 2.0]), spread([1.25]), spread([])
    ('1.5 ± 0.7', '1.2', '')
    """
    if not values:
        return ""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def _labels(record: Mapping[str, Any]) -> str:
    return ALL_LABELS if record.get("complete") else ""


def _counts(record: Mapping[str, Any]) -> Counts:
    """Counts of each sentence of the test data: ``(S, 3)``."""
    return np.stack([unpack(record["counts"][name]) for name in ("correct", "predicted", "support")], axis=1).astype(
        float
    )
