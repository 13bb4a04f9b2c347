"""The output folder of a benchmark: locking, and the results of runs."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lacuner.bench.runs import Run
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError
from lacuner.streams.locks import exclusive

logger = logging.getLogger(__name__)

RESULTS, RECIPE, RUNS = "results.jsonl", "recipe.json", "runs"
RESULT = "result.json"
"""Result file in the folder of a run."""
_FAILURES, _LOCK = "failures.json", ".lock"
_NEEDED = {"key", "data", "hidden", "method", "encoder", "seed", "version"}
"""Fields of a result that a report needs."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for results, creating it if needed.

    Only new or empty folders, or those of an earlier benchmark, are accepted: other files are never overwritten.
    """
    busy = f"another bench is running in {folder} — wait for it, or choose another --out"
    with ExitStack() as stack:
        try:
            _check_owner(folder)
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(folder / _LOCK, busy))
        except OSError as error:
            raise ConfigError(f"{folder}: {error.strerror} — choose another folder with --out") from error
        yield


def _check_owner(folder: Path) -> None:
    if not folder.is_dir():
        return
    foreign = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if foreign and not _is_bench(folder):
        raise ConfigError(
            f"{folder}: it contains files not written by lacuner bench ({foreign[0]}{', …' if len(foreign) > 1 else ''})"
            " — choose a new or empty folder with --out"
        )


def _is_bench(folder: Path) -> bool:
    """Whether the folder has the ``recipe.json`` that every benchmark writes first."""
    try:
        content = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.keys() >= {"name", "profile", "recipe"}


def cached_results(runs: Sequence[Run], out: Path, reuse: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Existing results of runs, by key.

    Args:
        runs: the requested runs.
        out: the folder of the benchmark. Other results in its ``results.jsonl`` are kept, too.
        reuse: results of other benchmarks, used if the key matches.
    """
    _keep_results(out)
    elsewhere: dict[str, list[dict[str, Any]]] = {}
    for result in reuse:
        described = _run_of(result)
        if described is not None:
            elsewhere.setdefault(described.key, []).append(dict(result))
    known = {}
    for run in runs:
        own = map(read_result, sorted((out / RUNS).glob(f"{run.key}*/{RESULT}")))
        candidates = [*(result for result in own if result is not None), *elsewhere.get(run.key, ())]
        fitting = next((result for result in candidates if run.result_from(result) is not None), None)
        if fitting is not None:
            known[run.key] = fitting
    return known


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read the results of a file in the format of ``results.jsonl``."""
    results = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    results.append(_parse(line, path, number))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error} — give the results.jsonl of a bench") from error
    return results


def write_results(out: Path, records: Iterable[Mapping[str, Any]], failures: Mapping[str, str]) -> None:
    """Write ``results.jsonl``, and ``failures.json`` if there are any."""
    with open_for_writing(out / RESULTS) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    if failures:
        with open_for_writing(out / _FAILURES) as file:
            json.dump(failures, file, ensure_ascii=False, indent=1)
    else:
        (out / _FAILURES).unlink(missing_ok=True)


def read_failures(folder: Path) -> dict[str, str]:
    """Read the reasons of the last failures, by key of the run."""
    try:
        failures: dict[str, str] = json.loads((folder / _FAILURES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / _FAILURES}: {error} — remove it, or run the bench again") from error
    return failures


def read_result(path: Path) -> dict[str, Any] | None:
    """Read the result of one run, if the file is complete."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and _run_of(result) is not None else None


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        result = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error}) — give the results.jsonl of a bench") from error
    if not isinstance(result, dict) or not result.keys() >= _NEEDED:
        raise ConfigError(f"{path}:{number}: this is not the result of a run — give the results.jsonl of a bench")
    return result


def _keep_results(out: Path) -> None:
    """Move each line of ``results.jsonl`` to a folder of its own, because the file may be rewritten with other runs."""
    try:
        lines = (out / RESULTS).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        try:
            result = _parse(line.decode("utf-8"), out / RESULTS, number)
            run = _run_of(result)
        except (ConfigError, UnicodeDecodeError):
            run = None
        if run is None:
            logger.warning("%s:%d is not a complete result; the run is repeated if needed.", out / RESULTS, number)
            continue
        path = out / RUNS / run.folder / RESULT
        if read_result(path) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_for_writing(path) as file:
                json.dump(result, file, ensure_ascii=False)


def _run_of(result: Mapping[str, Any]) -> Run | None:
    """The run described by a result; None if the description is incomplete."""
    try:
        run = Run.from_dict(result)
        return run if run.folder else None  # needs the whole configuration
    except (KeyError, TypeError, AttributeError):
        return None
