"""The process of one cell: ``python -m lacuner.bench.worker FOLDER RUNNER``, which is the process that waits for it.

A process of its own, so that a crash takes nothing with it, memory is given back, and its peak can be measured.
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

CELL, RESULT, FAILURE, PROGRESS = "cell.json", "result.json", "failure.txt", "progress.txt"


class _ProgressFile(Observer):
    """A line about how far training is, for whoever looks."""

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


def _end_with(runner: int) -> None:
    """A cell whose runner is gone must not go on: the next runner would do the same work beside it.

    The runner says who it is: it may be gone before anything is loaded here, and then somebody else is the parent.
    """

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(folder: Path, runner: int) -> int:
    """Run the cell of a folder, and leave there what came out or went wrong."""
    _end_with(runner)
    from lacuner.bench.experiments import run_cell
    from lacuner.bench.recipe import Places
    from lacuner.bench.runs import Cell

    try:
        cell = Cell.from_dict(json.loads((folder / CELL).read_text(encoding="utf-8")))
        result = run_cell(cell, Places(), _ProgressFile(folder / PROGRESS))
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
