"""The tables of the README are those that were measured, and training is as good as it was when they were."""

from pathlib import Path
from statistics import mean

import pytest

from lacuner.bench.pages import read_scores, with_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
COMMENT = "<!-- lacuner bench:"


def measured(recipe: str, column: str, *rows: str, seeds: int = 3) -> list[float]:
    """The mean F1 over seeds in a column of a recipe, for each row; all of them are published."""
    scores = read_scores(RESULTS / recipe)[column]
    assert all(len(scores.get(row, ())) >= seeds for row in rows), f"{rows} in {column} of {recipe}: {scores}"
    return [mean(scores[row]) for row in rows]


@pytest.mark.parametrize(("page", "tables"), [("README.md", 1), ("docs/threshold.md", 1)])
def test_the_tables_in_the_pages_are_the_measured_ones(page: str, tables: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count(COMMENT) == tables
    assert with_tables(text, (ROOT / page).parent) == (text, tables)


def test_complete_labels_reach_what_was_promised() -> None:
    (complete,) = measured("well-annotated", "conll03", "full")
    assert complete >= 90.0


def test_negative_sampling_is_far_above_ordinary_training_when_labels_are_hidden() -> None:
    full, uniform = measured("masked", "conll03 0.5", "full", "uniform", seeds=2)
    assert uniform >= full + 5


@pytest.mark.parametrize("column", ["conll03 0.3", "conll03 0.5", "conll03 0.7", "conll03 0.9"])
def test_a_threshold_brings_back_what_sampling_brings_back(column: str) -> None:
    with_threshold, uniform = measured("masked", column, "full + threshold", "uniform")
    assert with_threshold >= uniform
