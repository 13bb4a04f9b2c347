"""The figures of the README are those that benchmarks/results.py measured, and they say what they are said to say."""

import importlib.util
import json
import sys
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ("uniform", "weighted", "top-neg", "nrces", "scl-rai")


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


@pytest.mark.parametrize(("page", "script"), [("README.md", "tables"), ("docs/results/methods.md", "methods")])
def test_the_tables_of_methods_are_the_measured_ones(page, script):
    text = (ROOT / page).read_text(encoding="utf-8")
    module = benchmark(script)
    assert module.COMMENT.search(text)
    assert module.renewed(text) == text


def test_the_table_of_chosen_epochs_is_the_measured_one():
    module = benchmark("incomplete_dev")
    lines = (ROOT / "docs" / "results" / "incomplete_dev.jsonl").read_text(encoding="utf-8").splitlines()
    assert module.table([json.loads(line) for line in lines]) in (ROOT / "docs" / "results" / "methods.md").read_text(
        encoding="utf-8"
    )


def test_our_method_is_above_each_of_the_papers_on_average():
    lines = (ROOT / "docs" / "results" / "methods.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    data = benchmark("methods").GAPS

    def average(method: str) -> float | None:
        found = [[r["test"]["f1"] for r in runs if (r["run"], r["data"]) == (method, name)] for name in data]
        return mean(map(mean, found)) if all(found) else None

    papers = {method: average(method) for method in PAPERS}
    measured = [value for value in papers.values() if value is not None]
    assert papers["uniform"] in measured
    assert average("lacuner") >= max(measured) + 0.02
