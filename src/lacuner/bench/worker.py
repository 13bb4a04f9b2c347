"""The process of a run: trains it, and leaves the result or the error in its folder."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lacuner.bench.folder import RESULT
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.runs import Run
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import LacunerError
from lacuner.training.loop import Observer

RUN, FAILURE, PROGRESS, LOG = "run.json", "failure.txt", "progress.txt", "log.txt"
"""Files in the folder of a run."""


@dataclass(frozen=True)
class Job:
    """A run to execute, its output folder, the folder of the datasets, and the device."""

    run: Run
    folder: Path
    data: Path
    device: str | None = None

    def __str__(self) -> str:
        return str(self.run)

    def progress(self) -> str:
        """The progress of the run, as text."""
        try:
            return (self.folder / PROGRESS).read_text(encoding="utf-8")
        except OSError:
            return "starts"


def execute(job: Job) -> None:
    """Train and evaluate, with all output redirected to a log."""
    with _output_to(job.folder / LOG):
        from lacuner.bench.experiments import run_experiment
        from lacuner.encoders.device import on_device

        description = json.dumps(job.run.as_dict(), ensure_ascii=False, indent=1)
        (job.folder / RUN).write_text(description, encoding="utf-8")
        try:
            with on_device(job.device):
                result = run_experiment(job.run, PathTemplates(job.data), _ProgressFile(job.folder / PROGRESS))
        except LacunerError as error:
            (job.folder / FAILURE).write_text(f"{error}\n", encoding="utf-8")
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            (job.folder / FAILURE).write_text(f"{reason}\n\n{traceback.format_exc()}", encoding="utf-8")
            raise LacunerError(reason) from error
        with open_for_writing(job.folder / RESULT) as file:
            json.dump(result, file, ensure_ascii=False)


class _ProgressFile(Observer):
    """Writes the training progress to a file as one line."""

    def __init__(self, path: Path) -> None:
        self._path, self._stage, self._epochs = path, "", 0

    def stage_started(self, title: str) -> None:
        self._stage = f"{title}, " if title else ""

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        self._epochs = epochs
        self._say(f"epoch {epoch} of {epochs}")

    def epoch_ended(self, record: dict[str, Any]) -> None:
        f1 = f", dev F1 {100 * record['dev']['f1']:.1f}" if "dev" in record else ""
        self._say(f"epoch {record['epoch']} of {self._epochs} done{f1}")

    def _say(self, text: str) -> None:
        self._path.write_text(self._stage + text, encoding="utf-8")


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Redirect standard output and standard error to a file, including output of native libraries."""
    before = [os.dup(number) for number in (1, 2)]
    with path.open("wb") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), before, strict=True):
            os.dup2(old, number)
            os.close(old)
