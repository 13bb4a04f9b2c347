import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import copied, recipe

from lacuner import Corpus
from lacuner.bench.planning import plan
from lacuner.bench.recipe import Places
from lacuner.bench.runs import Cell


def key_of(places: Places, **changes: Any) -> str:
    """The key of the first cell."""
    return plan(recipe(**{"runs": ["uniform"]} | changes), places)[0].key


def test_a_cell_can_be_written_as_json_and_read_again(places: Places) -> None:
    for cell in plan(recipe(hidden=[0.0, 0.3], naive="full"), places):
        again = Cell.from_dict(json.loads(json.dumps(cell.as_dict())))
        assert (again, again.key) == (cell, cell.key)
        assert cell.as_dict()["key"] == cell.key


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
