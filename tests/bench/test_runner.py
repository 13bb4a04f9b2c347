"""Scheduling is tested with a worker that does not train; ``tests/test_cli_bench.py`` has real ones."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lacuner.bench import runner
from lacuner.bench.recipe import Places
from lacuner.bench.runner import Outcome, RunObserver, known_results, locked, read_results, run_cells
from lacuner.bench.runs import Cell
from lacuner.errors import ConfigError, LacunerError

WHOLE = {
    "key": "1", "data": "toy", "hidden": 0.5, "run": "a", "encoder": "recurrent", "seed": 1, "version": "0.1",
}  # fmt: skip
"""What every result has."""
WORKER = """#!{python} -IS
import json, os, signal, sys, time
from pathlib import Path

m, module, folder, parent = sys.argv[1:]
assert (m, module, int(parent)) == ("-m", "lacuner.bench.worker", os.getppid())
folder = Path(folder)
assert [path.name for path in folder.iterdir() if path.name != "log.txt"] == ["cell.json"]
cell = json.loads((folder / "cell.json").read_text())


def note(what):
    with open({journal!r}, "a") as file:
        threads, data = os.environ["OMP_NUM_THREADS"], os.environ["LACUNER_DATA"]
        file.write(json.dumps([what, cell["key"], os.getpid(), threads, data]) + "\\n")


note("begins")
job = cell["config"]["job"]
if job == "fail":
    (folder / "failure.txt").write_text("there is nothing to learn\\n\\nTraceback: somewhere\\n")
    sys.exit(1)
if job == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if job == "half":
    (folder / "result.json").write_text('{{"test": ')
    sys.exit(3)
if job == "wait":
    (folder / "progress.txt").write_text("epoch 1 of 2")
    time.sleep(60)
time.sleep(0.1)
measured = {{name: [cell["seed"]] for name in cell["config"]["measure"]}}
result = {{"test": {{"f1": cell["seed"] / 10}}, "seconds": 0.1}} | measured
(folder / "result.json").write_text(json.dumps(cell | result))
note("ends")
"""


@dataclass
class Journal:
    """What the workers wrote down."""

    path: Path

    def lines(self) -> list[tuple[str, str, int, str, str]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def begun(self) -> list[str]:
        """The keys of the cells, as their processes began."""
        return [key for what, key, *_ in self.lines() if what == "begins"]

    def most_at_a_time(self) -> int:
        count = most = 0
        for what, *_ in self.lines():
            count += 1 if what == "begins" else -1
            most = max(most, count)
        return most


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Puts a worker in that does not train, and four cores."""
    path = tmp_path / "journal.jsonl"
    worker = tmp_path / "worker"
    worker.write_text(WORKER.format(python=sys.executable, journal=str(path)))
    worker.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(worker))
    monkeypatch.setattr(runner, "_PAUSE", 0.01)
    monkeypatch.setattr(runner, "_cores", lambda: 4)
    return Journal(path)


@dataclass
class Log(RunObserver):
    """Remembers what it is told, and how many results were written by then."""

    out: Path
    events: list[tuple[Any, ...]] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def begun(self, cells: Sequence[Cell], results: dict[str, dict[str, Any]]) -> None:
        self.events.append(("begun", len(cells), len(results)))

    def started(self, cell: Cell) -> None:
        self.events.append(("started", cell.seed))
        self.written.append(len(read_results(self.out / "results.jsonl")))

    def finished(self, cell: Cell, result: dict[str, Any]) -> None:
        self.events.append(("finished", cell.seed, result["test"]["f1"]))

    def failed(self, cell: Cell, reason: str) -> None:
        self.events.append(("failed", cell.seed, reason))


def cell(seed: int = 1, job: str = "work", run: str = "full", measure: Sequence[str] = ()) -> Cell:
    config = {"dataset": {"folder": None}, "settings": {"method": {}}, "job": job, "measure": list(measure)}
    return Cell("toy", 0.5, False, run, "recurrent", seed, config, {"train.conll": "0"})


def run(cells: Sequence[Cell], out: Path, reuse: Sequence[Path] = (), **more: Any) -> Outcome:
    elsewhere = [result for path in reuse for result in read_results(path)]
    with locked(out):
        return run_cells(cells, out, Places(out / "data"), known_results(cells, out, elsewhere), **more)


def written(out: Path) -> list[tuple[str, str, float]]:
    """Key, run and score of every line of ``results.jsonl``."""
    return [(one["key"], one["run"], one["test"]["f1"]) for one in read_results(out / "results.jsonl")]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_cell_is_run_once_and_results_stand_in_the_order_of_the_cells(journal: Journal, tmp_path: Path) -> None:
    cells = [cell(seed) for seed in (3, 1, 2, 5, 4)]
    outcome = run(cells, tmp_path / "out")
    assert sorted(journal.begun()) == sorted(one.key for one in cells)
    assert written(tmp_path / "out") == [(one.key, "full", one.seed / 10) for one in cells]
    assert outcome.records(cells) == read_results(tmp_path / "out" / "results.jsonl")
    assert outcome.failures == {}


@pytest.mark.parametrize(("workers", "threads"), [(1, "4"), (2, "2"), (3, "1"), (None, "1")])
def test_so_many_processes_run_at_a_time_and_share_the_cores(
    journal: Journal, tmp_path: Path, workers: int | None, threads: str
) -> None:
    cells = [cell(seed) for seed in range(6)]
    run(cells, tmp_path / "out", workers=workers)
    assert len(journal.begun()) == 6
    assert journal.most_at_a_time() <= (workers or 4)
    assert {line[3] for line in journal.lines()} == {threads}
    if workers == 1:
        assert journal.begun() == [one.key for one in cells]


def test_few_cells_get_all_the_cores_and_are_told_where_the_data_is(journal: Journal, tmp_path: Path) -> None:
    run([cell()], tmp_path / "out", workers=3)
    assert {tuple(line[3:]) for line in journal.lines()} == {("4", str(tmp_path / "out" / "data"))}


def test_what_is_done_is_never_done_again(journal: Journal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run([cell(1), cell(2)], out)
    second = run([cell(1), cell(2), cell(3)], out)
    assert sorted(journal.begun()) == sorted(cell(seed).key for seed in (1, 2, 3))
    assert second.results.items() > first.results.items()
    third = run([cell(3)], out)
    assert len(journal.begun()) == 3
    assert written(out) == [(cell(3).key, "full", 0.3)]
    assert third.results.keys() == {cell(3).key}
    run([cell(1), cell(2)], out)  # they are not in results.jsonl any more, but they were run
    assert len(journal.begun()) == 3


def test_a_line_of_results_is_enough(journal: Journal, tmp_path: Path) -> None:
    """The folders of the cells may be thrown away."""
    out = tmp_path / "out"
    run([cell(1)], out)
    (out / "cells").rename(tmp_path / "elsewhere")
    run([cell(1), cell(2)], out)
    assert journal.begun() == [cell(1).key, cell(2).key]
    assert len(written(out)) == 2


def test_results_of_another_bench_are_taken_under_the_names_of_this_one(journal: Journal, tmp_path: Path) -> None:
    run([cell(1, run="a"), cell(2, run="a")], tmp_path / "one")
    run([cell(3, run="a")], tmp_path / "two")
    files = [tmp_path / name / "results.jsonl" for name in ("one", "two")]
    cells = [cell(seed, run="b") for seed in (1, 3, 4)]
    outcome = run(cells, tmp_path / "out", reuse=files)
    assert len(journal.begun()) == 4
    assert written(tmp_path / "out") == [(cell(seed).key, "b", seed / 10) for seed in (1, 3, 4)]
    assert {one["run"] for one in outcome.records(cells)} == {"b"}


def test_a_result_that_measures_more_serves_cells_that_want_less(journal: Journal, tmp_path: Path) -> None:
    run([cell(measure=["missampling", "vectors"])], tmp_path / "more")
    run([cell(measure=["missampling"])], tmp_path / "less", reuse=[tmp_path / "more" / "results.jsonl"])
    assert len(journal.begun()) == 1
    (taken,) = read_results(tmp_path / "less" / "results.jsonl")
    assert taken["missampling"] == [1]
    assert "vectors" not in taken
    assert taken["config"]["measure"] == ["missampling"]


def test_a_result_that_measures_less_is_not_enough(journal: Journal, tmp_path: Path) -> None:
    run([cell()], tmp_path / "out")
    run([cell(measure=["vectors"])], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert [one["vectors"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [[1]]
    run([cell(), cell(2)], tmp_path / "other")
    files = [tmp_path / name / "results.jsonl" for name in ("other", "out")]
    run([cell(measure=["vectors"])], tmp_path / "third", reuse=files)
    assert len(journal.begun()) == 4


def test_what_is_measured_beside_a_training_takes_the_place_of_nothing(journal: Journal, tmp_path: Path) -> None:
    plain, measured = cell(), cell(measure=["missampling"])
    run([plain], tmp_path / "out")
    run([measured], tmp_path / "out")
    assert len(journal.begun()) == 2
    for known in (plain, measured, plain):
        run([known], tmp_path / "out")
    assert len(journal.begun()) == 2
    shutil.rmtree(tmp_path / "out" / "cells" / measured.folder)
    run([plain], tmp_path / "out")
    assert len(journal.begun()) == 2


def test_a_richer_result_is_kept_beside_a_poorer_one(journal: Journal, tmp_path: Path) -> None:
    plain, measured = cell(), cell(measure=["missampling"])
    run([measured], tmp_path / "rich")
    run([plain], tmp_path / "out")
    run([measured], tmp_path / "out", [tmp_path / "rich" / "results.jsonl"])
    run([measured], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert len(written(tmp_path / "out")) == 1


def test_measures_that_are_not_asked_for_are_left_out_of_rows_too() -> None:
    rich = cell(measure=["missampling"]).as_dict() | {"rows": {"full, reviewed": {"missampling": [], "test": {}}}}
    assert cell().result_from(rich) == cell().as_dict() | {"rows": {"full, reviewed": {"test": {}}}}


def test_another_recipe_in_the_same_folder_loses_nothing(journal: Journal, tmp_path: Path) -> None:
    run([cell(1), cell(2)], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "cells")
    run([cell(3)], tmp_path / "out")
    run([cell(1), cell(2), cell(3)], tmp_path / "out")
    assert len(journal.begun()) == 3
    assert [one["seed"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [1, 2, 3]


def test_a_file_of_results_that_was_cut_off_is_made_anew(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run([cell(1), cell(2)], tmp_path / "out")
    path = tmp_path / "out" / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    run([cell(1), cell(2)], tmp_path / "out")
    assert len(journal.begun()) == 2
    assert path.read_bytes() == whole
    assert "results.jsonl:2 is not a whole result" in caplog.text


@pytest.mark.parametrize("content", ["{}", "[]", '{"test": 1}', '{"config": {}}'])
def test_a_damaged_result_is_made_anew(journal: Journal, tmp_path: Path, content: str) -> None:
    run([cell()], tmp_path / "out")
    (tmp_path / "out" / "results.jsonl").unlink()
    (tmp_path / "out" / "cells" / cell().key / "result.json").write_text(content)
    run([cell()], tmp_path / "out")
    assert len(journal.begun()) == 2


def test_rows_are_called_as_the_run_is_called_here(journal: Journal, tmp_path: Path) -> None:
    rows = {"a": {"test": {"f1": 0.1}}, "a, 200 findings reviewed": {"test": {"f1": 0.2}}, "ab": {}}
    known = cell(run="a").as_dict() | {"rows": rows, "seconds": 1.0}
    found = cell(run="b").result_from(known)
    assert found is not None
    assert found["rows"] == {"b": rows["a"], "b, 200 findings reviewed": rows["a, 200 findings reviewed"], "ab": {}}


def test_a_result_is_known_by_what_it_says_about_its_cell(journal: Journal, tmp_path: Path) -> None:
    """Keys may once have been made in another way."""
    run([cell(1), cell(2)], tmp_path / "old")
    first, second = read_results(tmp_path / "old" / "results.jsonl")
    del second["config"]
    lines = [json.dumps(one | {"key": "made in another way"}) for one in (first, second)]
    (tmp_path / "file.jsonl").write_text("\n".join(lines))
    run([cell(1), cell(2)], tmp_path / "out", reuse=[tmp_path / "file.jsonl"])
    assert sorted(journal.begun()) == sorted([cell(1).key, cell(2).key, cell(2).key])
    assert [one["key"] for one in read_results(tmp_path / "out" / "results.jsonl")] == [cell(1).key, cell(2).key]


def test_a_result_of_another_version_is_not_taken(journal: Journal, tmp_path: Path) -> None:
    run([replace(cell(), version="0.0.0")], tmp_path / "old")
    run([cell()], tmp_path / "out", reuse=[tmp_path / "old" / "results.jsonl"])
    assert len(journal.begun()) == 2


def test_equal_cells_under_two_names_are_run_once_and_are_two_rows(journal: Journal, tmp_path: Path) -> None:
    cells = [cell(run="a"), cell(2, run="a"), cell(run="b")]
    outcome = run(cells, tmp_path / "out")
    assert sorted(journal.begun()) == sorted({one.key for one in cells})
    assert [(name, f1) for _, name, f1 in written(tmp_path / "out")] == [("a", 0.1), ("a", 0.2), ("b", 0.1)]
    assert len(outcome.records(cells)) == 3


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("fail", "there is nothing to learn"),
        ("die", "its process ended with code -9 (out of memory?)"),
        ("half", "its process ended with code 3"),
    ],
)
def test_a_cell_that_fails_says_why_and_the_others_go_on(
    journal: Journal, tmp_path: Path, job: str, reason: str
) -> None:
    out = tmp_path / "out"
    log = Log(out)
    bad = cell(2, job)
    outcome = run([cell(1), bad, cell(3)], out, workers=1, observer=log)
    said = f"{reason} — see {out / 'cells' / bad.key}"
    assert outcome.failures == {bad.key: f"{bad}: {said}"}
    assert [one["seed"] for one in outcome.records([cell(1), bad, cell(3)])] == [1, 3]
    assert log.events == [
        ("begun", 3, 0),
        ("started", 1), ("finished", 1, 0.1),
        ("started", 2), ("failed", 2, said),
        ("started", 3), ("finished", 3, 0.3),
    ]  # fmt: skip


def test_a_cell_that_failed_is_tried_again(journal: Journal, tmp_path: Path) -> None:
    for _ in range(2):  # the worker checks that nothing of the first time is left
        outcome = run([cell(1, "fail"), cell(2)], tmp_path / "out", workers=1)
        assert outcome.failures.keys() == {cell(1, "fail").key}
    assert journal.begun().count(cell(1, "fail").key) == 2
    assert journal.begun().count(cell(2).key) == 1


def test_results_are_written_whenever_a_cell_is_done(journal: Journal, tmp_path: Path) -> None:
    log = Log(tmp_path / "out")
    run([cell(seed) for seed in range(4)], tmp_path / "out", workers=1, observer=log)
    assert log.written == [0, 1, 2, 3]


def test_whoever_stops_the_runner_stops_its_processes(journal: Journal, tmp_path: Path) -> None:
    class Impatient(RunObserver):
        def progress(self, cell: Cell, text: str) -> None:
            if text == "epoch 1 of 2":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([cell(1, "wait"), cell(2, "wait")], tmp_path / "out", observer=Impatient())
    processes = [line[2] for line in journal.lines()]
    assert processes
    assert not any(map(is_running, processes))
    run([cell(3)], tmp_path / "out")  # and the folder is free


def test_a_process_says_how_far_it_is(journal: Journal, tmp_path: Path) -> None:
    texts: list[str] = []

    class Watching(RunObserver):
        def progress(self, cell: Cell, text: str) -> None:
            texts.append(text)
            if text.startswith("epoch"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([cell(1, "wait")], tmp_path / "out", observer=Watching())
    assert texts[-1] == "epoch 1 of 2"
    assert {*texts[:-1]} <= {"starts", ""}


def test_only_one_bench_at_a_time_runs_in_a_folder(tmp_path: Path) -> None:
    refusal = r"another bench is running in .* — wait for it, or choose another --out"
    with locked(tmp_path), pytest.raises(LacunerError, match=refusal), locked(tmp_path):
        pass
    with locked(tmp_path), locked(tmp_path / "inner"):  # it is free again, and so are other folders
        pass


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal = r"file: .* — choose another folder with --out"
    with pytest.raises(ConfigError, match=refusal), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(WHOLE) + '\n\n{"key"', r"results\.jsonl:3: not JSON"),
        ('{"key": "1", "run": "a", "data": "b", "seed": 1}', r"results\.jsonl:1: this is no result of a cell"),
        ('{"key": "1"}', r"results\.jsonl:1: this is no result of a cell"),
        ("[1]", r"results\.jsonl:1: this is no result of a cell"),
        (b"\xff\xfe", r"results\.jsonl: .*utf-8"),
        (None, r"results\.jsonl: .*No such file"),
    ],
)
def test_what_is_no_file_of_results_is_refused(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    path = tmp_path / "results.jsonl"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=f"{message}.* — give the results.jsonl of a bench"):
        read_results(path)
    with pytest.raises(ConfigError, match=message):
        run([cell()], tmp_path / "out", reuse=[path])
