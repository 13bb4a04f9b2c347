import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import copied, recipe

from lacuner import Corpus
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.runs import Run


def key_of(paths: PathTemplates, **changes: Any) -> str:
    """The key of the first run."""
    return plan(recipe(**{"methods": ["uniform"]} | changes), paths)[0].key


def test_a_run_can_be_written_as_json_and_read_again(paths: PathTemplates) -> None:
    for run in plan(recipe(hidden=[0.0, 0.3], naive="full"), paths):
        again = Run.from_dict(json.loads(json.dumps(run.as_dict())))
        assert (again, again.key) == (run, run.key)
        assert run.as_dict()["key"] == run.key


def test_keys_do_not_depend_on_names(data: Path, paths: PathTemplates) -> None:
    copied(data / "toy", data / "twin")
    key = key_of(paths, methods=["uniform negatives.ratio=0.6"])
    table = {"mine": {"method": "uniform", "settings": {"negatives": {"ratio": 0.6}}}}
    encoder = {"small": {"model": "recurrent"}}
    same: list[dict[str, Any]] = [
        {"methods": ["mine"], "method": table},
        {"methods": ["uniform"], "settings": {"negatives": {"ratio": 0.6}}},
        {"encoders": ["small"], "encoder": encoder},
        {"data": ["twin"]},
        {"data": ["other"], "dataset": {"other": {"folder": "toy"}}},
        {"title": "Another", "about": "It is the same.", "baseline": "uniform negatives.ratio=0.6"},
        {"data": ["renamed"], "dataset": {"renamed": {"folder": "twin", "test": "last.conll"}}},
        {"dataset": {"toy": {"unseen_labels": True}}},
    ]
    shutil.copy(data / "twin" / "test.conll", data / "twin" / "last.conll")
    for changes in same:
        assert key_of(paths, **{"methods": ["uniform negatives.ratio=0.6"]} | changes) == key, changes


def test_keys_do_not_depend_on_what_a_method_says_about_itself(paths: PathTemplates) -> None:
    (run,) = plan(recipe(methods=["uniform"]), paths)
    settings = run.config["settings"]
    renamed = settings | {"method": settings["method"] | {"name": "mine", "paper": "A paper", "summary": "It is good."}}
    assert replace(run, config=run.config | {"settings": renamed}).key == run.key


def test_a_setting_that_is_new_and_not_set_leaves_keys_as_they_were(paths: PathTemplates) -> None:
    (run,) = plan(recipe(methods=["uniform"]), paths)
    for value, is_same in ((None, True), (0, False), (False, False), ("none", False)):
        settings = run.config["settings"] | {"new": {"setting": None, "other": value}, "old": None}
        known = replace(run, config=run.config | {"settings": run.config["settings"] | {"new": {}}})
        assert (replace(run, config=run.config | {"settings": settings}).key == known.key) == is_same


def test_keys_do_not_depend_on_the_paths_of_a_machine(data: Path, tmp_path: Path) -> None:
    (data / "vectors.txt").write_text("Ada 1 2\nTurin 3 4\n")
    settings = {"encoder": {"vectors": "{data}/vectors.txt"}}
    elsewhere = copied(data, tmp_path / "elsewhere")
    keys = {key_of(PathTemplates(folder), settings=settings) for folder in (data, elsewhere)}
    assert len(keys) == 1
    (run,) = plan(recipe(settings=settings, methods=["full"]), PathTemplates(elsewhere))
    assert "elsewhere" not in json.dumps(run.as_dict())
    assert run.settings(PathTemplates(elsewhere)).encoder.vectors == str(elsewhere / "vectors.txt")

    other = copied(data, tmp_path / "other")
    (other / "vectors.txt").write_text("Ada 1 2\nTurin 3 5\n")
    assert key_of(PathTemplates(other), settings=settings) not in keys


@pytest.mark.parametrize("file", ["train.conll", "train.gold.conll", "dev.conll", "test.conll"])
def test_keys_depend_on_what_the_files_hold(data: Path, toy: Corpus, tmp_path: Path, file: str) -> None:
    other = copied(data, tmp_path / "other")
    toy[:20].write(other / "toy" / file)
    assert key_of(PathTemplates(data)) != key_of(PathTemplates(other))


def test_keys_do_not_depend_on_files_that_are_not_read(data: Path, tmp_path: Path) -> None:
    """Distant labels may be put beside complete ones, which are hidden in part."""
    other = copied(data, tmp_path / "other")
    (other / "toy" / "train.conll").unlink()
    assert key_of(PathTemplates(data), hidden=[0.3]) == key_of(PathTemplates(other), hidden=[0.3])


def test_keys_depend_on_whatever_decides_the_outcome(paths: PathTemplates) -> None:
    changes: list[dict[str, Any]] = [
        {}, {"seeds": [2]}, {"hidden": [0.3]}, {"hidden": [0.4]}, {"settings": {"training": {"max_grad_norm": 1.0}}},
        {"methods": ["full"]}, {"sentences": {"train": 9}}, {"sentences": {"dev": 9}}, {"sentences": {"test": 9}},
        {"dataset": {"toy": {"complete": True}}}, {"dataset": {"toy": {"trusted": "dev.conll"}}},
        {"dataset": {"toy": {"trusted": "dev.conll"}}, "sentences": {"trusted": 5}},
        {"dataset": {"toy": {"test": "dev.conll"}}}, {"experiment": "uncertainty"},
        {"settings": {"encoder": {"hidden": 8}}}, {"methods": ["uniform negatives.ratio=0.1"]},
    ]  # fmt: skip
    keys = Counter(key_of(paths, **change) for change in changes)
    assert len(keys) == len(changes)
    (run,) = plan(recipe(methods=["uniform"]), paths)
    for change in ({"training_version": 0}, {"complete": True}):
        assert replace(run, **change).key not in keys


def test_the_files_of_a_pretrained_encoder_are_part_of_the_key(paths: PathTemplates, tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    weights = folder / "model.safetensors"
    keys = set()
    for number in range(2):
        weights = folder / f"model{number}.safetensors"
        weights.write_bytes(bytes([number]))
        (run,) = plan(recipe(methods=["full"], encoders=[str(folder)]), paths)
        assert any(name.endswith(weights.name) for name in run.files)
        keys.add(run.key)
    assert len(keys) == 2
