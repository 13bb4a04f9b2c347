"""The figures of the README are those that benchmarks/results.py measured, and they say what they are said to say."""

import importlib.util
import json
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "docs" / "results" / "conll03.json").read_text(encoding="utf-8"))


def scores(results, run: str) -> list[float]:
    return [result["test"]["f1"] for result in results if result["run"] == run]


def test_the_table_in_the_readme_is_the_measured_one(results):
    spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.table(results) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_complete_labels_reach_what_was_promised(results):
    assert len(scores(results, "gold")) >= 3
    assert mean(scores(results, "gold")) >= 0.895


def test_negative_sampling_is_far_above_ordinary_training_when_labels_are_hidden(results):
    assert mean(scores(results, "masked-uniform")) >= mean(scores(results, "masked-full")) + 0.05
    assert len(scores(results, "masked-uniform")) == len(scores(results, "masked-full")) >= 3
