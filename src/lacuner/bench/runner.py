"""Run cells, several at a time, each in a process and a folder of its own; what is done is never done again."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lacuner.bench.recipe import Places
from lacuner.bench.runs import Cell
from lacuner.bench.worker import CELL, FAILURE, PROGRESS, RESULT
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError, LacunerError

logger = logging.getLogger(__name__)

RESULTS = "results.jsonl"
_CELLS, _FAILURES, _LOCK, _LOG = "cells", "failures.json", ".lock", "log.txt"
_NEEDED = {"key", "data", "hidden", "run", "encoder", "seed", "version"}
"""What a report needs to know about every result."""
_PAUSE = 0.2  # seconds between looks at the processes


class RunObserver:
    """Told how cells go; the command line shows it. Does nothing by itself."""

    def begun(self, cells: Sequence[Cell], results: "dict[str, dict[str, Any]]") -> None:
        """These are to be run, and these are done already."""

    def started(self, cell: Cell) -> None:
        """A process has begun."""

    def progress(self, cell: Cell, text: str) -> None:
        """How far it is."""

    def finished(self, cell: Cell, result: dict[str, Any]) -> None:
        """It is done."""

    def failed(self, cell: Cell, reason: str) -> None:
        """It went wrong."""


@dataclass
class Outcome:
    """What came out, by the cells' keys: results, and which cells have none and why."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def records(self, cells: Sequence[Cell]) -> list[dict[str, Any]]:
        """A result for each cell that has one, under the names that this recipe gives."""
        found = (cell.result_from(self.results[cell.key]) for cell in cells if cell.key in self.results)
        return [result for result in found if result is not None]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder for results, in which nobody else runs cells meanwhile."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("w")
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror} — choose another folder with --out") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LacunerError(f"another bench is running in {folder} — wait for it, or choose another --out") from None
        yield


def known_results(cells: Sequence[Cell], out: Path, reuse: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Results of cells that are there already, by key.

    Args:
        cells: what is asked for.
        out: the folder of the bench. What its ``results.jsonl`` holds beside that is kept, too.
        reuse: results of other benches; what has the same key is taken from there.
    """
    _keep_results(out)
    elsewhere: dict[str, list[dict[str, Any]]] = {}
    for result in reuse:
        described = _cell_of(result)
        if described is not None:
            elsewhere.setdefault(described.key, []).append(dict(result))
    known = {}
    for cell in cells:
        own = map(_read_result, sorted((out / _CELLS).glob(f"{cell.key}*/{RESULT}")))
        there = [*(result for result in own if result is not None), *elsewhere.get(cell.key, ())]
        fitting = next((result for result in there if cell.result_from(result) is not None), None)
        if fitting is not None:
            known[cell.key] = fitting
    return known


def run_cells(
    cells: Sequence[Cell],
    out: Path,
    places: Places,
    known: Mapping[str, dict[str, Any]],
    workers: int | None = None,
    observer: RunObserver | None = None,
) -> Outcome:
    """Run all cells that have no result yet; whoever calls it has :func:`locked` the folder.

    Args:
        cells: all of them, in the order of the results.
        out: a folder; ``results.jsonl`` is renewed in it whenever a cell is done.
        places: where the data is.
        known: results that are there already, as :func:`known_results` finds them.
        workers: processes at a time; by default one for each core. They share the cores evenly.
        observer: told about progress.
    """
    observer = observer or RunObserver()
    outcome = Outcome(dict(known))
    _write_results(cells, out, outcome)
    observer.begun(cells, outcome.results)
    count = min(workers or _cores(), len({cell.key for cell in cells}))
    environment = os.environ | {
        "LACUNER_DATA": str(places.data),
        "OMP_NUM_THREADS": str(max(1, _cores() // count)),
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait actively slow the other processes down
        "TOKENIZERS_PARALLELISM": "false",
    }
    missing: dict[str, Cell] = {}
    for cell in cells:
        if cell.key not in outcome.results:
            missing.setdefault(cell.key, cell)
    waiting = deque(missing.values())
    running: dict[str, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < count:
                cell = waiting.popleft()
                running[cell.key] = _start(cell, out / _CELLS / cell.folder, environment)
                observer.started(cell)
            time.sleep(_PAUSE)
            for key, process in list(running.items()):
                code = process.process.poll()
                if code is None:
                    observer.progress(process.cell, process.look())
                    continue
                del running[key]
                _collect(process, code, outcome, observer)
                _write_results(cells, out, outcome)
    finally:
        for process in running.values():
            process.process.kill()
        for process in running.values():
            process.process.wait()
    return outcome


def read_results(path: Path) -> list[dict[str, Any]]:
    """The results of a file, as ``results.jsonl`` holds them."""
    results = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    results.append(_parse(line, path, number))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error} — give the results.jsonl of a bench") from error
    return results


def read_failures(folder: Path) -> dict[str, str]:
    """What the last run in a folder could not do."""
    try:
        failures: dict[str, str] = json.loads((folder / _FAILURES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / _FAILURES}: {error} — remove it, or run the bench again") from error
    return failures


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        result = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error}) — give the results.jsonl of a bench") from error
    if not isinstance(result, dict) or not result.keys() >= _NEEDED:
        raise ConfigError(f"{path}:{number}: this is no result of a cell — give the results.jsonl of a bench")
    return result


@dataclass(frozen=True)
class _Running:
    cell: Cell
    folder: Path
    process: "subprocess.Popen[bytes]"

    def look(self) -> str:
        try:
            return (self.folder / PROGRESS).read_text(encoding="utf-8")
        except OSError:
            return "starts"


def _start(cell: Cell, folder: Path, environment: dict[str, str]) -> _Running:
    if folder.exists():
        shutil.rmtree(folder)  # of a run that was stopped, or failed
    folder.mkdir(parents=True)
    (folder / CELL).write_text(json.dumps(cell.as_dict(), ensure_ascii=False, indent=1), encoding="utf-8")
    with (folder / _LOG).open("wb") as log:
        command = [sys.executable, "-m", "lacuner.bench.worker", str(folder), str(os.getpid())]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return _Running(cell, folder, process)


def _collect(process: _Running, code: int, outcome: Outcome, observer: RunObserver) -> None:
    result = _read_result(process.folder / RESULT)
    if result is not None:
        outcome.results[process.cell.key] = result
        observer.finished(process.cell, result)
        return
    try:
        reason = (process.folder / FAILURE).read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        reason = f"its process ended with code {code}" + (" (out of memory?)" if code == -9 else "")
    reason += f" — see {process.folder}"
    outcome.failures[process.cell.key] = f"{process.cell}: {reason}"
    observer.failed(process.cell, reason)


def _keep_results(out: Path) -> None:
    """Give every line of ``results.jsonl`` a folder of its own: the file is written anew, perhaps with other cells."""
    try:
        lines = (out / RESULTS).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        try:
            result = _parse(line.decode("utf-8"), out / RESULTS, number)
        except (ConfigError, UnicodeDecodeError):
            logger.warning(
                "%s:%d is not a whole result; its cell is run again, if it is wanted.", out / RESULTS, number
            )
            continue
        cell = _cell_of(result)
        if cell is None:
            continue
        path = out / _CELLS / cell.folder / RESULT
        if _read_result(path) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_for_writing(path) as file:
                json.dump(result, file, ensure_ascii=False)


def _cell_of(result: Mapping[str, Any]) -> Cell | None:
    """The cell that a result describes; none if it does not describe the whole of it."""
    try:
        cell = Cell.from_dict(result)
        return cell if cell.folder else None  # which takes the whole configuration
    except (KeyError, TypeError, AttributeError):
        return None


def _read_result(path: Path) -> dict[str, Any] | None:
    """The result in a file, if it is a whole one."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and _cell_of(result) is not None else None


def _write_results(cells: Sequence[Cell], out: Path, outcome: Outcome) -> None:
    with open_for_writing(out / RESULTS) as file:
        for record in outcome.records(cells):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    if outcome.failures:
        with open_for_writing(out / _FAILURES) as file:
            json.dump(outcome.failures, file, ensure_ascii=False, indent=1)
    else:
        (out / _FAILURES).unlink(missing_ok=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
