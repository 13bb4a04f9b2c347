import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from handmade import SMALL, recipe

from lacuner.bench import experiments
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.runs import Run
from lacuner.bench.worker import main
from lacuner.errors import TrainingError
from lacuner.training.loop import Observer


@pytest.fixture
def run(paths: PathTemplates, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LACUNER_DATA", str(paths.data))
    (run,) = plan(recipe(methods=["uniform"], hidden=[0.3], settings=SMALL), paths)
    return run


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """As the runner leaves it to the worker."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run.as_dict()))
    return folder


def test_a_worker_leaves_its_result_and_how_far_it_came(folder: Path, run: Run) -> None:
    assert main(folder, os.getppid()) == 0
    result = json.loads((folder / "result.json").read_text())
    assert result.items() >= run.as_dict().items()
    assert (folder / "progress.txt").read_text() == f"epoch 8 of 8 done, dev F1 {100 * result['epochs'][-1]:.1f}"
    assert not (folder / "failure.txt").exists()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TrainingError("there is nothing to learn"), "there is nothing to learn\n"),
        (ValueError("7"), "ValueError: 7\n\nTr"),
    ],
)
def test_a_worker_that_fails_leaves_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def fail(run: Run, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(experiments, "run_experiment", fail)
    assert main(folder, os.getppid()) == 1
    assert (folder / "failure.txt").read_text().startswith(text)
    assert not (folder / "result.json").exists()


def test_a_worker_whose_runner_has_gone_before_it_came_ends_at_once(folder: Path) -> None:
    command = [sys.executable, "-m", "lacuner.bench.worker", str(folder), str(os.getppid())]  # not its own parent
    assert subprocess.run(command, check=False, timeout=600).returncode == 1
    assert [path.name for path in folder.iterdir()] == ["run.json"]
