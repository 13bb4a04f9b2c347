"""The process of one run: ``python -m lacuner.bench.worker FOLDER PARENT``, where the parent waits for it.

A process of its own, so that a crash affects no other run, memory is freed, and its peak can be measured.
"""

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import LacunerError
from lacuner.training.loop import Observer

RUN, FAILURE, PROGRESS = "run.json", "failure.txt", "progress.txt"
"""In the folder of a run."""


class _ProgressFile(Observer):
    """Writes a line about the progress of training into a file."""

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


def _end_with(parent: int) -> None:
    """End this process when the runner is gone: the next runner would train the same model at the same time.

    The runner passes its own id: if it is gone before this module is loaded, another process is the parent by then.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(folder: Path, parent: int) -> int:
    """Execute the run that is described in a folder, and write its result or the reason of its failure there."""
    _end_with(parent)
    from lacuner.bench.experiments import run_experiment
    from lacuner.bench.folder import RESULT
    from lacuner.bench.path_templates import PathTemplates
    from lacuner.bench.runs import Run

    try:
        run = Run.from_dict(json.loads((folder / RUN).read_text(encoding="utf-8")))
        result = run_experiment(run, PathTemplates(), _ProgressFile(folder / PROGRESS))
        with open_for_writing(folder / RESULT) as file:
            json.dump(result, file, ensure_ascii=False)
    except LacunerError as error:
        (folder / FAILURE).write_text(f"{error}\n", encoding="utf-8")
        return 1
    except Exception as error:
        text = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
        (folder / FAILURE).write_text(text, encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
