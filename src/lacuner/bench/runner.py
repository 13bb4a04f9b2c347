"""Execution of runs, several at a time, each in its own process and folder; finished runs are not repeated."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lacuner.bench.folder import RESULT, RUNS, read_failures, read_result, write_results
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.runs import Run
from lacuner.bench.worker import Job, execute
from lacuner.errors import LacunerError
from lacuner.streams.engine import Engine, available_cores, cluster_cores, make_engine


class RunObserver:
    """Callbacks about the progress of runs, such as for display. The base class does nothing."""

    def begun(self, runs: Sequence[Run], results: "dict[str, dict[str, Any]]") -> None:
        """These runs were requested, and these results exist already."""

    def started(self, run: Run) -> None:
        """The process of a run has started."""

    def progress(self, run: Run, text: str) -> None:
        """A run has reported its progress."""

    def finished(self, run: Run, result: dict[str, Any]) -> None:
        """A run has finished."""

    def failed(self, run: Run, reason: str) -> None:
        """A run has failed."""


@dataclass
class Outcome:
    """Results by key of the run, and the reasons of failures."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def records(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """The result of each finished run, under the names used by this recipe."""
        found = (run.result_from(self.results[run.key]) for run in runs if run.key in self.results)
        return [result for result in found if result is not None]


def engine_for(
    runs: Sequence[Run], workers: int | None = None, name: str = "local", address: str | None = None
) -> Engine:
    """Create an engine for runs, which share the cores evenly.

    Args:
        runs: all of the recipe, including finished ones, so that the rest gets the same number of threads after an
            interruption.
        workers: number of processes; by default one per core. At most the number of distinct runs.
        name: ``local``, ``ray``, or that of an engine provided by a package.
        address: of a Ray cluster, which must see the folders of the runs and the data.
    """
    cores = workers or (cluster_cores(address) if address is not None and name == "ray" else available_cores())
    count = max(1, min(cores, len({run.key for run in runs})))
    # A fresh process, because its peak memory is its own, and torch is not fork-safe.
    return make_engine(name, count, "spawn", address)


def execute_runs(
    runs: Sequence[Run],
    out: Path,
    paths: PathTemplates,
    known: Mapping[str, dict[str, Any]],
    engine: Engine,
    observer: RunObserver | None = None,
    chosen: Sequence[Run] | None = None,
    device: str | None = None,
) -> Outcome:
    """Execute runs without a result; the caller has :func:`~lacuner.bench.folder.locked` the folder.

    Args:
        runs: all of the recipe, in the order of the results.
        out: a folder; its ``results.jsonl`` is rewritten whenever a run has finished.
        paths: where the data is.
        known: existing results, from :func:`~lacuner.bench.folder.cached_results`.
        engine: where runs are executed, each in its own process.
        observer: receives progress.
        chosen: the runs to execute now; by default all. Failures of the others are kept.
        device: where models run; by default a GPU if available.
    """
    observer = observer or RunObserver()
    chosen = runs if chosen is None else chosen
    wanted = {run.key for run in chosen}
    others = {run.key for run in runs} - wanted - known.keys()
    failures = {key: reason for key, reason in read_failures(out).items() if key in others}
    outcome = Outcome(dict(known), failures)
    write_results(out, outcome.records(runs), outcome.failures)
    observer.begun(chosen, {key: result for key, result in known.items() if key in wanted})
    missing: dict[str, Run] = {}  # without those that differ only in name
    for run in chosen:
        if run.key not in known:
            missing.setdefault(run.key, run)

    def jobs() -> Iterator[Job]:
        for run in missing.values():
            folder = out / RUNS / run.folder
            if folder.exists():
                shutil.rmtree(folder)  # of an attempt that was interrupted or failed
            folder.mkdir(parents=True)
            observer.started(run)
            yield Job(run, folder, paths.data, device)

    def watch(job: Job) -> None:
        observer.progress(job.run, job.progress())

    with closing(engine.run_each(execute, jobs(), watch)) as ended:
        for end in ended:
            _collect(end.item, end.error, outcome, observer)
            write_results(out, outcome.records(runs), outcome.failures)
    return outcome


def _collect(job: Job, error: BaseException | None, outcome: Outcome, observer: RunObserver) -> None:
    result = read_result(job.folder / RESULT)
    if result is not None:
        outcome.results[job.run.key] = result
        observer.finished(job.run, result)
        return
    reason = f"{error or LacunerError('it has left no result')} — see {job.folder}"
    outcome.failures[job.run.key] = f"{job.run}: {reason}"
    observer.failed(job.run, reason)
