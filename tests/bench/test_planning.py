import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from handmade import CONTENT, copied, recipe

from lacuner import Corpus, Entity, Sentence
from lacuner.bench.corpora import read_corpora
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import check_encoders, plan
from lacuner.bench.recipe import build_recipe
from lacuner.errors import ConfigError
from lacuner.training.settings import RunSettings


def settings_of(paths: PathTemplates, **changes: Any) -> RunSettings:
    """Settings of the only run of a recipe."""
    (run,) = plan(recipe(**{"methods": ["uniform"]} | changes), paths)
    return run.settings(paths)


def test_every_combination_is_a_run_and_the_first_seed_comes_first(data: Path, paths: PathTemplates) -> None:
    copied(data / "toy", data / "more")
    axes: dict[str, list[Any]] = {
        "seeds": [3, 1], "data": ["more", "toy"], "hidden": [0.5, 0.25], "encoders": ["small", "recurrent"],
        "methods": ["full", "uniform", "uniform negatives.ratio=1"],
    }  # fmt: skip
    runs = plan(
        recipe(**axes, encoder={"small": {"model": "recurrent", "settings": {"encoder": {"hidden": 8}}}}), paths
    )
    assert [(run.seed, run.data, run.hidden, run.encoder, run.method) for run in runs] == list(product(*axes.values()))
    assert len({run.key for run in runs}) == len(runs) // 2  # the two datasets are the same
    assert not any(run.complete for run in runs)
    assert str(runs[0]) == "more 0.5, full, small, seed 3"


def test_rules_change_and_skip_the_runs_they_fit(paths: PathTemplates) -> None:
    rules = [
        {"methods": ["uniform"], "settings": {"training": {"epochs": 7}}},
        {"hidden": [0.4], "settings": {"training": {"max_grad_norm": 2.0}}},
        {"methods": ["full"], "hidden": [0.4], "skip": True},
    ]
    found = {
        (run.method, run.hidden): run.settings(paths).training
        for run in plan(recipe(hidden=[0.2, 0.4], when=rules), paths)
    }
    assert found.keys() == {("full", 0.2), ("uniform", 0.2), ("uniform", 0.4)}
    assert {place: (training.epochs, training.max_grad_norm) for place, training in found.items()} == {
        ("full", 0.2): (None, 5.0),
        ("uniform", 0.2): (7, 5.0),
        ("uniform", 0.4): (7, 2.0),
    }


def test_a_rule_about_hidden_labels_is_not_about_all_labels(paths: PathTemplates) -> None:
    rules = [{"hidden": [0.0], "skip": True}, {"hidden": [0.4], "settings": {"training": {"max_grad_norm": 2.0}}}]
    runs = plan(recipe(hidden=[0.0, 0.4], when=rules, naive="full"), paths)
    assert [(run.method, run.hidden, run.complete) for run in runs] == [
        ("full", 0.4, False),
        ("uniform", 0.4, False),
        ("full", 0.0, True),
    ]
    assert runs[2].settings(paths).training.max_grad_norm != 2.0


def test_what_others_are_compared_with_must_be_run(paths: PathTemplates) -> None:
    content = CONTENT | {"profile": {"standard": {"methods": ["uniform"]}}, "baseline": "full"}
    with pytest.raises(
        ConfigError, match="baseline: full is not among the methods of this profile; there are: uniform"
    ):
        plan(build_recipe(content, "standard"), paths)


def test_rules_know_seeds(paths: PathTemplates) -> None:
    rules = [{"methods": ["uniform"], "seeds": [1, 3], "skip": True}]
    runs = plan(recipe(seeds=[1, 2, 3], when=rules), paths)
    assert [(run.seed, run.method) for run in runs] == [(1, "full"), (2, "full"), (2, "uniform"), (3, "full")]


def test_a_run_that_only_a_later_seed_has_is_checked_too(paths: PathTemplates) -> None:
    dataset = {"other": {"folder": "toy", "gold": "none.conll"}}
    rules = [{"data": ["other"], "seeds": [1], "skip": True}]
    with pytest.raises(
        ConfigError, match=r"^other 0\.4, full, .*seed 2: labels can be hidden only where all are known"
    ):
        plan(recipe(data=["toy", "other"], dataset=dataset, hidden=[0.4], seeds=[1, 2], when=rules), paths)


def test_rules_know_datasets_and_encoders(data: Path, paths: PathTemplates) -> None:
    copied(data / "toy", data / "more")
    rules = [{"data": ["more"], "encoders": ["small"], "skip": True}]
    encoder = {"small": {"model": "recurrent"}}
    axes = {"data": ["toy", "more"], "encoders": ["recurrent", "small"], "methods": ["full"]}
    runs = plan(recipe(**axes, encoder=encoder, when=rules), paths)
    assert [(run.data, run.encoder) for run in runs] == [
        ("toy", "recurrent"),
        ("toy", "small"),
        ("more", "recurrent"),
    ]


def test_the_nearer_setting_outranks_the_farther_one(paths: PathTemplates) -> None:
    layers: list[dict[str, Any]] = [
        {"settings": {"training": {"max_grad_norm": 1.0}}},
        {"encoder": {"recurrent": {"model": "recurrent", "settings": {"training.max_grad_norm": 2.0}}}},
        {
            "when": [
                {"settings": {"training": {"max_grad_norm": 3.0}}},
                {"settings": {"training": {"max_grad_norm": 4.0}}},
            ]
        },
        {
            "methods": ["mine"],
            "method": {"mine": {"method": "uniform", "settings": {"training": {"max_grad_norm": 5.5}}}},
        },
    ]
    given: dict[str, Any] = {}
    clips = []
    for layer in layers:
        given |= layer
        clips.append(settings_of(paths, **given).training.max_grad_norm)
    assert clips == [1.0, 2.0, 4.0, 5.5]
    assert (
        settings_of(
            paths, **given | {"method": {}, "methods": ["uniform training.max_grad_norm=6"]}
        ).training.max_grad_norm
        == 6.0
    )


def test_the_language_of_a_dataset_sets_its_encoder(data: Path, paths: PathTemplates) -> None:
    copied(data / "toy", data / "more")
    encoder = {"small": {"model": "recurrent", "settings": {"encoder": {"hidden": 8}}}}
    given: dict[str, Any] = {
        "data": ["toy", "more"], "methods": ["full"], "encoders": ["recurrent", "small"], "encoder": encoder,
        "dataset": {"toy": {"language": "la"}}, "language": {"la": {"small": {"encoder": {"hidden": 6}}}},
    }  # fmt: skip
    runs = plan(recipe(**given), paths)
    sizes = {(run.data, run.encoder): run.settings(paths).encoder.hidden for run in runs}
    usual = sizes["toy", "recurrent"]
    assert sizes == {
        ("toy", "recurrent"): usual, ("toy", "small"): 6, ("more", "recurrent"): usual, ("more", "small"): 8,
    }  # fmt: skip
    rules = [{"encoders": ["small"], "settings": {"encoder": {"hidden": 4}}}]
    assert {run.settings(paths).encoder.hidden for run in plan(recipe(**given, when=rules), paths)} == {usual, 4}
    keys = {run.data: run.key for run in runs if run.encoder == "recurrent"}
    assert keys["toy"] == keys["more"]  # it is no setting of its own


@pytest.mark.parametrize("changes", [{"settings": {"training": {"seed": 8}}}, {"methods": ["uniform training.seed=9"]}])
def test_seeds_are_said_in_one_place(paths: PathTemplates, changes: dict[str, Any]) -> None:
    assert settings_of(paths, seeds=[4]).training.seed == 4
    with pytest.raises(ConfigError, match=r"training\.seed comes from the seeds of the recipe; leave it out"):
        plan(recipe(**changes), paths)


def test_a_part_that_is_named_anew_forgets_old_parameters(paths: PathTemplates) -> None:
    below = {"negatives": {"name": "uniform", "ratio": 0.7}}
    assert settings_of(paths, settings=below).method.negatives.ratio == 0.7
    changed = settings_of(paths, settings=below, methods=["uniform negatives=fraction"]).method.negatives
    assert changed == settings_of(paths, methods=["uniform negatives=fraction"]).method.negatives
    kept = settings_of(paths, settings=below, methods=["uniform negatives=uniform"]).method.negatives
    assert kept.ratio == 0.7


@pytest.mark.parametrize(
    "run", ["full negatives.ratio=0.7 negatives=uniform", "full negatives=uniform negatives.ratio=0.7"]
)
def test_the_order_of_settings_does_not_matter(paths: PathTemplates, run: str) -> None:
    negatives = settings_of(paths, methods=[run]).method.negatives
    assert (negatives.name, negatives.ratio) == ("uniform", 0.7)
    table = {"mine": {"method": "full", "settings": {"negatives": {"ratio": 0.7, "name": "uniform"}}}}
    assert settings_of(paths, methods=["mine"], method=table).method.negatives == negatives


def test_the_datasets_own_limits_outrank_those_of_the_recipe(paths: PathTemplates) -> None:
    dataset = {"toy": {"trusted": "dev.conll", "sentences": {"train": 4}}}
    (run,) = plan(recipe(methods=["full"], dataset=dataset, sentences={"train": 9, "dev": 6, "trusted": 3}), paths)
    corpora = read_corpora(run, paths)
    assert (len(corpora.train), len(corpora.dev), len(corpora.test)) == (4, 6, 25)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 3


def test_only_the_naive_run_is_trained_on_all_labels_too(data: Path, paths: PathTemplates, toy: Corpus) -> None:
    copied(data / "toy", data / "no gold")
    (data / "no gold" / "train.gold.conll").unlink()
    runs = plan(recipe(data=["toy", "no gold"], seeds=[1, 2], naive="full"), paths)
    complete = [run for run in runs if run.complete]
    assert [(run.data, run.method, run.hidden, run.seed) for run in complete] == [
        ("toy", "full", 0.0, 1),
        ("toy", "full", 0.0, 2),
    ]
    assert len(runs) == 2 * (2 * 2 + 1)
    corpora = read_corpora(complete[0], paths)
    assert [sentence.entities for sentence in corpora.train] == [sentence.entities for sentence in toy]
    assert all(sentence.complete for sentence in corpora.train)
    assert not any(corpora.hidden or ())
    assert str(complete[0]) == "toy, all labels, full, recurrent, seed 1"


def test_all_labels_are_trained_on_once_however_many_shares_are_hidden(paths: PathTemplates) -> None:
    runs = plan(recipe(hidden=[0.2, 0.4, 0.6], naive="uniform"), paths)
    assert [(run.method, run.hidden) for run in runs if run.complete] == [("uniform", 0.0)]


@pytest.fixture
def broken(data: Path, toy: Corpus) -> PathTemplates:
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
    return PathTemplates(data)


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"data": ["nowhere"]},
     r"dataset nowhere: there is no folder \S+/nowhere — set LACUNER_DATA to the folder .*; docs/corpora.md"),
    ({"data": ["toy", "no-dev"]}, r"dataset no-dev: there is no file dev\.conll in \S+/no-dev — check the recipe"),
    ({"data": ["no-files"]}, r"dataset no-files: there is no file train\.conll in \S+/no-files"),
    ({"dataset": {"toy": {"trusted": "t.conll"}}}, r"dataset toy: there is no file t\.conll in \S+/toy"),
    ({"data": ["no-train"]}, r"^no-train, full, recurrent, seed 1: there is no file \S+/no-train/train\.conll"),
    ({"methods": ["full", "magic"]}, r"method 'magic' with encoder 'recurrent': there is no method 'magic'"),
    ({"methods": ["full x"]}, r"method 'full x' with encoder 'recurrent': .*write KEY=VALUE"),
    ({"methods": ["uniform negatives.rate=1"]}, r"method 'uniform negatives\.rate=1' .*: there is no setting negatives\.rate"),
    ({"settings": {"trainin": {"epochs": 1}}}, r"method 'full' .*: there is no setting trainin \(did you mean training\?\);"),
    ({"when": [{"methods": ["uniform"], "settings": {"loss": "none"}}]}, r"method 'uniform' .*: loss=none"),
    ({"encoders": ["recurrent", "flat"]}, r"method 'full' with encoder 'flat': .*encoder\."),
    ({"settings": {"encoder": {"vectors": "{data}/v.txt"}}}, r"method 'full' with encoder 'recurrent': \S+/v\.txt: No such"),
    ({"settings": {"encoder": {"vectors": "{package:no_such}/v"}}}, r"method 'full' .*the package no_such is not installed"),
    ({"data": ["toy", "clash"]}, r"^clash, full, .*: the test data has labels that the training data lacks: RIVER \(it has "
     r"LOC, PER\) — rename them, or set dataset\.clash\.unseen_labels = true"),
    ({"methods": ["full", "partial-crf"]},
     r"^toy, partial-crf, recurrent, seed 1: partial-crf cannot learn what is not an entity"),
    ({"data": ["nothing"]}, r"^nothing, full, .*: no entity is annotated in the training data"),
    ({"data": ["no-gold"], "hidden": [0.5]}, r"^no-gold 0\.5, full, .*: labels can be hidden only where all are known"),
    ({"data": ["no-gold"], "measure": ["missampling"]}, r"^no-gold, full, .*: the hidden entities are not known"),
    ({"methods": ["full", "crf"], "measure": ["vectors"]}, r"method 'crf' .*: crf tags words; vectors is about spans"),
    ({"methods": ["crf"], "experiment": "uncertainty"}, r"method 'crf' .*: crf tags words; uncertainty is about spans"),
    ({"experiment": "o-values"}, r"method 'full' .*: full scores spans, and words have no O-value"),
    ({"when": [{"skip": True}]}, r"no run is left: the rules of the recipe skip all of them"),
    ({"baseline": "uniform", "when": [{"methods": ["uniform"], "skip": True}]}, r"baseline: the rules .* all runs of uniform"),
    ({"data": ["clash"], "hidden": [0.3]}, r"^clash 0\.3, full, .*: the test data has labels that the training data lacks"),
    ({"data": ["untested"]}, r"^untested, full, .*: the test data \(test\.conll\) has no entities — check the file"),
    ({"data": ["undeveloped"]}, r"^undeveloped, full, .*: the dev data \(dev\.conll\) has no entities — check the file"),
    ({"data": ["leaky"]}, r"chosen on the test data: dev\.conll has the same content as test\.conll — give other dev data"),
    ({"data": ["sample"], "dataset": {"sample": {"test": "train.conll"}}}, r"the test data is training data: train\.conll"),
    ({"hidden": [0.9], "sentences": {"train": 4}, "seeds": [1, 2, 3, 4, 5, 6]}, r"^toy 0\.9, full, recurrent, seed \d: "),
    ({"hidden": [0.99], "seeds": [1, 2, 3, 4, 5, 6, 7, 8]}, r"seed \d: (all \d+ entities are hidden|no entity is annotated)"),
    ({"dataset": {"toy": {"test": "train.conll"}}}, r"the test data is training data: train\.conll has the same content as "),
    ({"data": ["other-gold"], "naive": "full"}, r"all labels, .*: train\.gold\.conll has other sentences than train\.conll — "),
    ({"encoders": ["x"], "encoder": {"x": {"model": "{dta}/x"}}}, r"\{dta\} in '\{dta\}/x' is not a known template"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_what_cannot_be_run_is_refused_before_anything_is(
    broken: PathTemplates, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        plan(recipe(**changes), broken)
    assert "\n" not in str(refused.value)


def test_test_data_may_have_other_labels_where_the_recipe_says_so(broken: PathTemplates) -> None:
    allowed = {"clash": {"unseen_labels": True}}
    assert len(plan(recipe(data=["clash"], dataset=allowed), broken)) == 2


def test_a_label_may_be_hidden_altogether(data: Path, paths: PathTemplates) -> None:
    (run,) = plan(recipe(methods=["full"], hidden=[0.8], seeds=[2], sentences={"train": 4}), paths)
    corpora = read_corpora(run, paths)
    assert set(corpora.train.labels) < set(corpora.test.labels)


def test_a_tagger_learns_from_sentences_that_are_complete(paths: PathTemplates) -> None:
    trusted = {"toy": {"trusted": "dev.conll"}}
    assert len(plan(recipe(methods=["partial-crf"], dataset=trusted), paths)) == 1


def test_an_encoder_that_cannot_be_loaded_is_refused(paths: PathTemplates, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    runs = plan(recipe(methods=["full"], encoders=["recurrent", str(tmp_path / "bert")]), paths)
    with pytest.raises(ConfigError, match=r"^encoder '\S+/bert': the encoder '\S+/bert' cannot be loaded"):
        check_encoders(runs, paths)
    check_encoders(runs[:1], paths)
