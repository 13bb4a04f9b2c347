"""The recipes of the package can be read in every profile, run on the sample."""

from pathlib import Path

import pytest

from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
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
