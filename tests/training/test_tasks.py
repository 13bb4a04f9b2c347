import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import lacuner
from lacuner import Corpus, Recognizer
from lacuner.errors import ConfigError, TrainingError
from lacuner.sample import read_sample
from lacuner.streams.engine import LocalEngine
from lacuner.training.tasks import run_at_a_time, run_tasks

SOURCE = Path(lacuner.__file__).parents[1]
TINY = {"encoder.vectors": "none", "encoder.word_size": 8, "encoder.hidden": 8, "training.batch_tokens": 96}


@pytest.fixture(scope="module")
def train() -> Corpus:
    sentences = read_sample("train")[:20]
    return Corpus(tuple(replace(sentence, complete=index % 2 == 0) for index, sentence in enumerate(sentences)))


def model_file(train, out, **options) -> bytes:
    Recognizer.train(train, train[:5], out=out, epochs=2, **options)
    return (out / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("lacuner", {"teacher.min_entities": 3, "teacher.folds": 2}),
        ("cupul", {"stage.voters": 2, "stage.epochs": 1}),
    ],
)
def test_models_of_a_stage_that_are_trained_at_a_time_are_the_same(train, tmp_path, method, settings):
    options = {"method": method, "settings": TINY | settings}
    assert model_file(train, tmp_path / "two", workers=2, **options) == model_file(train, tmp_path / "one", **options)


@pytest.mark.slow
def test_a_run_that_was_killed_is_resumed_and_finished_models_are_not_trained_again(train, tmp_path):
    settings = TINY | {"stage.models": 3, "self_training": "none"}
    options = {"method": "roster", "settings": settings}
    whole = model_file(train, tmp_path / "whole", **options)
    train.write(tmp_path / "train.jsonl")
    train[:5].write(tmp_path / "dev.jsonl")
    command = [sys.executable, "-m", "lacuner", "train", "train.jsonl", "--dev", "dev.jsonl", "--out", "model"]
    command += ["--method", "roster", "--epochs", "2", "--workers", "2"]
    command += [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    kept = tmp_path / "model.training"
    for _ in range(1200):
        if list(kept.glob("ensemble-*.safetensors")):
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    times = {path.name: path.stat().st_mtime_ns for path in kept.glob("ensemble-*.safetensors")}
    assert times
    assert model_file(train, tmp_path / "model", resume=True, workers=2, **options) == whole


def compute(value: int) -> dict[str, torch.Tensor]:
    return {"value": torch.tensor([value])}


def kill_itself() -> dict[str, torch.Tensor]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def refuse() -> dict[str, torch.Tensor]:
    raise ConfigError("there is nothing to learn")


def keep(name, task):
    return {f"{name} {key}": value for key, value in task().items()}


def test_results_are_kept_where_they_are_computed():
    tasks = {str(number): partial(compute, number) for number in range(3)}
    found = run_at_a_time(tasks, keep, LocalEngine(2, "fork"), "go on")
    assert {name: part[f"{name} value"].tolist() for name, part in found.items()} == {"0": [0], "1": [1], "2": [2]}


def test_what_is_kept_needs_no_process():
    kept = {"1": compute(5)}

    def keep_or_known(name, task):
        return kept[name] if name in kept else task()

    found = run_tasks(
        {str(number): partial(compute, number) for number in range(2)}, keep_or_known, 2, kept.__contains__
    )
    assert [part["value"].item() for part in found] == [0, 5]


def test_what_a_task_says_is_what_the_user_reads():
    with pytest.raises(ConfigError, match="there is nothing to learn"):
        run_at_a_time({"one": refuse, "two": partial(compute, 2)}, keep, LocalEngine(2, "fork"), "go on")
    with pytest.raises(TrainingError, match=r"one: its process was killed .* — go on; if memory"):
        run_at_a_time({"one": kill_itself, "two": partial(compute, 2)}, keep, LocalEngine(2, "fork"), "go on")


def test_tasks_that_cannot_be_pickled_run_here_and_it_is_said(caplog):
    tasks = {"one": lambda: compute(1), "two": lambda: compute(2)}
    found = run_tasks(tasks, keep, 2)
    assert [part[f"{name} value"].item() for name, part in zip(tasks, found, strict=True)] == [1, 2]
    assert "one after the other, because they cannot be pickled" in caplog.text
