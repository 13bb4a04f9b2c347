import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from handmade import CONTENT, copied, recipe

from lacuner import Corpus, Entity, Sentence
from lacuner.bench.corpora import read_corpora
from lacuner.bench.planning import check_encoders, plan
from lacuner.bench.recipe import Places, build_recipe
from lacuner.errors import ConfigError
from lacuner.training.settings import RunSettings


def settings_of(places: Places, **changes: Any) -> RunSettings:
    """Settings of the only cell of a recipe."""
    (cell,) = plan(recipe(**{"runs": ["uniform"]} | changes), places)
    return cell.settings(places)


def test_every_combination_is_a_cell_and_the_first_seed_comes_first(data: Path, places: Places) -> None:
    copied(data / "toy", data / "more")
    axes: dict[str, list[Any]] = {
        "seeds": [3, 1], "data": ["more", "toy"], "hidden": [0.5, 0.25], "encoders": ["small", "recurrent"],
        "runs": ["full", "uniform", "uniform negatives.ratio=1"],
    }  # fmt: skip
    cells = plan(
        recipe(**axes, encoder={"small": {"model": "recurrent", "settings": {"encoder": {"hidden": 8}}}}), places
    )
    assert [(cell.seed, cell.data, cell.hidden, cell.encoder, cell.run) for cell in cells] == list(
        product(*axes.values())
    )
    assert len({cell.key for cell in cells}) == len(cells) // 2  # the two datasets are the same
    assert not any(cell.complete for cell in cells)
    assert str(cells[0]) == "more 0.5, full, small, seed 3"


def test_rules_change_and_skip_the_cells_they_fit(places: Places) -> None:
    rules = [
        {"runs": ["uniform"], "settings": {"training": {"epochs": 7}}},
        {"hidden": [0.4], "settings": {"training": {"clip": 2.0}}},
        {"runs": ["full"], "hidden": [0.4], "skip": True},
    ]
    found = {
        (cell.run, cell.hidden): cell.settings(places).training
        for cell in plan(recipe(hidden=[0.2, 0.4], when=rules), places)
    }
    assert found.keys() == {("full", 0.2), ("uniform", 0.2), ("uniform", 0.4)}
    assert {place: (training.epochs, training.max_grad_norm) for place, training in found.items()} == {
        ("full", 0.2): (None, 5.0),
        ("uniform", 0.2): (7, 5.0),
        ("uniform", 0.4): (7, 2.0),
    }


def test_a_rule_about_hidden_labels_is_not_about_all_labels(places: Places) -> None:
    rules = [{"hidden": [0.0], "skip": True}, {"hidden": [0.4], "settings": {"training": {"clip": 2.0}}}]
    cells = plan(recipe(hidden=[0.0, 0.4], when=rules, naive="full"), places)
    assert [(cell.run, cell.hidden, cell.complete) for cell in cells] == [
        ("full", 0.4, False),
        ("uniform", 0.4, False),
        ("full", 0.0, True),
    ]
    assert cells[2].settings(places).training.clip != 2.0


def test_what_others_are_compared_with_must_be_run(places: Places) -> None:
    content = CONTENT | {"profile": {"standard": {"runs": ["uniform"]}}, "baseline": "full"}
    with pytest.raises(ConfigError, match="baseline: full is not among the runs of this profile; there are: uniform"):
        plan(build_recipe(content, "standard"), places)


def test_rules_know_seeds(places: Places) -> None:
    rules = [{"runs": ["uniform"], "seeds": [1, 3], "skip": True}]
    cells = plan(recipe(seeds=[1, 2, 3], when=rules), places)
    assert [(cell.seed, cell.run) for cell in cells] == [(1, "full"), (2, "full"), (2, "uniform"), (3, "full")]


def test_a_cell_that_only_a_later_seed_has_is_checked_too(places: Places) -> None:
    dataset = {"other": {"folder": "toy", "gold": "none.conll"}}
    rules = [{"data": ["other"], "seeds": [1], "skip": True}]
    with pytest.raises(
        ConfigError, match=r"^other 0\.4, full, .*seed 2: labels can be hidden only where all are known"
    ):
        plan(recipe(data=["toy", "other"], dataset=dataset, hidden=[0.4], seeds=[1, 2], when=rules), places)


def test_rules_know_datasets_and_encoders(data: Path, places: Places) -> None:
    copied(data / "toy", data / "more")
    rules = [{"data": ["more"], "encoders": ["small"], "skip": True}]
    encoder = {"small": {"model": "recurrent"}}
    axes = {"data": ["toy", "more"], "encoders": ["recurrent", "small"], "runs": ["full"]}
    cells = plan(recipe(**axes, encoder=encoder, when=rules), places)
    assert [(cell.data, cell.encoder) for cell in cells] == [
        ("toy", "recurrent"),
        ("toy", "small"),
        ("more", "recurrent"),
    ]


def test_the_nearer_setting_outranks_the_farther_one(places: Places) -> None:
    layers: list[dict[str, Any]] = [
        {"settings": {"training": {"clip": 1.0}}},
        {"encoder": {"recurrent": {"model": "recurrent", "settings": {"training.max_grad_norm": 2.0}}}},
        {"when": [{"settings": {"training": {"clip": 3.0}}}, {"settings": {"training": {"clip": 4.0}}}]},
        {"runs": ["mine"], "run": {"mine": {"method": "uniform", "settings": {"training": {"clip": 5.5}}}}},
    ]
    given: dict[str, Any] = {}
    clips = []
    for layer in layers:
        given |= layer
        clips.append(settings_of(places, **given).training.clip)
    assert clips == [1.0, 2.0, 4.0, 5.5]
    assert settings_of(places, **given | {"run": {}, "runs": ["uniform training.max_grad_norm=6"]}).training.clip == 6.0


@pytest.mark.parametrize("changes", [{"settings": {"training": {"seed": 8}}}, {"runs": ["uniform training.seed=9"]}])
def test_seeds_are_said_in_one_place(places: Places, changes: dict[str, Any]) -> None:
    assert settings_of(places, seeds=[4]).training.seed == 4
    with pytest.raises(ConfigError, match=r"training\.seed comes from the seeds of the recipe; leave it out"):
        plan(recipe(**changes), places)


def test_a_part_that_is_named_anew_forgets_old_parameters(places: Places) -> None:
    below = {"negatives": {"name": "uniform", "ratio": 0.7}}
    assert settings_of(places, settings=below).method.negatives.ratio == 0.7
    changed = settings_of(places, settings=below, runs=["uniform negatives=fraction"]).method.negatives
    assert changed == settings_of(places, runs=["uniform negatives=fraction"]).method.negatives
    kept = settings_of(places, settings=below, runs=["uniform negatives=uniform"]).method.negatives
    assert kept.ratio == 0.7


@pytest.mark.parametrize(
    "run", ["full negatives.ratio=0.7 negatives=uniform", "full negatives=uniform negatives.ratio=0.7"]
)
def test_the_order_of_settings_does_not_matter(places: Places, run: str) -> None:
    negatives = settings_of(places, runs=[run]).method.negatives
    assert (negatives.name, negatives.ratio) == ("uniform", 0.7)
    table = {"mine": {"method": "full", "settings": {"negatives": {"ratio": 0.7, "name": "uniform"}}}}
    assert settings_of(places, runs=["mine"], run=table).method.negatives == negatives


def test_the_datasets_own_limits_outrank_those_of_the_recipe(places: Places) -> None:
    dataset = {"toy": {"trusted": "dev.conll", "sentences": {"train": 4}}}
    (cell,) = plan(recipe(runs=["full"], dataset=dataset, sentences={"train": 9, "dev": 6, "trusted": 3}), places)
    corpora = read_corpora(cell, places)
    assert (len(corpora.train), len(corpora.dev), len(corpora.test)) == (4, 6, 25)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 3


def test_only_the_naive_run_is_trained_on_all_labels_too(data: Path, places: Places, toy: Corpus) -> None:
    copied(data / "toy", data / "no gold")
    (data / "no gold" / "train.gold.conll").unlink()
    cells = plan(recipe(data=["toy", "no gold"], seeds=[1, 2], naive="full"), places)
    complete = [cell for cell in cells if cell.complete]
    assert [(cell.data, cell.run, cell.hidden, cell.seed) for cell in complete] == [
        ("toy", "full", 0.0, 1),
        ("toy", "full", 0.0, 2),
    ]
    assert len(cells) == 2 * (2 * 2 + 1)
    corpora = read_corpora(complete[0], places)
    assert [sentence.entities for sentence in corpora.train] == [sentence.entities for sentence in toy]
    assert all(sentence.complete for sentence in corpora.train)
    assert not any(corpora.hidden or ())
    assert str(complete[0]) == "toy, all labels, full, recurrent, seed 1"


def test_all_labels_are_trained_on_once_however_many_shares_are_hidden(places: Places) -> None:
    cells = plan(recipe(hidden=[0.2, 0.4, 0.6], naive="uniform"), places)
    assert [(cell.run, cell.hidden) for cell in cells if cell.complete] == [("uniform", 0.0)]


@pytest.fixture
def broken(data: Path, toy: Corpus) -> Places:
    """Several datasets, each with something wrong."""
    copied(data / "toy", data / "no-dev")
    (data / "no-dev" / "dev.conll").unlink()
    copied(data / "toy", data / "no-gold")
    (data / "no-gold" / "train.gold.conll").unlink()
    copied(data / "toy", data / "no-train")
    (data / "no-train" / "train.conll").unlink()
    copied(data / "toy", data / "no-files")
    for name in ("train.conll", "train.gold.conll"):
        (data / "no-files" / name).unlink()
    copied(data / "toy", data / "clash")
    river = Sentence(("The", "Po"), (Entity(1, 2, "RIVER"),))
    Corpus((*toy, river)).write(data / "clash" / "test.conll")
    copied(data / "toy", data / "nothing")
    Corpus(tuple(Sentence(sentence.tokens) for sentence in toy)).write(data / "nothing" / "train.conll")
    copied(data / "toy", data / "untested")
    (data / "untested" / "test.conll").write_text("")
    copied(data / "toy", data / "other-gold")
    toy[:20].write(data / "other-gold" / "train.gold.conll")
    copied(data / "toy", data / "undeveloped")
    Corpus(tuple(Sentence(sentence.tokens) for sentence in toy)).write(data / "undeveloped" / "dev.conll")
    copied(data / "toy", data / "leaky")
    shutil.copy(data / "leaky" / "test.conll", data / "leaky" / "dev.conll")
    return Places(data)


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"data": ["nowhere"]}, r"dataset nowhere: there is no folder \S+/nowhere — LACUNER_DATA says"),
    ({"data": ["toy", "no-dev"]}, r"dataset no-dev: there is no file dev\.conll in \S+/no-dev — check the recipe"),
    ({"data": ["no-files"]}, r"dataset no-files: there is no file train\.conll in \S+/no-files"),
    ({"dataset": {"toy": {"trusted": "t.conll"}}}, r"dataset toy: there is no file t\.conll in \S+/toy"),
    ({"data": ["no-train"]}, r"^no-train, full, recurrent, seed 1: there is no file \S+/no-train/train\.conll"),
    ({"runs": ["full", "magic"]}, r"run 'magic' with encoder 'recurrent': there is no method 'magic'"),
    ({"runs": ["full x"]}, r"run 'full x' with encoder 'recurrent': .*write KEY=VALUE"),
    ({"runs": ["uniform negatives.rate=1"]}, r"run 'uniform negatives\.rate=1' .*: there is no setting negatives\.rate"),
    ({"settings": {"trainin": {"epochs": 1}}}, r"run 'full' .*: there is no setting trainin;"),
    ({"when": [{"runs": ["uniform"], "settings": {"loss": "none"}}]}, r"run 'uniform' .*: loss=none"),
    ({"encoders": ["recurrent", "flat"]}, r"run 'full' with encoder 'flat': .*encoder\."),
    ({"settings": {"encoder": {"vectors": "{data}/v.txt"}}}, r"run 'full' with encoder 'recurrent': \S+/v\.txt: No such"),
    ({"settings": {"encoder": {"vectors": "{package:no_such}/v"}}}, r"run 'full' .*the package no_such is not installed"),
    ({"data": ["toy", "clash"]}, r"^clash, full, .*: the test data has labels that the training data lacks: RIVER \(it has "
     r"LOC, PER\) — rename them, or set dataset\.clash\.unseen_labels = true"),
    ({"runs": ["full", "partial-crf"]}, r"^toy, partial-crf, recurrent, seed 1: partial-crf cannot learn what is no entity"),
    ({"data": ["nothing"]}, r"^nothing, full, .*: no entity is annotated in the training data"),
    ({"data": ["no-gold"], "hidden": [0.5]}, r"^no-gold 0\.5, full, .*: labels can be hidden only where all are known"),
    ({"data": ["no-gold"], "measure": ["missampling"]}, r"^no-gold, full, .*: what is hidden is not known"),
    ({"runs": ["full", "crf"], "measure": ["vectors"]}, r"run 'crf' .*: crf tags words; vectors is about spans"),
    ({"runs": ["crf"], "experiment": "uncertainty"}, r"run 'crf' .*: crf tags words; uncertainty is about spans"),
    ({"experiment": "o-values"}, r"run 'full' .*: full scores spans, and words have no O-value"),
    ({"when": [{"skip": True}]}, r"no cell is left: the rules of the recipe skip all of them"),
    ({"baseline": "uniform", "when": [{"runs": ["uniform"], "skip": True}]}, r"baseline: the rules .* all cells of uniform"),
    ({"data": ["clash"], "hidden": [0.3]}, r"^clash 0\.3, full, .*: the test data has labels that the training data lacks"),
    ({"data": ["untested"]}, r"^untested, full, .*: the test data \(test\.conll\) has no entities — check the file"),
    ({"data": ["undeveloped"]}, r"^undeveloped, full, .*: the dev data \(dev\.conll\) has no entities — check the file"),
    ({"data": ["leaky"]}, r"chosen on the test data: dev\.conll has the same content as test\.conll — give other dev data"),
    ({"data": ["sample"], "dataset": {"sample": {"test": "train.conll"}}}, r"tested on what it learns from: train\.conll"),
    ({"hidden": [0.9], "sentences": {"train": 4}, "seeds": [1, 2, 3, 4, 5, 6]}, r"^toy 0\.9, full, recurrent, seed \d: "),
    ({"hidden": [0.99], "seeds": [1, 2, 3, 4, 5, 6, 7, 8]}, r"seed \d: (all \d+ entities are hidden|no entity is annotated)"),
    ({"dataset": {"toy": {"test": "train.conll"}}}, r"tested on what it learns from: train\.conll is train\.conll — "),
    ({"data": ["other-gold"], "naive": "full"}, r"all labels, .*: train\.gold\.conll has other sentences than train\.conll — "),
    ({"encoders": ["x"], "encoder": {"x": {"model": "{dta}/x"}}}, r"\{dta\} in '\{dta\}/x' stands for nothing; write \{data\}"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_what_cannot_be_run_is_refused_before_anything_is(
    broken: Places, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        plan(recipe(**changes), broken)
    assert "\n" not in str(refused.value)


def test_test_data_may_have_other_labels_where_the_recipe_says_so(broken: Places) -> None:
    allowed = {"clash": {"unseen_labels": True}}
    assert len(plan(recipe(data=["clash"], dataset=allowed), broken)) == 2


def test_a_label_may_be_hidden_altogether(data: Path, places: Places) -> None:
    (cell,) = plan(recipe(runs=["full"], hidden=[0.8], seeds=[2], sentences={"train": 4}), places)
    corpora = read_corpora(cell, places)
    assert set(corpora.train.labels) < set(corpora.test.labels)


def test_a_tagger_learns_from_sentences_that_are_complete(places: Places) -> None:
    trusted = {"toy": {"trusted": "dev.conll"}}
    assert len(plan(recipe(runs=["partial-crf"], dataset=trusted), places)) == 1


def test_an_encoder_that_cannot_be_loaded_is_refused(places: Places, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    cells = plan(recipe(runs=["full"], encoders=["recurrent", str(tmp_path / "bert")]), places)
    with pytest.raises(ConfigError, match=r"^encoder '\S+/bert': the encoder '\S+/bert' cannot be loaded"):
        check_encoders(cells, places)
    check_encoders(cells[:1], places)
