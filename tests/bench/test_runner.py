"""Execution is tested with an experiment that does not train; ``tests/test_cli_bench.py`` has real ones."""

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from handmade import recipe

from lacuner.bench import experiments, runner
from lacuner.bench.folder import cached_results, locked, read_failures, read_results
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.results import Title
from lacuner.bench.runner import Outcome, RunObserver, engine_for, execute_runs
from lacuner.bench.runs import Run
from lacuner.errors import TrainingError
from lacuner.streams.engine import LocalEngine
from lacuner.training.loop import Observer


@dataclass
class Journal:
    """What the experiments noted."""

    path: Path

    def note(self, what: str, key: str) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([what, key, os.getpid()]) + "\n")

    def lines(self) -> list[tuple[str, str, int]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def begun(self) -> list[str]:
        """The keys of the runs, as their processes began."""
        return [key for what, key, *_ in self.lines() if what == "begins"]

    def most_at_a_time(self) -> int:
        count = most = 0
        for what, *_ in self.lines():
            count += 1 if what == "begins" else -1
            most = max(most, count)
        return most


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Puts an experiment in that does not train, and four cores."""
    journal = Journal(tmp_path / "journal.jsonl")

    def experiment(run: Run, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
        folder = paths.data.parent / "runs" / run.folder
        assert {path.name for path in folder.iterdir()} == {"log.txt", "run.json"}
        assert json.loads((folder / "run.json").read_text())["key"] == run.key
        os.write(1, b"some output\n")
        journal.note("begins", run.key)
        match run.config["job"]:
            case "fail":
                raise TrainingError("there is nothing to learn")
            case "break":
                raise ValueError("seven")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "half":
                (folder / "result.json").write_text('{"test": ')
                os._exit(3)
            case "wait":
                observer.epoch_started(1, 2, 10)
                time.sleep(60)
        time.sleep(0.1)
        journal.note("ends", run.key)
        measured = {name: [run.seed] for name in run.config["measure"]}
        return run.as_dict() | {"test": {"f1": run.seed / 10}, "version": "0.1", "seconds": 0.1} | measured

    monkeypatch.setattr(experiments, "run_experiment", experiment)
    monkeypatch.setattr(runner, "available_cores", lambda: 4)
    return journal


@dataclass
class Log(RunObserver):
    """Remembers what it is told, and how many results were written by then."""

    out: Path
    events: list[tuple[Any, ...]] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def begun(self, runs: Sequence[Run], results: dict[str, dict[str, Any]]) -> None:
        self.events.append(("begun", len(runs), len(results)))

    def started(self, run: Run) -> None:
        self.events.append(("started", run.seed))
        self.written.append(len(read_results(self.out / "results.jsonl")))

    def finished(self, run: Run, result: dict[str, Any]) -> None:
        self.events.append(("finished", run.seed, result["test"]["f1"]))

    def failed(self, run: Run, reason: str) -> None:
        self.events.append(("failed", run.seed, reason))


def a_run(seed: int = 1, job: str = "work", method: str = "full", measure: Sequence[str] = ()) -> Run:
    config = {"dataset": {"folder": None}, "settings": {"method": {}}, "job": job, "measure": list(measure)}
    return Run("toy", 0.5, False, method, "recurrent", seed, config, {"train.conll": "0"})


def execute(
    runs: Sequence[Run],
    out: Path,
    reuse: Sequence[Path] = (),
    workers: int | None = None,
    observer: RunObserver | None = None,
    chosen: Sequence[Run] | None = None,
) -> Outcome:
    """As the command does it, in processes that know the experiment of the test."""
    elsewhere = [result for path in reuse for result in read_results(path)]
    engine = LocalEngine(engine_for(runs, workers).workers, "fork")
    with locked(out):
        Title("test", "standard", recipe()).write(out)
        known = cached_results(runs, out, elsewhere)
        return execute_runs(runs, out, PathTemplates(out / "data"), known, engine, observer, chosen)


def written(out: Path) -> list[tuple[str, str, float]]:
    """Key, run and score of every line of ``results.jsonl``."""
    return [(one["key"], one["method"], one["test"]["f1"]) for one in read_results(out / "results.jsonl")]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_run_is_run_once_and_results_stand_in_the_order_of_the_runs(journal: Journal, tmp_path: Path) -> None:
    runs = [a_run(seed) for seed in (3, 1, 2, 5, 4)]
    outcome = execute(runs, tmp_path / "out")
    assert sorted(journal.begun()) == sorted(one.key for one in runs)
    assert written(tmp_path / "out") == [(one.key, "full", one.seed / 10) for one in runs]
    assert outcome.records(runs) == read_results(tmp_path / "out" / "results.jsonl")
    assert outcome.failures == {}


@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_so_many_processes_run_at_a_time(journal: Journal, tmp_path: Path, workers: int | None) -> None:
    runs = [a_run(seed) for seed in range(6)]
    execute(runs, tmp_path / "out", workers=workers)
    assert len(journal.begun()) == 6
    assert len({process for _, _, process in journal.lines()}) == 6
    assert journal.most_at_a_time() <= (workers or 4)
    if workers == 1:
        assert journal.begun() == [one.key for one in runs]


def test_there_are_no_more_processes_than_different_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "available_cores", lambda: 4)
    same = [a_run(1), a_run(2), a_run(1, method="the same")]
    assert [engine_for(same, workers).workers for workers in (None, 1, 3)] == [2, 1, 2]
    assert engine_for([]).workers == 1
    assert engine_for(same).start_method == "spawn"


def test_what_a_run_prints_is_in_its_log(journal: Journal, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    execute([a_run()], tmp_path / "out")
    assert (tmp_path / "out" / "runs" / a_run().key / "log.txt").read_text() == "some output\n"
    assert capfd.readouterr().out == ""


def test_what_is_done_is_never_done_again(journal: Journal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = execute([a_run(1), a_run(2)], out)
    second = execute([a_run(1), a_run(2), a_run(3)], out)
    assert sorted(journal.begun()) == sorted(a_run(seed).key for seed in (1, 2, 3))
    assert second.results.items() > first.results.items()
    third = execute([a_run(3)], out)
    assert len(journal.begun()) == 3
    assert written(out) == [(a_run(3).key, "full", 0.3)]
    assert third.results.keys() == {a_run(3).key}
    execute([a_run(1), a_run(2)], out)  # they are not in results.jsonl any more, but they were run
    assert len(journal.begun()) == 3


def test_a_line_of_results_is_enough(journal: Journal, tmp_path: Path) -> None:
    """The folders of the runs may be thrown away."""
    out = tmp_path / "out"
    execute([a_run(1)], out)
    (out / "runs").rename(tmp_path / "elsewhere")
    execute([a_run(1), a_run(2)], out)
    assert journal.begun() == [a_run(1).key, a_run(2).key]
    assert len(written(out)) == 2


def test_results_of_another_bench_are_taken_under_the_names_of_this_one(journal: Journal, tmp_path: Path) -> None:
    execute([a_run(1, method="a"), a_run(2, method="a")], tmp_path / "one")
    execute([a_run(3, method="a")], tmp_path / "two")
    files = [tmp_path / name / "results.jsonl" for name in ("one", "two")]
    runs = [a_run(seed, method="b") for seed in (1, 3, 4)]
    outcome = execute(runs, tmp_path / "out", reuse=files)
    assert len(journal.begun()) == 4
    assert written(tmp_path / "out") == [(a_run(seed).key, "b", seed / 10) for seed in (1, 3, 4)]
    assert {one["method"] for one in outcome.records(runs)} == {"b"}


def test_a_result_that_measures_more_serves_runs_that_want_less(journal: Journal, tmp_path: Path) -> None:
    execute([a_run(measure=["missampling", "vectors"])], tmp_path / "more")
    execute([a_run(measure=["missampling"])], tmp_path / "less", reuse=[tmp_path / "more" / "results.jsonl"])
    assert len(journal.begun()) == 1
    (taken,) = read_results(tmp_path / "less" / "results.jsonl")
    assert taken["missampling"] == [1]
    assert "vectors" not in taken
    assert taken["config"]["measure"] == ["missampling"]


def test_a_result_that_measures_less_is_not_enough(journal: Journal, tmp_path: Path) -> None:
    execute([a_run()], tmp_path / "out")
    execute([a_run(measure=["vectors"])], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert [one["vectors"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [[1]]
    execute([a_run(), a_run(2)], tmp_path / "other")
    files = [tmp_path / name / "results.jsonl" for name in ("other", "out")]
    execute([a_run(measure=["vectors"])], tmp_path / "third", reuse=files)
    assert len(journal.begun()) == 4


def test_what_is_measured_beside_a_run_replaces_nothing(journal: Journal, tmp_path: Path) -> None:
    plain, measured = a_run(), a_run(measure=["missampling"])
    execute([plain], tmp_path / "out")
    execute([measured], tmp_path / "out")
    assert len(journal.begun()) == 2
    for known in (plain, measured, plain):
        execute([known], tmp_path / "out")
    assert len(journal.begun()) == 2
    shutil.rmtree(tmp_path / "out" / "runs" / measured.folder)
    execute([plain], tmp_path / "out")
    assert len(journal.begun()) == 2


def test_a_richer_result_is_kept_beside_a_poorer_one(journal: Journal, tmp_path: Path) -> None:
    plain, measured = a_run(), a_run(measure=["missampling"])
    execute([measured], tmp_path / "rich")
    execute([plain], tmp_path / "out")
    execute([measured], tmp_path / "out", [tmp_path / "rich" / "results.jsonl"])
    execute([measured], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert len(written(tmp_path / "out")) == 1


def test_measures_that_are_not_asked_for_are_left_out_of_rows_too() -> None:
    rich = a_run(measure=["missampling"]).as_dict() | {"rows": {"full, reviewed": {"missampling": [], "test": {}}}}
    assert a_run().result_from(rich) == a_run().as_dict() | {"rows": {"full, reviewed": {"test": {}}}}


def test_another_recipe_in_the_same_folder_loses_nothing(journal: Journal, tmp_path: Path) -> None:
    execute([a_run(1), a_run(2)], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "runs")
    execute([a_run(3)], tmp_path / "out")
    execute([a_run(1), a_run(2), a_run(3)], tmp_path / "out")
    assert len(journal.begun()) == 3
    assert [one["seed"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [1, 2, 3]


def test_a_file_of_results_that_was_cut_off_is_made_again(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    execute([a_run(1), a_run(2)], tmp_path / "out")
    path = tmp_path / "out" / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    execute([a_run(1), a_run(2)], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert path.read_bytes() == whole
    assert "results.jsonl:2 is not a complete result" in caplog.text


@pytest.mark.parametrize("content", ["{}", "[]", '{"test": 1}', '{"config": {}}'])
def test_a_damaged_result_is_made_again(journal: Journal, tmp_path: Path, content: str) -> None:
    execute([a_run()], tmp_path / "out")
    (tmp_path / "out" / "results.jsonl").unlink()
    (tmp_path / "out" / "runs" / a_run().key / "result.json").write_text(content)
    execute([a_run()], tmp_path / "out")
    assert len(journal.begun()) == 2


def test_rows_are_called_as_the_run_is_called_here(journal: Journal, tmp_path: Path) -> None:
    rows = {"a": {"test": {"f1": 0.1}}, "a, 200 findings reviewed": {"test": {"f1": 0.2}}, "ab": {}}
    known = a_run(method="a").as_dict() | {"rows": rows, "seconds": 1.0}
    found = a_run(method="b").result_from(known)
    assert found is not None
    assert found["rows"] == {"b": rows["a"], "b, 200 findings reviewed": rows["a, 200 findings reviewed"], "ab": {}}


def test_a_result_is_known_by_what_it_says_about_its_run(journal: Journal, tmp_path: Path) -> None:
    """Keys may once have been made in another way."""
    execute([a_run(1), a_run(2)], tmp_path / "old")
    first, second = read_results(tmp_path / "old" / "results.jsonl")
    del second["config"]
    lines = [json.dumps(one | {"key": "made in another way"}) for one in (first, second)]
    (tmp_path / "file.jsonl").write_text("\n".join(lines))
    execute([a_run(1), a_run(2)], tmp_path / "out", reuse=[tmp_path / "file.jsonl"])
    assert sorted(journal.begun()) == sorted([a_run(1).key, a_run(2).key, a_run(2).key])
    assert [one["key"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [a_run(1).key, a_run(2).key]


def test_a_result_of_another_version_is_not_taken(journal: Journal, tmp_path: Path) -> None:
    execute([replace(a_run(), training_version=0)], tmp_path / "old")
    execute([a_run()], tmp_path / "out", reuse=[tmp_path / "old" / "results.jsonl"])
    assert len(journal.begun()) == 2


def test_equal_runs_under_two_names_are_run_once_and_are_two_rows(journal: Journal, tmp_path: Path) -> None:
    runs = [a_run(method="a"), a_run(2, method="a"), a_run(method="b")]
    outcome = execute(runs, tmp_path / "out")
    assert sorted(journal.begun()) == sorted({one.key for one in runs})
    assert [(name, f1) for _, name, f1 in written(tmp_path / "out")] == [("a", 0.1), ("a", 0.2), ("b", 0.1)]
    assert len(outcome.records(runs)) == 3


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("fail", "there is nothing to learn"),
        ("break", "ValueError: seven"),
        ("die", "its process was killed (out of memory?)"),
        ("half", "its process ended with code 3"),
    ],
)
def test_a_run_that_fails_says_why_and_the_others_continue(
    journal: Journal, tmp_path: Path, job: str, reason: str
) -> None:
    out = tmp_path / "out"
    log = Log(out)
    bad = a_run(2, job)
    outcome = execute([a_run(1), bad, a_run(3)], out, workers=1, observer=log)
    said = f"{reason} — see {out / 'runs' / bad.key}"
    assert outcome.failures == {bad.key: f"{bad}: {said}"}
    assert [one["seed"] for one in outcome.records([a_run(1), bad, a_run(3)])] == [1, 3]
    assert log.events == [
        ("begun", 3, 0),
        ("started", 1), ("finished", 1, 0.1),
        ("started", 2), ("failed", 2, said),
        ("started", 3), ("finished", 3, 0.3),
    ]  # fmt: skip


def test_a_run_that_failed_is_tried_again(journal: Journal, tmp_path: Path) -> None:
    for _ in range(2):  # the worker checks that nothing of the first time is left
        outcome = execute([a_run(1, "fail"), a_run(2)], tmp_path / "out", workers=1)
        assert outcome.failures.keys() == {a_run(1, "fail").key}
    assert journal.begun().count(a_run(1, "fail").key) == 2
    assert journal.begun().count(a_run(2).key) == 1


def test_a_recipe_can_be_run_part_by_part(journal: Journal, tmp_path: Path) -> None:
    runs, log = [a_run(seed) for seed in (1, 2, 3, 4)], Log(tmp_path / "out")
    execute(runs, tmp_path / "out", chosen=runs[2:3])
    assert journal.begun() == [a_run(3).key]
    second = execute(runs, tmp_path / "out", chosen=runs[:1], observer=log)
    assert journal.begun() == [a_run(3).key, a_run(1).key]
    assert log.events[0] == ("begun", 1, 0)  # what is not asked for is not counted
    assert [one["seed"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [1, 3]
    assert [one["seed"] for one in second.records(runs)] == [1, 3]
    execute(runs, tmp_path / "out")
    assert sorted(journal.begun()) == sorted(one.key for one in runs)


def test_failures_of_another_part_are_kept_until_it_is_run_again(journal: Journal, tmp_path: Path) -> None:
    bad, worse, good = a_run(1, "fail"), a_run(2, "break"), a_run(3)
    runs, out = [bad, worse, good], tmp_path / "out"
    execute(runs, out, chosen=[bad])
    execute(runs, out, chosen=[worse])
    assert read_failures(out).keys() == {bad.key, worse.key}
    assert execute(runs, out, chosen=[good]).failures.keys() == {bad.key, worse.key}
    execute([bad, good], out, chosen=[good])  # the recipe has one run less
    assert read_failures(out).keys() == {bad.key}


def test_results_are_written_whenever_a_run_is_done(journal: Journal, tmp_path: Path) -> None:
    log = Log(tmp_path / "out")
    execute([a_run(seed) for seed in range(4)], tmp_path / "out", workers=1, observer=log)
    assert log.written == [0, 1, 2, 3]


def test_whoever_stops_the_runner_stops_its_processes(journal: Journal, tmp_path: Path) -> None:
    class Impatient(RunObserver):
        def progress(self, run: Run, text: str) -> None:
            if text == "epoch 1 of 2":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([a_run(1, "wait"), a_run(2, "wait")], tmp_path / "out", observer=Impatient())
    processes = [line[2] for line in journal.lines()]
    assert processes
    assert not any(map(is_running, processes))
    execute([a_run(3)], tmp_path / "out")  # and the folder is free


def test_a_process_says_how_far_it_is(journal: Journal, tmp_path: Path) -> None:
    texts: list[str] = []

    class Watching(RunObserver):
        def progress(self, run: Run, text: str) -> None:
            texts.append(text)
            if text.startswith("epoch"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([a_run(1, "wait")], tmp_path / "out", observer=Watching())
    assert texts[-1] == "epoch 1 of 2"
    assert {*texts[:-1]} <= {"starts", ""}
