"""The figures of the README are those that were measured, and they say what they are said to say."""

import importlib.util
import json
import sys
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ("uniform", "weighted", "top-neg", "nrces", "scl-rai", "two-step")


def benchmark(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "docs" / "results" / "conll03.json").read_text(encoding="utf-8"))


def scores(results, run: str) -> list[float]:
    return [result["test"]["f1"] for result in results if result["run"] == run]


def test_the_table_in_the_readme_is_the_measured_one(results):
    assert benchmark("results").table(results) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_complete_labels_reach_what_was_promised(results):
    assert len(scores(results, "gold")) >= 3
    assert mean(scores(results, "gold")) >= 0.895


def test_negative_sampling_is_far_above_ordinary_training_when_labels_are_hidden(results):
    assert mean(scores(results, "masked-uniform")) >= mean(scores(results, "masked-full")) + 0.05
    assert len(scores(results, "masked-uniform")) == len(scores(results, "masked-full")) >= 3


def test_the_table_of_methods_is_the_measured_one():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    module = benchmark("tables")
    assert module.COMMENT.search(text)
    assert module.renewed(text) == text


def test_our_method_is_above_each_of_the_papers_on_average():
    module = benchmark("tables")
    found: dict[str, dict[str, list[float]]] = {}
    for run, column, f1 in (*module.measured("masked"), *module.measured("distant")):
        found.setdefault(run, {}).setdefault(column, []).append(f1)
    columns = found["lacuner"].keys()
    assert all(found[run].keys() == columns for run in PAPERS)
    averages = {run: mean(map(mean, found[run].values())) for run in (*PAPERS, "lacuner")}
    assert averages.pop("lacuner") >= max(averages.values()) + 2
