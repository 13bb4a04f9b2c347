"""The tables of the README are those that were measured, and they say what they are said to say."""

from pathlib import Path
from statistics import mean

import pytest

from lacuner.bench.pages import read_scores, with_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAPERS = ("uniform", "weighted", "top-neg", "nrces", "scl-rai", "two-step")


@pytest.fixture(scope="module")
def conll03() -> dict[str, list[float]]:
    """F1 of every seed on the whole of CoNLL-03 with 70 % of the labels hidden, by row."""
    return read_scores(RESULTS / "conll03")["conll03 0.7"]


def test_the_tables_in_the_readme_are_the_measured_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_tables(text, ROOT) == (text, 2)


def test_complete_labels_reach_what_was_promised(conll03: dict[str, list[float]]) -> None:
    assert len(conll03["full, all labels"]) >= 3
    assert mean(conll03["full, all labels"]) >= 89.5


def test_negative_sampling_is_far_above_ordinary_training_when_labels_are_hidden(
    conll03: dict[str, list[float]],
) -> None:
    assert mean(conll03["uniform"]) >= mean(conll03["full"]) + 5
    assert len(conll03["uniform"]) == len(conll03["full"]) >= 3


def test_our_method_is_above_each_of_the_papers_on_average() -> None:
    columns = read_scores(RESULTS / "masked") | read_scores(RESULTS / "distant")
    assert all(scores[method] for scores in columns.values() for method in (*PAPERS, "lacuner"))
    averages = {method: mean(mean(scores[method]) for scores in columns.values()) for method in (*PAPERS, "lacuner")}
    assert averages.pop("lacuner") >= max(averages.values()) + 2
