"""The tables of the README are those that were measured, and training is as good as it was when they were."""

from pathlib import Path
from statistics import mean

import pytest

from lacuner.bench.folder import RESULTS as RECORDS
from lacuner.bench.pages import read_scores, with_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SEEDS = 3
COMMENT = "<!-- lacuner bench:"


def measured(recipe: str, column: str, *rows: str) -> list[list[float]]:
    """F1 of every seed in a column of a recipe, for each row; the test is skipped while there are fewer than three."""
    folder = RESULTS / recipe
    scores = read_scores(folder).get(column, {}) if (folder / RECORDS).is_file() else {}
    missing = [row for row in rows if len(scores.get(row, ())) < SEEDS]
    if missing:
        pytest.skip(f"not measured yet: {', '.join(missing)} in the column {column} of {recipe}")
    return [scores[row] for row in rows]


def test_the_tables_in_the_readme_are_the_measured_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_tables(text, ROOT) == (text, text.count(COMMENT))


def test_complete_labels_reach_what_was_promised() -> None:
    (complete,) = measured("distant", "conll03", "full, all labels")
    assert mean(complete) >= 89.5


def test_negative_sampling_is_far_above_ordinary_training_when_labels_are_hidden() -> None:
    full, uniform = measured("masked", "conll03 0.7", "full", "uniform")
    assert mean(uniform) >= mean(full) + 5
    assert len(uniform) == len(full)
