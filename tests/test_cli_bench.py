import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lacuner import Corpus
from lacuner.bench import planning, recipe
from lacuner.bench.folder import read_results
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.recipe import build_recipe
from lacuner.bench.results import Title
from lacuner.bench.runs import Run
from lacuner.cli import bench_progress, main
from lacuner.cli.bench_progress import BenchProgress
from lacuner.encoders.recurrent import RecurrentConfig
from lacuner.errors import ConfigError

pytest.importorskip("matplotlib")

RECIPE = """
title = "Two methods"
data = ["toy"]
methods = ["full", "uniform", "uniform negatives.ratio=1"]
hidden = [0.3]
seeds = [1]
baseline = "full"

[settings]
encoder = { vectors = "none", word_size = 20, hidden = 24 }
training = { epochs = 8, batch_tokens = 64, encoder_learning_rate = 0.01, head_learning_rate = 0.01 }

[profile.quick]
seeds = [3]
sentences = { train = 20, dev = 10, test = 10 }
"""
COSTS = {"seconds", "cpu_seconds", "training_seconds", "peak_memory_mb"}
Answer = tuple[int, str, str]
Command = Callable[..., Answer]


@pytest.fixture
def run(run: Command) -> Command:
    """As everywhere, but with ``bench`` before the arguments."""
    return partial(run, "bench")


@dataclass(frozen=True)
class Place:
    """A recipe, and the data that it is about."""

    recipe: Path
    data: Path

    def options(self, out: Path) -> list[str]:
        """What two benches must have in common to come out the same: how many threads a run has is part of it."""
        return [str(self.recipe), "--data", str(self.data), "--out", str(out), "--workers", "2", "--json"]


@pytest.fixture(scope="module")
def place(toy: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("bench")
    data = folder / "data" / "toy"
    data.mkdir(parents=True)
    for name in ("train", "train.gold", "dev", "test"):
        toy.write(data / f"{name}.conll")
    with (data / "test.conll").open("a") as file:
        file.write("\n")  # the same sentences, but not the same file
    (folder / "two.toml").write_text(RECIPE)
    return Place(folder / "two.toml", data.parent)


@dataclass(frozen=True)
class Done:
    """A bench that nobody disturbed, and what it said."""

    out: Path
    code: int
    output: str
    log: str


@pytest.fixture(scope="module")
def done(place: Place) -> Done:
    out, output, log = place.recipe.parent / "done", io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(log):
        patch.setattr(sys, "argv", ["lacuner", "bench", *place.options(out)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(out, int(ended.value.code or 0), output.getvalue(), log.getvalue())


def main_table(out: Path) -> list[str]:
    """The first table of a report."""
    return [line for line in (out / "report.md").read_text().split("\n\n## ")[0].splitlines() if line.startswith("|")]


def outcomes(out: Path) -> dict[str, dict[str, Any]]:
    """Everything that came out of the runs and does not depend on the day, by their keys."""
    results = read_results(out / "results.jsonl")
    return {one["key"]: {name: value for name, value in one.items() if name not in COSTS} for one in results}


def figures(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "figures").iterdir()}


def wait_for(condition: Callable[[], bool], seconds: float = 600) -> None:
    """The machine may be very busy."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.2)


def test_encoders_are_loaded_only_for_runs_that_are_still_to_be_run(
    run: Command, place: Place, done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RecurrentConfig) -> None:
        raise ConfigError("the hub is not there")

    monkeypatch.setattr(RecurrentConfig, "check", fail)
    assert run(*place.options(done.out))[0] == 0
    code, _, log = run(*place.options(tmp_path / "new"))
    assert code != 0
    assert f"{place.recipe}: encoder 'recurrent': the hub is not there" in log
    assert not (tmp_path / "new" / "recipe.json").exists()


def test_a_bench_runs_all_runs_and_reports(done: Done) -> None:
    assert done.code == 0, done.log
    report = json.loads(done.output)
    assert report.keys() == {"report", "failed", "results", "table"}
    assert (report["report"], report["failed"], report["results"]) == (str(done.out / "report.md"), 0, 3)
    scores = {row["method"]: row["f1"] for row in report["table"]}
    assert scores["uniform"] > 0.5
    results = read_results(done.out / "results.jsonl")
    assert [one["method"] for one in results] == ["full", "uniform", "uniform negatives.ratio=1"]
    assert {one["method"]: one["test"]["f1"] for one in results} == scores


def test_whatever_else_is_said_goes_to_standard_error(done: Done) -> None:
    assert len(done.output.splitlines()) == 1
    for text in ("Two methods: checking", "3 runs, 0 of them already done", "3/3  toy 0.3, ", "F1 "):
        assert text in done.log


def test_the_report_has_a_table_and_figures(done: Done) -> None:
    head, _, full, uniform, _ = main_table(done.out)
    assert head == "|  | toy 0.3 |"
    assert full.startswith("| `full` | ")
    assert uniform.startswith("| `uniform` | ")
    assert "Significance is not tested with fewer than 3 seeds." in (done.out / "report.md").read_text()
    assert "![F1 on dev data by epoch](figures/epochs.svg)" in (done.out / "report.md").read_text()
    assert figures(done.out).keys() == {"epochs.svg", "epochs.png"}


def test_a_report_can_be_made_again_to_the_byte(run: Command, done: Done, tmp_path: Path) -> None:
    for name in ("recipe.json", "results.jsonl"):
        shutil.copy(done.out / name, tmp_path)
    code, output, log = run("report", tmp_path)
    assert code == 0, log
    assert output.splitlines()[:5] == main_table(done.out)
    assert (tmp_path / "report.md").read_bytes() == (done.out / "report.md").read_bytes()
    assert figures(tmp_path) == figures(done.out)
    code, output, _ = run("report", tmp_path, "--json", "--no-figures")
    assert (code, json.loads(output)["table"]) == (0, json.loads(done.output)["table"])
    assert "figures" not in (tmp_path / "report.md").read_text()


def test_the_same_command_again_runs_nothing(run: Command, place: Place, done: Done) -> None:
    before = {path: path.read_bytes() for path in done.out.rglob("*") if path.is_file()}
    code, output, log = run("run", *place.options(done.out))
    assert (code, output) == (0, done.output)
    assert "3 runs, 3 of them already done." in log
    assert {path: path.read_bytes() for path in done.out.rglob("*") if path.is_file()} == before


def test_parts_of_a_recipe_run_one_after_the_other_make_the_whole(
    run: Command, place: Place, done: Done, tmp_path: Path
) -> None:
    part = (
        *place.options(tmp_path),
        "--reuse",
        done.out / "results.jsonl",
        "--methods",
        "uniform",
        "--methods",
        "full",
    )
    code, output, log = run(*part, "--datasets", "toy", "--seeds", "1")
    assert code == 0, log
    assert "2 runs, 2 of them already done." in log
    assert [row["method"] for row in json.loads(output)["table"]] == ["full", "uniform", "uniform negatives.ratio=1"]
    code, output, log = run(*place.options(tmp_path), "--methods", "magic")
    assert (code, output) == (2, "")
    assert "--methods: no run has the method magic; there are: full, uniform, uniform negatives.ratio=1" in log
    code, output, _ = run(*place.options(tmp_path), "--methods", "full", "--dry-run")
    assert [one["method"] for one in json.loads(output)] == ["full"]


def test_results_of_another_bench_are_taken(run: Command, place: Place, done: Done, tmp_path: Path) -> None:
    renamed = RECIPE.replace('"full"', '"naive"') + '\n[method.naive]\nmethod = "full"\n'
    (tmp_path / "renamed.toml").write_text(renamed)
    options = ["--data", place.data, "--out", tmp_path / "out", "--reuse", done.out / "results.jsonl"]
    code, output, log = run(tmp_path / "renamed.toml", *options)
    assert code == 0, log
    assert "3 runs, 3 of them already done." in log
    assert output.splitlines()[:5] == [line.replace("full", "naive") for line in main_table(done.out)]
    assert outcomes(tmp_path / "out").keys() == outcomes(done.out).keys()
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "figure"),
    [("span-vectors", 4, "vectors-sample-0.5"), ("uncertainty", 2, "uncertainty-sample-0.5")],
)
def test_a_recipe_of_the_package_runs_on_the_sample(
    run: Command, name: str, count: int, figure: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, said = run(name, "--profile", "quick", "--data", tmp_path / "nowhere", "--out", out, "--workers", 2)
    assert code == 0, said
    assert f"{count}/{count}" in said
    assert len(read_results(out / "results.jsonl")) == count
    assert {path.name for path in (out / "figures").iterdir()} >= {f"{figure}.svg", f"{figure}.png"}


def test_a_bench_that_is_killed_resumes_where_it_was(run: Command, place: Place, done: Done, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def alive(column: str, process: int) -> set[str]:
        """The processes of which this is the parent (``ppid``) or the group (``pgid``)."""
        shown = subprocess.run(["ps", "-eo", f"pid,stat,{column}"], capture_output=True, text=True, check=True).stdout
        rows = (line.split() for line in shown.splitlines())
        return {pid for pid, state, other in rows if other == str(process) and not state.startswith("Z")}

    def is_amid() -> bool:
        """Something is done, and something has begun."""
        begun, finished = (len(list(out.glob(f"runs/*/{name}.json"))) for name in ("run", "result"))
        return 0 < finished < begun

    command = [sys.executable, "-c", "from lacuner.cli import main; main()", "bench", *place.options(out)]
    with (tmp_path / "log.txt").open("w") as log:
        bench = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
    try:
        wait_for(lambda: (out / "runs").exists() or bench.poll() is not None)
        wait_for(lambda: bool(alive("ppid", bench.pid)) or bench.poll() is not None)
        code, output, said = run(*place.options(out), "--profile", "quick")
        assert (code, output) == (1, "")
        assert f"another bench is running in {out} — wait for it, or choose another --out" in said
        assert Title.read(out).profile == "standard"  # as the first one has written it
        wait_for(lambda: is_amid() or bench.poll() is not None)
        assert bench.poll() is None, (tmp_path / "log.txt").read_text()
    finally:
        bench.kill()
        bench.wait()
    wait_for(lambda: not alive("pgid", bench.pid))
    finished = {path: path.read_bytes() for path in out.glob("runs/*/result.json")}
    assert 0 < len(finished) < 3

    code, output, said = run(*place.options(out))
    assert code == 0, said
    assert f"3 runs, {len(finished)} of them already done." in said
    assert {path: path.read_bytes() for path in finished} == finished
    assert json.loads(output)["table"] == json.loads(done.output)["table"]
    assert main_table(out) == main_table(done.out)
    assert outcomes(out) == outcomes(done.out)


def test_a_run_that_fails_is_reported_and_the_rest_continues(
    run: Command, place: Place, toy: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place.data, tmp_path / "data")
    shutil.copytree(place.data / "toy", tmp_path / "data" / "lost")
    toy[:20].write(tmp_path / "data" / "lost" / "test.conll")
    text = RECIPE.replace('["toy"]', '["lost", "toy"]').replace('"full"', '"uniform"')
    (tmp_path / "lost.toml").write_text(text.replace('"uniform", "uniform", "uniform negatives.ratio=1"', '"uniform"'))

    def check_runs(runs: Sequence[Run], paths: PathTemplates) -> None:
        real(runs, paths)
        shutil.rmtree(tmp_path / "data" / "lost")

    real = planning.check_runs
    monkeypatch.setattr(planning, "check_runs", check_runs)
    out = tmp_path / "out"
    code, output, log = run(tmp_path / "lost.toml", "--data", tmp_path / "data", "--out", out, "--workers", 2, "--json")
    assert code == 1, log
    report = json.loads(output)
    assert (report["failed"], report["results"]) == (1, 1)
    assert [row["column"] for row in report["table"]] == ["toy 0.3"]
    (reason,) = [line for line in log.splitlines() if line.startswith("failed: ")]
    assert reason.startswith("failed: lost 0.3, uniform, recurrent, seed 1: labels can be hidden only where")
    assert f" — see {out}/runs/" in reason
    assert "Traceback" not in log
    written = (out / "report.md").read_bytes()
    assert written.decode().endswith(f"## Failed\n\n* {reason.removeprefix('failed: ')}\n")
    assert run("report", out)[0] == 0
    assert (out / "report.md").read_bytes() == written


@pytest.mark.parametrize("name", ["report.md", "results.jsonl"])
def test_files_of_somebody_else_are_not_overwritten(
    run: Command, place: Place, done: Done, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    code, output, log = run(*place.options(tmp_path), "--reuse", done.out / "results.jsonl")
    assert (code, output) == (2, "")
    assert f"{tmp_path}: it contains files not written by lacuner bench ({name}) — choose a new or empty folder" in log
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_the_tables_of_a_page_are_made_again(run: Command, done: Done) -> None:
    page = done.out.parent / "page.md"
    page.write_text("<!-- lacuner bench: done; full; uniform -->\n\n")
    code, output, log = run("tables", page)
    assert (code, output) == (0, ""), log
    assert f"{page}: 1 table updated." in log
    figures = {tuple(cell.strip(" *‡") for cell in line.split("|")[1:3]) for line in main_table(done.out)}
    rows = [tuple(cell.strip(" *‡") for cell in line.split("|")[1:3]) for line in page.read_text().splitlines()[4:6]]
    assert [method for method, _ in rows] == ["`full`", "`uniform`"]
    assert set(rows) < figures


@pytest.fixture
def recipes(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where recipes are looked for; the test runs in another one, and knows where the data is."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "two.toml").write_text(RECIPE)
    (folder / "alone.toml").write_text('title = "One method"\ndata = ["toy"]\nmethods = ["full"]\n')
    monkeypatch.setattr(recipe, "_RECIPES", folder)
    monkeypatch.setenv("LACUNER_DATA", str(place.data))
    monkeypatch.chdir(tmp_path)
    return folder


def test_only_the_data_of_runs_that_are_executed_is_read(
    run: Command, recipes: Path, place: Place, tmp_path: Path
) -> None:
    """Of a recipe with large corpora, a part on a small one begins at once."""
    shutil.copytree(place.data, tmp_path / "data")
    shutil.copytree(place.data / "toy", tmp_path / "data" / "damaged")
    (tmp_path / "data" / "damaged" / "train.gold.conll").write_text("this is no column file\n")
    (recipes / "two.toml").write_text(RECIPE.replace('["toy"]', '["toy", "damaged"]'))
    data = ("two", "--data", tmp_path / "data", "--dry-run")
    assert run(*data)[0] == 2
    code, output, _ = run(*data, "--datasets", "toy")
    assert (code, len(output.splitlines())) == (0, 3)


def test_a_dry_run_says_what_would_be_run(run: Command, recipes: Path, tmp_path: Path) -> None:
    code, output, log = run("two", "--dry-run")
    assert code == 0
    keys, names = zip(*(line.split("  ") for line in output.splitlines()), strict=True)
    assert names == (
        "toy 0.3, full, recurrent, seed 1",
        "toy 0.3, uniform, recurrent, seed 1",
        "toy 0.3, uniform negatives.ratio=1, recurrent, seed 1",
    )
    assert "3 runs" in log
    code, output, _ = run("two", "--dry-run", "--json")
    assert code == 0
    assert [run["key"] for run in json.loads(output)] == list(keys)
    assert [path.name for path in tmp_path.iterdir()] == ["recipes"]


def test_run_need_not_be_said_and_options_may_come_first(run: Command, recipes: Path) -> None:
    orders: Sequence[Sequence[object]] = [
        ("run", "two", "--profile", "quick", "--dry-run"),
        ("two", "--profile", "quick", "--dry-run"),
        ("--profile", "quick", "--dry-run", "two"),
        ("--profile", "quick", recipes / "two.toml", "--dry-run"),
        ("run", "--dry-run", "--profile", "quick", recipes / "two.toml"),
    ]
    answers = [run(*order) for order in orders]
    assert {code for code, _, _ in answers} == {0}
    assert len({output for _, output, _ in answers}) == 1
    assert "sample 0.3, uniform, recurrent, seed 3" in answers[0][1]


def test_results_stand_in_a_folder_with_the_name_of_the_recipe(
    run: Command, recipes: Path, done: Done, tmp_path: Path
) -> None:
    code, _, log = run("two", "--reuse", done.out / "results.jsonl", "--no-figures")
    assert code == 0, log
    assert {path.name for path in (tmp_path / "bench" / "two").iterdir()} == {
        ".lock", "recipe.json", "report.md", "results.jsonl",
    }  # fmt: skip


def test_the_list_of_recipes(run: Command, recipes: Path) -> None:
    assert run("list")[:2] == (0, "alone  One method\ntwo    Two methods\n")
    code, output, _ = run("list", "--json")
    assert code == 0
    assert json.loads(output) == [{"name": "alone", "title": "One method"}, {"name": "two", "title": "Two methods"}]


@pytest.mark.parametrize("command", ["run", "report", "tables", "list"])
def test_every_command_has_help_with_an_example(run: Command, command: str) -> None:
    code, output, _ = run(command, "--help")
    assert code == 0
    assert "Example: lacuner bench" in " ".join(output.split())


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_bench_says_which_commands_there_are(run: Command, option: str) -> None:
    code, output, _ = run(option)
    assert code == 0
    text = " ".join(output.split())
    assert "lacuner bench RECIPE is short for lacuner bench run RECIPE" in text
    assert all(f"│ {command} " in text for command in ("run", "report", "tables", "list"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonesuch"], "there is no recipe nonesuch; give a TOML file, or one of: alone, two"),
        (["run", "nonesuch"], "there is no recipe nonesuch"),
        (["nonesuch.toml"], "nonesuch.toml: there is no such file — check the path"),
        (
            ["two", "--profile", "fast"],
            "two.toml: there is no profile fast; there are: quick, standard, transformer, full",
        ),
        (["two", "--prifile", "quick"], "No such option: --prifile"),
        (["two", "alone"], "alone"),
        (["two", "--workers", "0"], "--workers"),
        (["typo.toml"], "typo.toml: there is no setting sedes (did you mean seeds?); there are: about, baseline"),
        (["typo.toml", "--dry-run", "--json"], "typo.toml: there is no setting sedes"),
        (["broken.toml"], "broken.toml: not TOML"),
        (["method.toml"], "method.toml: method 'fulll' with encoder 'recurrent': there is no method 'fulll'"),
        (["two", "--data", "recipes"], "dataset toy: there is no folder"),
        (["two", "--reuse", "nothing.jsonl"], "nothing.jsonl: "),
        (["two", "--out", "typo.toml"], "typo.toml: File exists — choose another folder with --out"),
        (["report", "recipes"], "recipes/recipe.json: "),
        (["report"], "Missing argument 'DIR'"),
    ],
)
def test_errors_are_one_sentence_without_a_traceback(
    run: Command, recipes: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "typo.toml").write_text("sedes = [3]\n" + RECIPE)
    (tmp_path / "broken.toml").write_text("title = Two methods")
    (tmp_path / "method.toml").write_text(RECIPE.replace('"full"', '"fulll"'))
    code, output, log = run(*arguments)
    assert code == 2
    assert message in " ".join(log.replace("│", " ").split())
    assert "Traceback" not in log
    assert not output


def test_what_figures_need_is_looked_for_before_anything_is_run(
    run: Command, recipes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, log = run("two")
    assert code == 2
    assert "pip install matplotlib, or give --no-figures" in log
    assert not (tmp_path / "bench").exists()


def test_a_terminal_shows_the_table_so_far_and_what_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(bench_progress, "errors", Console(file=screen, force_terminal=True, width=100))
    content = build_recipe(
        {"title": "Both", "data": ["toy"], "methods": ["mine", "uniform"], "seeds": [1], "hidden": [0.3],
         "method": {"mine": {"method": "full"}}}, "standard",
    )  # fmt: skip
    mine, uniform = planning.plan(content, PathTemplates(place.data))
    with BenchProgress(Title("both", "standard", content)) as progress:
        reused = mine.as_dict() | {"method": "as another recipe calls it", "test": {"f1": 0.25}}
        progress.begun([mine, uniform], {mine.key: reused})
        progress.started(uniform)
        progress.progress(uniform, "epoch 3 of 9")
        assert progress.count == "1/2"
        Console(file=screen, force_terminal=True, width=100).print(progress._picture())
        progress.finished(uniform, uniform.as_dict() | {"test": {"f1": 0.75}, "seconds": 12.0})
        Console(file=screen, force_terminal=True, width=100).print(progress._picture())
    shown = screen.getvalue()
    assert "toy 0.3, uniform, recurrent, seed 1: epoch 3 of 9" in shown
    assert all(text in shown for text in ("Both", "mine", "25.0", "75.0", "2/2 runs, 0 runs left"))
    assert "another recipe" not in shown


def test_columns_that_do_not_fit_stand_below_each_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [number / 20 for number in range(1, 13)]
    content = build_recipe(
        {"title": "Many", "data": ["toy"], "methods": ["full", "uniform"], "seeds": [1], "hidden": shares}, "standard"
    )
    planned = planning.plan(content, PathTemplates(place.data))
    progress = BenchProgress(Title("many", "standard", content))
    progress.begun(planned, {run.key: run.as_dict() | {"test": {"f1": run.hidden}} for run in planned})
    screen = io.StringIO()
    monkeypatch.setattr(bench_progress, "errors", Console(file=screen, width=60))
    bench_progress.errors.print(progress._picture())
    words = screen.getvalue().split()
    assert words.count("uniform") > 1
    for share in shares:
        assert f"{share:g}" in words  # in a head
        assert words.count(f"{100 * share:.1f}") == 2
    assert all(len(line) <= 60 for line in screen.getvalue().splitlines())


def test_brackets_in_names_are_shown_as_they_are(place: Place) -> None:
    tables = {"a[/b]": {"method": "full"}, "[b]": {"method": "uniform"}}
    content = build_recipe(
        {"title": "[x]", "data": ["toy"], "methods": [*tables], "seeds": [1], "method": tables}, "standard"
    )
    planned = planning.plan(content, PathTemplates(place.data))
    progress = BenchProgress(Title("names", "standard", content))
    progress.begun(planned, {run.key: run.as_dict() | {"test": {"f1": 0.5}} for run in planned})
    screen = io.StringIO()
    Console(file=screen, width=100).print(progress._picture())
    assert all(name in screen.getvalue() for name in ("[x]", "a[/b]", "[b]"))
