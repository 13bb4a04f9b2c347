"""The recipes of the package can be read in every profile, run on the sample."""

from pathlib import Path

import pytest

from lacuner.bench.corpora import read_corpora
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import build_runs, plan
from lacuner.bench.recipe import PROFILES, known_recipes, read_recipe

RECIPES = list(known_recipes().values())
WANTED = {
    "distant", "masked", "well-annotated", "top-neg-share", "uncertainty", "missampling", "nrces-ablation", "nrces-w",
    "scl-rai-ablation", "scl-rai-batch-size", "robustness", "two-step", "two-step-cost", "convergence", "threshold",
    "threshold-size",
}  # fmt: skip


def test_there_is_one_for_every_table_and_figure_of_the_papers() -> None:
    assert {path.stem for path in RECIPES} >= WANTED
    assert known_recipes().keys() >= WANTED


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
@pytest.mark.parametrize("profile", PROFILES)
def test_it_can_be_read(path: Path, profile: str) -> None:
    recipe = read_recipe(path, profile)
    assert recipe.title
    assert recipe.about
    assert len(recipe.seeds) >= (2 if profile == "quick" else 1)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_quick_profile_needs_no_data_but_the_sample(path: Path, tmp_path: Path) -> None:
    runs = plan(read_recipe(path, "quick"), PathTemplates(tmp_path / "nowhere"))
    assert {run.data for run in runs} == {"sample"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_two_rows_of_the_quick_profile_are_the_same_model(path: Path, tmp_path: Path) -> None:
    """A row whose rules do not fit the profile would be another row once more, under a name that says something else."""
    runs = plan(read_recipe(path, "quick"), PathTemplates(tmp_path / "nowhere"))
    same = {run.method for run in runs if [run.key for run in runs].count(run.key) > 1}
    assert not same


@pytest.mark.data
@pytest.mark.parametrize("profile", ["standard", "transformer"])
def test_half_the_learning_rate_is_half_and_twice_the_epochs_are_twice(data_folder: Path, profile: str) -> None:
    """Whatever the encoder has, and however often it reads a corpus of this size."""
    paths = PathTemplates(data_folder)
    runs = build_runs(read_recipe(known_recipes()["training"], profile), paths)
    found = {
        (run.data, run.method): run.settings(paths).for_data(read_corpora(run, paths).train).training
        for run in runs
        if run.seed == 1 and run.method.startswith(("full", "half", "twice"))
    }
    for data in {run.data for run in runs}:
        usual, half, double = (
            found[data, name] for name in ("full", "half the learning rate", "twice the learning rate")
        )
        for name in ("encoder_learning_rate", "head_learning_rate"):
            assert 2 * getattr(half, name) == pytest.approx(getattr(usual, name))
            assert getattr(double, name) == pytest.approx(2 * getattr(usual, name))
        longer = found[data, "twice the epochs"]
        assert longer.epochs == 2 * usual.epochs
        assert longer.patience >= usual.patience
        assert found[data, "twice the batch"].batch_tokens == 2 * usual.batch_tokens


@pytest.mark.data
def test_training_is_tried_on_human_labels_where_a_transformer_is_fine_tuned(data_folder: Path) -> None:
    paths = PathTemplates(data_folder)
    runs = build_runs(read_recipe(known_recipes()["training"], "transformer"), paths)
    sizes = {run.data: len(read_corpora(run, paths).train) for run in runs if run.seed == 1 and run.method == "full"}
    assert sizes.keys() == {"ec-human", "wikigold-human", "conll03-human"}
    assert sizes["conll03-human"] == 3000


def test_the_contrast_of_scl_rai_is_tried_as_it_is_printed_too() -> None:
    assert "scl-rai contrast.denominator=others" in read_recipe(known_recipes()["scl-rai-ablation"]).methods


@pytest.fixture(scope="module")
def keys(data_folder: Path) -> dict[str, set[str]]:
    """The keys of all standard runs of some recipes."""
    paths = PathTemplates(data_folder)
    names = ("distant", "masked", "threshold", "threshold-size")
    return {name: {run.key for run in plan(read_recipe(known_recipes()[name]), paths)} for name in names}


@pytest.mark.data
def test_thresholds_cost_nothing_where_masked_and_distant_are_known(keys: dict[str, set[str]]) -> None:
    for name in ("threshold", "threshold-size"):
        assert keys[name] <= keys["masked"] | keys["distant"]


@pytest.mark.data
@pytest.mark.parametrize("profile", ["standard", "transformer"])
def test_corpora_are_whole_and_bc5cdr_is_not_filtered_with_human_labels(data_folder: Path, profile: str) -> None:
    runs = plan(read_recipe(known_recipes()["distant"], profile), PathTemplates(data_folder))
    assert all(limit is None for run in runs for limit in run.config["dataset"]["sentences"].values())
    assert {tuple(run.config["dataset"]["train"]) for run in runs if run.data == "bc5cdr"} == {("train.confmpu.conll",)}
    assert {run.method for run in runs if not run.is_trained} == {"kb", "kb ignore-case"}
    assert {run.data for run in runs if not run.is_trained}.isdisjoint({"wnut16", "wikigold"})
    models = {
        run.data: run.config["settings"]["encoder"].get("model", run.config["settings"]["encoder"].get("vectors"))
        for run in runs
        if run.is_trained
    }
    chinese = {"standard": "char_vectors_100d.txt", "transformer": "bge-small-zh"}[profile]
    assert {data for data, model in models.items() if model.endswith(chinese)} == {"ec", "news"}
