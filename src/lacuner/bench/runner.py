"""Execute runs, several at a time, each in a process and a folder of its own; a run that has a result is not repeated."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lacuner.bench.folder import RESULT, RUNS, read_result, write_results
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.runs import Run
from lacuner.bench.worker import FAILURE, PROGRESS, RUN

_LOG = "log.txt"
_PAUSE = 0.2  # seconds between looks at the processes


class RunObserver:
    """Told about the progress of runs; the command line shows it. Does nothing by itself."""

    def begun(self, runs: Sequence[Run], results: "dict[str, dict[str, Any]]") -> None:
        """These runs are asked for, and these results are known already."""

    def started(self, run: Run) -> None:
        """The process of a run has started."""

    def progress(self, run: Run, text: str) -> None:
        """How far a run is."""

    def finished(self, run: Run, result: dict[str, Any]) -> None:
        """A run has a result."""

    def failed(self, run: Run, reason: str) -> None:
        """A run has failed."""


@dataclass
class Outcome:
    """Results by the keys of their runs; and why other runs have none."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def records(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """A result for each run that has one, under the names that this recipe gives."""
        found = (run.result_from(self.results[run.key]) for run in runs if run.key in self.results)
        return [result for result in found if result is not None]


def execute_runs(
    runs: Sequence[Run],
    out: Path,
    paths: PathTemplates,
    known: Mapping[str, dict[str, Any]],
    workers: int | None = None,
    observer: RunObserver | None = None,
) -> Outcome:
    """Execute all runs that have no result yet; the caller has :func:`~lacuner.bench.folder.locked` the folder.

    Args:
        runs: all of them, in the order of the results.
        out: a folder; ``results.jsonl`` in it is rewritten whenever a run is done.
        paths: where the data is.
        known: results that need no training, as :func:`~lacuner.bench.folder.cached_results` finds them.
        workers: processes at a time; by default one for each core. They share the cores evenly.
        observer: told about progress.
    """
    observer = observer or RunObserver()
    outcome = Outcome(dict(known))
    write_results(out, outcome.records(runs), outcome.failures)
    observer.begun(runs, outcome.results)
    count = min(workers or _cores(), len({run.key for run in runs}))
    environment = os.environ | {
        "LACUNER_DATA": str(paths.data),
        "OMP_NUM_THREADS": str(max(1, _cores() // count)),
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait actively slow the other processes down
        "TOKENIZERS_PARALLELISM": "false",
    }
    missing: dict[str, Run] = {}
    for run in runs:
        if run.key not in outcome.results:
            missing.setdefault(run.key, run)
    waiting = deque(missing.values())
    running: dict[str, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < count:
                run = waiting.popleft()
                running[run.key] = _start(run, out / RUNS / run.folder, environment)
                observer.started(run)
            time.sleep(_PAUSE)
            for key, process in list(running.items()):
                code = process.process.poll()
                if code is None:
                    observer.progress(process.run, process.progress())
                    continue
                del running[key]
                _collect(process, code, outcome, observer)
                write_results(out, outcome.records(runs), outcome.failures)
    finally:
        for process in running.values():
            process.process.kill()
        for process in running.values():
            process.process.wait()
    return outcome


@dataclass(frozen=True)
class _Running:
    run: Run
    folder: Path
    process: "subprocess.Popen[bytes]"

    def progress(self) -> str:
        try:
            return (self.folder / PROGRESS).read_text(encoding="utf-8")
        except OSError:
            return "starts"


def _start(run: Run, folder: Path, environment: dict[str, str]) -> _Running:
    if folder.exists():
        shutil.rmtree(folder)  # of an attempt that was interrupted, or failed
    folder.mkdir(parents=True)
    (folder / RUN).write_text(json.dumps(run.as_dict(), ensure_ascii=False, indent=1), encoding="utf-8")
    with (folder / _LOG).open("wb") as log:
        command = [sys.executable, "-m", "lacuner.bench.worker", str(folder), str(os.getpid())]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return _Running(run, folder, process)


def _collect(process: _Running, code: int, outcome: Outcome, observer: RunObserver) -> None:
    result = read_result(process.folder / RESULT)
    if result is not None:
        outcome.results[process.run.key] = result
        observer.finished(process.run, result)
        return
    try:
        reason = (process.folder / FAILURE).read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        reason = f"its process ended with code {code}" + (" (out of memory?)" if code == -9 else "")
    reason += f" — see {process.folder}"
    outcome.failures[process.run.key] = f"{process.run}: {reason}"
    observer.failed(process.run, reason)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
