import json
from pathlib import Path
from typing import Any

import pytest
from handmade import SMALL, recipe

from lacuner.bench import experiments
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.runs import Run
from lacuner.bench.worker import Job, execute
from lacuner.errors import LacunerError, TrainingError
from lacuner.training.loop import Observer


@pytest.fixture
def job(paths: PathTemplates, tmp_path: Path) -> Job:
    """As the runner gives it to the worker."""
    (run,) = plan(recipe(methods=["uniform"], hidden=[0.3], settings=SMALL), paths)
    folder = tmp_path / "run"
    folder.mkdir()
    return Job(run, folder, paths.data)


def test_a_worker_leaves_its_result_and_how_far_it_came(job: Job) -> None:
    assert job.progress() == "starts"
    execute(job)
    result = json.loads((job.folder / "result.json").read_text())
    assert result.items() >= job.run.as_dict().items()
    assert json.loads((job.folder / "run.json").read_text()) == job.run.as_dict()
    assert job.progress() == f"epoch 8 of 8 done, dev F1 {100 * result['epochs'][-1]:.1f}"
    assert not (job.folder / "failure.txt").exists()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TrainingError("there is nothing to learn"), "there is nothing to learn\n"),
        (ValueError("7"), "ValueError: 7\n\nTr"),
    ],
)
def test_a_worker_that_fails_leaves_a_sentence(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def fail(run: Run, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(experiments, "run_experiment", fail)
    with pytest.raises(LacunerError, match=f"^{text.splitlines()[0]}$"):
        execute(job)
    assert (job.folder / "failure.txt").read_text().startswith(text)
    assert not (job.folder / "result.json").exists()
