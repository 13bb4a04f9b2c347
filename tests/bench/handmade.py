"""Recipes and results made by hand."""

import shutil
from collections.abc import Mapping, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from lacuner.bench.recipe import Recipe, build_recipe
from lacuner.bench.results import Results, Title
from lacuner.bench.significance import pack

SMALL: dict[str, Any] = {
    "encoder": {"vectors": "none", "word_size": 20, "hidden": 24},
    "training": {"epochs": 8, "batch_tokens": 64, "encoder_learning_rate": 0.01, "head_learning_rate": 0.01},
}
"""Settings of a model that is trained in a moment, and by then knows something about the toy corpus."""
CONTENT: dict[str, Any] = {"title": "A test", "data": ["toy"], "methods": ["full", "uniform"], "seeds": [1]}


def recipe(**changes: Any) -> Recipe:
    """A valid recipe with other values for some of its keys."""
    return build_recipe(CONTENT | changes, "standard")


def record(method: str = "uniform", f1: float | None = 0.5, seed: int = 1, **more: Any) -> dict[str, Any]:
    """The result of a run."""
    scores = {} if f1 is None else {"test": {"precision": f1, "recall": f1 / 2, "f1": f1}, "dev": {"f1": f1}}
    named = {"data": "toy", "hidden": 0.5, "encoder": "recurrent", "complete": False}
    return {"key": "0", "method": method, "seed": seed, "version": "0.1", **named, **scores, **more}


def results(records: Sequence[Mapping[str, Any]], **changes: Any) -> Results:
    """Results of a recipe that has all the methods of the records."""
    said = {
        key: list(dict.fromkeys(one[name] for one in records))
        for key, name in (("methods", "method"), ("data", "data"), ("hidden", "hidden"))
    }
    runs = changes.pop("runs", None)
    return Results.of(Title("test", "standard", recipe(**(said | changes)), runs), records)


def counts(correct: Sequence[int], predicted: Sequence[int], support: Sequence[int]) -> dict[str, str]:
    """Counts of each sentence as a run writes them."""
    columns = {"correct": correct, "predicted": predicted, "support": support}
    return {name: pack(np.array(values, dtype=np.uint16)) for name, values in columns.items()}


def table(markdown: str) -> dict[tuple[str, str], str]:
    """The text in each row and column of the first table of a page."""
    rest = dropwhile(lambda line: not line.startswith("|"), markdown.splitlines())
    lines = [line.strip("|").split("|") for line in takewhile(lambda line: line.startswith("|"), rest)]
    (_, *columns), _, *rows = ([cell.strip() for cell in line] for line in lines)
    return {(row[0], column): cell for row in rows for column, cell in zip(columns, row[1:], strict=True)}


def copied(data: Path, target: Path) -> Path:
    """A copy of a folder with datasets."""
    shutil.copytree(data, target)
    return target
