import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import SMALL, recipe

from lacuner import Corpus, Recognizer
from lacuner.analysis.o_values import OValueRun
from lacuner.bench.experiments import project, run_experiment, span_vectors
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.significance import unpack
from lacuner.training.loop import Observer

COSTS = {"seconds", "cpu_seconds", "training_seconds", "peak_memory_mb"}


class Epochs(Observer):
    """Counts the epochs that it is told about."""

    def __init__(self) -> None:
        self.count = 0

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.count += 1


def outcome(paths: PathTemplates, observer: Observer | None = None, **changes: Any) -> dict[str, Any]:
    """The result of the only run of a recipe, as it is read again."""
    given = {"methods": ["uniform"], "hidden": [0.3], "settings": SMALL} | changes
    (run,) = plan(recipe(**given), paths)
    result = run_experiment(run, paths, observer or Observer())
    assert result.items() >= run.as_dict().items()
    return json.loads(json.dumps(result))


def test_a_model_is_trained_chosen_and_tested(paths: PathTemplates) -> None:
    observer = Epochs()
    result = outcome(paths, observer)
    assert observer.count == len(result["epochs"]) == result["planned_epochs"] == 8
    assert result["dev"]["f1"] == max(result["epochs"]) == result["epochs"][result["best_epoch"] - 1] > 0.3
    assert result["sentences"] == {"train": 25, "test": 25}
    assert 0 < result["entities"] < 50
    correct, predicted, support = (int(unpack(text).sum()) for text in result["counts"].values())
    assert support == 50
    assert result["test"] == {
        "precision": pytest.approx(correct / predicted, abs=1e-5),
        "recall": pytest.approx(correct / support, abs=1e-5),
        "f1": pytest.approx(2 * correct / (predicted + support), abs=1e-5),
    }
    assert all(result[name] > 0 for name in COSTS)
    assert {"missampling", "vectors"}.isdisjoint(result)


def test_the_same_run_comes_out_the_same(paths: PathTemplates) -> None:
    first, second = (
        {name: value for name, value in outcome(paths, methods=["weighted"]).items() if name not in COSTS}
        for _ in range(2)
    )
    assert first == second


def test_measuring_changes_nothing_but_adds_something(paths: PathTemplates) -> None:
    plain, measured = (outcome(paths, measure=measure) for measure in ([], ["missampling", "vectors"]))
    assert measured["test"] == plain["test"]
    assert measured["counts"] == plain["counts"]
    assert [epoch["epoch"] for epoch in measured["missampling"]] == list(range(1, 9))
    assert [round(epoch["dev_f1"], 5) for epoch in measured["missampling"]] == measured["epochs"]
    assert any(epoch["missampled"] for epoch in measured["missampling"])
    assert {point["label"] for point in measured["vectors"]} == {"O", "PER", "LOC"}


def test_thresholds_are_fitted_on_ever_more_dev_sentences(paths: PathTemplates) -> None:
    plain, measured = (outcome(paths, methods=["crf"], measure=measure) for measure in ([], ["threshold-size"]))
    assert measured["counts"] == plain["counts"]
    none, whole = measured["threshold-size"]  # the toy corpus has fewer than 26 sentences
    assert none == {"sentences": 0, "thresholds": [0.0], "f1": [plain["test"]["f1"]]}
    assert (whole["sentences"], len(whole["f1"])) == (25, 1)
    assert whole["f1"][0] >= none["f1"][0]


def test_the_naive_method_takes_every_hidden_entity_for_a_negative(paths: PathTemplates) -> None:
    result = outcome(paths, methods=["full"], measure=["missampling"])
    hidden = 50 - result["entities"]
    assert {(epoch["missampled"], epoch["ever_drawn"]) for epoch in result["missampling"]} == {(hidden, 1.0)}


def test_nothing_is_missampled_in_trusted_sentences(data: Path, paths: PathTemplates, toy: Corpus) -> None:
    toy[:7].write(data / "toy" / "trusted.conll")
    dataset = {"toy": {"trusted": "trusted.conll"}}
    result = outcome(paths, methods=["full"], measure=["missampling"], dataset=dataset)
    assert {epoch["missampled"] for epoch in result["missampling"]} == {50 - result["entities"]}


def test_the_uncertainty_experiment_is_three_rows(paths: PathTemplates) -> None:
    observer = Epochs()
    result = outcome(paths, observer, experiment="uncertainty")
    assert observer.count == 4 * 8  # the oracle, and three models
    assert list(result["rows"]) == ["top-k", "middle-k", "bottom-k"]
    entropies = [row["uncertainty"] for row in result["rows"].values()]
    assert entropies == sorted(entropies, reverse=True)
    assert all(0 <= row["test"]["f1"] <= 1 for row in result["rows"].values())
    assert result["ratio"] == 0.35
    assert "test" not in result


def test_o_values_are_looked_at_after_every_epoch(paths: PathTemplates) -> None:
    result = outcome(paths, methods=["token head.angle=true"], experiment="o-values")
    found = OValueRun.from_dict(result["o_values"])
    assert (found.decision, found.seed) == ("angle", 1)
    assert [epoch.epoch for epoch in found.epochs] == list(range(1, 9))
    assert 0 < found.hidden < found.words


def test_as_many_other_spans_as_entities_are_shown(model: Recognizer, toy: Corpus) -> None:
    vectors, labels = span_vectors(model, toy, seed=1)
    assert len(vectors) == len(labels) == 100
    assert {label: labels.count(label) for label in labels} == {"PER": 25, "LOC": 25, "O": 50}
    again, _ = span_vectors(model, toy, seed=1)
    other, _ = span_vectors(model, toy, seed=2)
    assert np.array_equal(vectors, again)
    assert not np.array_equal(vectors, other)


def test_points_are_near_each_other_where_vectors_are() -> None:
    generator = np.random.default_rng(1)
    centers = np.repeat(np.eye(2, 10, dtype=np.float32) * 50, 12, axis=0)
    vectors = centers + generator.normal(size=centers.shape).astype(np.float32)
    labels = ["PER"] * 12 + ["LOC"] * 12
    points = project(vectors, labels, seed=1)
    assert points == project(vectors, labels, seed=1)
    assert [point["label"] for point in points] == labels
    points_at = np.array([(point["x"], point["y"]) for point in points])
    distances = np.linalg.norm(points_at[:, None] - points_at[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(1)
    assert all(labels[place] == labels[other] for place, other in enumerate(nearest))


def test_an_audit_is_measured_in_its_own_order_and_in_that_of_cleanlab(paths: PathTemplates) -> None:
    settings = {**SMALL, "training": {**SMALL["training"], "epochs": 30}}
    result = outcome(paths, experiment="audit", hidden=[0.5], settings=settings)
    ours, theirs = result["rows"]["uniform"]["audit"], result["rows"]["uniform, ranked by cleanlab"]["audit"]
    assert ours["missing"] == theirs["missing"] == 50 - result["entities"]
    assert 0 < ours["right"] <= ours["found"]
    assert ours["estimate"]["low"] <= ours["estimate"]["total"] <= ours["estimate"]["high"]
    assert "estimate" not in theirs
    assert ours["listed"]["missing"] == ours["missing"]
    assert 0 < ours["listed"]["right"] <= ours["listed"]["found"] <= ours["found"]


def test_a_review_takes_the_complete_labels_for_the_reviewer(paths: PathTemplates) -> None:
    result = outcome(paths, experiment="review", hidden=[0.5])
    before, after = result["rows"]["uniform"], result["rows"]["uniform, 200 findings reviewed"]
    assert before["test"] == outcome(paths, hidden=[0.5])["test"]
    assert after["test"]["f1"] > before["test"]["f1"]
    assert result["entities"] < 50
