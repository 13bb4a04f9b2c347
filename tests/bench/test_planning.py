import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from handmade import CONTENT, recipe

from lacuner import Corpus, Entity, Sentence
from lacuner.bench.cells import Cell
from lacuner.bench.corpora import check_files, read_corpora
from lacuner.bench.planning import check_encoders, plan
from lacuner.bench.recipe import Places, build_recipe
from lacuner.errors import ConfigError, LacunerError
from lacuner.training.settings import RunSettings


def settings_of(places: Places, **changes: Any) -> RunSettings:
    """Settings of the only cell of a recipe."""
    (cell,) = plan(recipe(**{"runs": ["uniform"]} | changes), places)
    return cell.settings(places)


def key_of(places: Places, **changes: Any) -> str:
    """The key of the first cell."""
    return plan(recipe(**{"runs": ["uniform"]} | changes), places)[0].key


def copied(data: Path, place: Path) -> Path:
    shutil.copytree(data, place)
    return place


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


def test_a_cell_can_be_written_as_json_and_read_again(places: Places) -> None:
    for cell in plan(recipe(hidden=[0.0, 0.3], naive="full"), places):
        again = Cell.from_dict(json.loads(json.dumps(cell.as_dict())))
        assert (again, again.key) == (cell, cell.key)
        assert cell.as_dict()["key"] == cell.key


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
    assert {place: (training.epochs, training.clip) for place, training in found.items()} == {
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
        {"encoder": {"recurrent": {"model": "recurrent", "settings": {"training.clip": 2.0}}}},
        {"when": [{"settings": {"training": {"clip": 3.0}}}, {"settings": {"training": {"clip": 4.0}}}]},
        {"runs": ["mine"], "run": {"mine": {"method": "uniform", "settings": {"training": {"clip": 5.5}}}}},
    ]
    given: dict[str, Any] = {}
    clips = []
    for layer in layers:
        given |= layer
        clips.append(settings_of(places, **given).training.clip)
    assert clips == [1.0, 2.0, 4.0, 5.5]
    assert settings_of(places, **given | {"run": {}, "runs": ["uniform training.clip=6"]}).training.clip == 6.0


@pytest.mark.parametrize("changes", [{"settings": {"training": {"seed": 8}}}, {"runs": ["uniform training.seed=9"]}])
def test_seeds_are_said_in_one_place(places: Places, changes: dict[str, Any]) -> None:
    assert settings_of(places, seeds=[4]).training.seed == 4
    with pytest.raises(ConfigError, match=r"training\.seed comes from the seeds of the recipe; leave it out"):
        plan(recipe(**changes), places)


def test_a_part_that_is_named_anew_forgets_old_parameters(places: Places) -> None:
    below = {"negatives": {"name": "uniform", "ratio": 0.7}}
    assert settings_of(places, settings=below).method.negatives.ratio == 0.7
    changed = settings_of(places, settings=below, runs=["uniform negatives=share"]).method.negatives
    assert changed == settings_of(places, runs=["uniform negatives=share"]).method.negatives
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


def test_keys_do_not_depend_on_names(data: Path, places: Places) -> None:
    copied(data / "toy", data / "twin")
    key = key_of(places, runs=["uniform negatives.ratio=0.6"])
    run = {"mine": {"method": "uniform", "settings": {"negatives": {"ratio": 0.6}}}}
    encoder = {"small": {"model": "recurrent"}}
    same: list[dict[str, Any]] = [
        {"runs": ["mine"], "run": run},
        {"runs": ["uniform"], "settings": {"negatives": {"ratio": 0.6}}},
        {"encoders": ["small"], "encoder": encoder},
        {"data": ["twin"]},
        {"data": ["other"], "dataset": {"other": {"folder": "toy"}}},
        {"title": "Another", "about": "It is the same.", "baseline": "uniform negatives.ratio=0.6"},
        {"data": ["renamed"], "dataset": {"renamed": {"folder": "twin", "test": "last.conll"}}},
        {"dataset": {"toy": {"unseen_labels": True}}},
    ]
    shutil.copy(data / "twin" / "test.conll", data / "twin" / "last.conll")
    for changes in same:
        assert key_of(places, **{"runs": ["uniform negatives.ratio=0.6"]} | changes) == key, changes


def test_keys_do_not_depend_on_what_a_method_says_about_itself(places: Places) -> None:
    (cell,) = plan(recipe(runs=["uniform"]), places)
    settings = cell.config["settings"]
    renamed = settings | {"method": settings["method"] | {"name": "mine", "paper": "A paper", "summary": "It is good."}}
    assert replace(cell, config=cell.config | {"settings": renamed}).key == cell.key


def test_a_setting_that_is_new_and_not_set_leaves_keys_as_they_were(places: Places) -> None:
    (cell,) = plan(recipe(runs=["uniform"]), places)
    for value, is_same in ((None, True), (0, False), (False, False), ("none", False)):
        settings = cell.config["settings"] | {"new": {"setting": None, "other": value}, "old": None}
        known = replace(cell, config=cell.config | {"settings": cell.config["settings"] | {"new": {}}})
        assert (replace(cell, config=cell.config | {"settings": settings}).key == known.key) == is_same


def test_keys_do_not_depend_on_the_paths_of_a_machine(data: Path, tmp_path: Path) -> None:
    (data / "vectors.txt").write_text("Ada 1 2\nTurin 3 4\n")
    settings = {"encoder": {"vectors": "{data}/vectors.txt"}}
    elsewhere = copied(data, tmp_path / "elsewhere")
    keys = {key_of(Places(folder), settings=settings) for folder in (data, elsewhere)}
    assert len(keys) == 1
    (cell,) = plan(recipe(settings=settings, runs=["full"]), Places(elsewhere))
    assert "elsewhere" not in json.dumps(cell.as_dict())
    assert cell.settings(Places(elsewhere)).encoder.vectors == str(elsewhere / "vectors.txt")

    other = copied(data, tmp_path / "other")
    (other / "vectors.txt").write_text("Ada 1 2\nTurin 3 5\n")
    assert key_of(Places(other), settings=settings) not in keys


@pytest.mark.parametrize("file", ["train.conll", "train.gold.conll", "dev.conll", "test.conll"])
def test_keys_depend_on_what_the_files_hold(data: Path, toy: Corpus, tmp_path: Path, file: str) -> None:
    other = copied(data, tmp_path / "other")
    toy[:20].write(other / "toy" / file)
    assert key_of(Places(data)) != key_of(Places(other))


def test_keys_do_not_depend_on_files_that_are_not_read(data: Path, tmp_path: Path) -> None:
    """Distant labels may be put beside complete ones, which are hidden in part."""
    other = copied(data, tmp_path / "other")
    (other / "toy" / "train.conll").unlink()
    assert key_of(Places(data), hidden=[0.3]) == key_of(Places(other), hidden=[0.3])


def test_keys_depend_on_whatever_decides_the_outcome(places: Places) -> None:
    changes: list[dict[str, Any]] = [
        {}, {"seeds": [2]}, {"hidden": [0.3]}, {"hidden": [0.4]}, {"settings": {"training": {"clip": 1.0}}},
        {"runs": ["full"]}, {"sentences": {"train": 9}}, {"sentences": {"dev": 9}}, {"sentences": {"test": 9}},
        {"dataset": {"toy": {"complete": True}}}, {"dataset": {"toy": {"trusted": "dev.conll"}}},
        {"dataset": {"toy": {"trusted": "dev.conll"}}, "sentences": {"trusted": 5}},
        {"dataset": {"toy": {"test": "dev.conll"}}}, {"experiment": "uncertainty"},
        {"settings": {"encoder": {"hidden": 8}}}, {"runs": ["uniform negatives.ratio=0.1"]},
    ]  # fmt: skip
    keys = Counter(key_of(places, **change) for change in changes)
    assert len(keys) == len(changes)
    (cell,) = plan(recipe(runs=["uniform"]), places)
    for change in ({"version": "0.0.0"}, {"complete": True}):
        assert replace(cell, **change).key not in keys


def test_the_datasets_own_limits_outrank_those_of_the_recipe(places: Places) -> None:
    dataset = {"toy": {"trusted": "dev.conll", "sentences": {"train": 4}}}
    (cell,) = plan(recipe(runs=["full"], dataset=dataset, sentences={"train": 9, "dev": 6, "trusted": 3}), places)
    corpora = read_corpora(cell, places)
    assert (len(corpora.train), len(corpora.dev), len(corpora.test)) == (4, 6, 25)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 3


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 13, 24, 25, 26, 1000])
def test_fewer_sentences_are_evenly_spaced(places: Places, toy: Corpus, count: int) -> None:
    (cell,) = plan(recipe(runs=["full"], sentences={"test": count}), places)
    tokens = read_corpora(cell, places).test.tokens
    found = [toy.tokens.index(sentence) for sentence in tokens]
    assert len(found) == min(count, 25)
    assert found[0] == 0
    distances = {after - before for before, after in pairwise([*found, 25])}
    assert max(distances) - min(distances) <= 1
    assert min(distances) > 0


def test_labels_are_hidden_by_the_seed_and_it_is_known_which(places: Places, toy: Corpus) -> None:
    cells = plan(recipe(runs=["full"], hidden=[0.4], seeds=[1, 2], sentences={"train": 20}), places)
    first, second = (read_corpora(cell, places) for cell in cells)
    assert first.train.tokens == second.train.tokens
    assert [sentence.entities for sentence in first.train] != [sentence.entities for sentence in second.train]
    known = {sentence.tokens: sentence for sentence in toy}
    for corpora in (first, second):
        assert corpora.hidden is not None
        assert 0 < sum(map(len, corpora.hidden)) < 40
        for sentence, hidden in zip(corpora.train, corpora.hidden, strict=True):
            left = {(entity.start, entity.end) for entity in sentence.entities}
            assert not left & hidden
            assert left | hidden == {(entity.start, entity.end) for entity in known[sentence.tokens].entities}


def test_what_is_hidden_is_known_where_gold_labels_are_of_the_same_sentences(
    data: Path, places: Places, toy: Corpus
) -> None:
    (cell,) = plan(recipe(runs=["full"], sentences={"train": 10}), places)
    corpora = read_corpora(cell, places)
    assert corpora.hidden is not None
    assert sum(map(len, corpora.hidden)) + sum(len(s.entities) for s in corpora.train) == 20

    copied(data / "toy", data / "shorter")
    toy[:24].write(data / "shorter" / "train.gold.conll")
    (cell,) = plan(recipe(runs=["full"], data=["shorter"]), places)
    assert read_corpora(cell, places).hidden is None


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


def test_data_can_be_in_several_files_complete_and_beside_trusted_data(data: Path, places: Places, toy: Corpus) -> None:
    toy[:5].write(data / "toy" / "a.conll")
    toy[5:7].write(data / "toy" / "b.jsonl")
    dataset = {"toy": {"train": ["a.conll", "b.jsonl"], "trusted": "dev.conll", "complete": True}}
    (cell,) = plan(recipe(runs=["full"], dataset=dataset), places)
    corpora = read_corpora(cell, places)
    assert corpora.train.tokens == toy[:7].tokens
    assert all(sentence.complete for sentence in corpora.train)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 25
    assert set(cell.files) == {"a.conll", "b.jsonl", "dev.conll", "test.conll", "train.gold.conll"}


def test_the_sample_needs_no_folder(tmp_path: Path, sample: dict[str, Corpus]) -> None:
    (cell,) = plan(recipe(data=["sample"], runs=["full"], hidden=[0.5]), Places(tmp_path / "nowhere"))
    corpora = read_corpora(cell, Places(tmp_path / "nowhere"))
    assert corpora.train.tokens == sample["train"].tokens
    assert corpora.test is not corpora.dev
    assert corpora.hidden is not None


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


def test_dev_data_may_have_as_many_gaps_as_training_data(places: Places) -> None:
    masked = {"toy": {"mask_dev": True}}
    cells = plan(recipe(runs=["full"], hidden=[0.5], seeds=[1, 2], naive="full", dataset=masked), places)
    for cell in cells:
        plain = read_corpora(replace(cell, config=cell.config | {"dataset": {}}), places)
        corpora = read_corpora(cell, places)
        assert corpora.test.sentences == plain.test.sentences
        dev = plain.dev if cell.complete else plain.dev.mask(0.5, cell.seed)
        assert corpora.dev.sentences == dev.sentences
    assert [cell.complete for cell in cells] == [False, True] * 2
    (plain_cell,) = plan(recipe(runs=["full"], hidden=[0.5]), places)
    assert plain_cell.key != cells[0].key
    with pytest.raises(ConfigError, match=r"^toy, full, recurrent, seed 1: mask_dev hides .* give shares in hidden"):
        plan(recipe(runs=["full"], dataset=masked), places)


def test_a_tagger_learns_from_sentences_that_are_complete(places: Places) -> None:
    trusted = {"toy": {"trusted": "dev.conll"}}
    assert len(plan(recipe(runs=["partial-crf"], dataset=trusted), places)) == 1


def test_an_encoder_that_cannot_be_loaded_is_refused(places: Places, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    cells = plan(recipe(runs=["full"], encoders=["recurrent", str(tmp_path / "bert")]), places)
    with pytest.raises(ConfigError, match=r"^encoder '\S+/bert': the encoder '\S+/bert' cannot be loaded"):
        check_encoders(cells, places)
    check_encoders(cells[:1], places)


def test_the_files_of_a_pretrained_encoder_are_part_of_the_key(places: Places, tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    weights = folder / "model.safetensors"
    keys = set()
    for number in range(2):
        weights = folder / f"model{number}.safetensors"
        weights.write_bytes(bytes([number]))
        (cell,) = plan(recipe(runs=["full"], encoders=[str(folder)]), places)
        assert any(name.endswith(weights.name) for name in cell.files)
        keys.add(cell.key)
    assert len(keys) == 2


def test_data_that_changed_since_the_plan_is_not_taken_for_the_planned_one(places: Places) -> None:
    (cell,) = plan(recipe(runs=["full"]), places)
    check_files(cell, places)
    for files in (cell.files | {"train.conll": "0"}, cell.files | {"more.conll": "0"}):
        with pytest.raises(
            LacunerError, match=r"^(train|more)\.conll changed while the bench was running — start it again"
        ):
            check_files(replace(cell, files=files), places)
