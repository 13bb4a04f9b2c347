"""The recipes of the package can be read in every profile, run on the sample."""

from pathlib import Path

import pytest

from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.recipe import PROFILES, known_recipes, read_recipe

RECIPES = list(known_recipes().values())
WANTED = {
    "distant", "masked", "well-annotated", "top-neg-share", "uncertainty", "missampling", "nrces-ablation", "nrces-w",
    "scl-rai-ablation", "scl-rai-batch-size", "robustness", "two-step", "two-step-cost", "convergence",
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
