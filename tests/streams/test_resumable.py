import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from lacuner.errors import ConfigError, DataError, LacunerError, ModelError
from lacuner.storage import WriteError
from lacuner.streams.engine import LocalEngine
from lacuner.streams.folders import LocalFolder, folder_at
from lacuner.streams.resumable import MANIFEST, Part, Plan, conclude, map_to_files, merge_parts
from lacuner.streams.shards import InputFile, Shard, read_shard

LINES = [f"line {number:02}" for number in range(40)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def shouting(log: Path) -> Callable[[Sequence[Shard], TextIO], int]:
    return partial(_shout, log)


def _shout(log: Path, shards: Sequence[Shard], file: TextIO) -> int:
    count = 0
    for shard in shards:
        with log.open("a") as worked_on:
            worked_on.write(f"{shard.path.name} {shard.begin}\n")  # type: ignore[union-attr]
        for line in read_shard(shard):
            if line == "poison":
                raise DataError("it is poison", "do not drink it", shard.path)
            file.write(line.upper() + "\n")
            count += 1
    return count


def plan_of(*paths: Path, size: int = 32, **made_with: object) -> Plan:
    return Plan([InputFile.of(path) for path in paths], made_with, size, suffix=".txt")


def run(text: Path, folder: Path, workers: int = 1, **made_with: object) -> list[Part]:
    start = partial(shouting, text.parent / "log.txt")
    return list(map_to_files(LocalEngine(workers), start, plan_of(text, **made_with), LocalFolder(folder)))


def content(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("part-*.txt")))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_shard_becomes_a_file(text: Path, tmp_path: Path, workers: int) -> None:
    parts = run(text, tmp_path / "out", workers)
    assert content(tmp_path / "out") == text.read_text().upper()
    assert sorted(part.name for part in parts) == [f"part-{number:05}.txt" for number in range(10)]
    assert [(part.summary, part.reused) for part in parts] == [(4, False)] * 10
    others = {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith("part-")}
    assert others == {MANIFEST, "_summaries", ".lock"}
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["complete"]


def test_a_second_run_makes_only_what_is_missing(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out")
    (tmp_path / "out" / "part-00003.txt").unlink()
    (tmp_path / "log.txt").unlink()
    parts = run(text, tmp_path / "out")
    assert (tmp_path / "log.txt").read_text() == "text.txt 96\n"
    assert {part.name for part in parts if not part.reused} == {"part-00003.txt"}
    assert sum(part.summary for part in parts) == 40
    assert content(tmp_path / "out") == text.read_text().upper()


def test_parts_are_joined_in_order_when_all_are_there(text: Path, tmp_path: Path) -> None:
    plan, folder, out = plan_of(text), folder_at(tmp_path / "out"), io.BytesIO()
    run(text, tmp_path / "out", 2)
    conclude(plan, folder, {"lines": 40})
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert (manifest["parts"], manifest["counts"]) == (10, {"lines": 40})
    merge_parts(plan, folder, out)
    assert out.getvalue().decode() == text.read_text().upper()
    (tmp_path / "out" / "part-00009.txt").unlink()
    with pytest.raises(LacunerError, match="out does not hold the results of all shards yet — run the command again"):
        merge_parts(plan, folder, io.BytesIO())


def test_small_files_are_worked_on_together_and_large_ones_alone(text: Path, tmp_path: Path) -> None:
    small = [tmp_path / f"small-{number:03}.txt" for number in range(30)]
    for path in small:
        path.write_text("abc\n")
    paths = [*small[:20], text, *small[20:]]
    plan = plan_of(*paths, size=40)
    start = partial(shouting, tmp_path / "log.txt")
    parts = list(map_to_files(LocalEngine(), start, plan, LocalFolder(tmp_path / "out")))
    names = [part.name for part in parts]
    assert names[:3] == ["part-00000-00009.txt", "part-00010-00019.txt", "part-00020.txt"]
    assert names[-1] == "part-00028-00037.txt"
    assert content(tmp_path / "out") == "ABC\n" * 20 + text.read_text().upper() + "ABC\n" * 10


@pytest.mark.parametrize("workers", [1, 2])
def test_a_poison_file_among_small_ones_is_found_and_the_others_are_done(tmp_path: Path, workers: int) -> None:
    paths = [tmp_path / f"{number:02}.txt" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_text("poison\n" if number == 13 else f"{number}\n")
    plan, start = plan_of(*paths, size=10**6), partial(shouting, tmp_path / "log.txt")

    def work() -> list[Part]:
        return list(map_to_files(LocalEngine(workers), start, plan, LocalFolder(tmp_path / "out")))

    (failed,) = [part for part in work() if part.error is not None]
    assert str(failed.batch) == f"{paths[13]}, bytes 0 to 7"
    assert str(failed.error) == f"{paths[13]}: it is poison — do not drink it"
    assert content(tmp_path / "out") == "".join(f"{number}\n" for number in range(20) if number != 13)
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert not manifest["complete"]
    assert manifest["failed"] == [{"shard": str(failed.batch), "reason": str(failed.error)}]
    (tmp_path / "log.txt").unlink()
    work()  # what is done is not done again, in whichever parts it is
    assert set((tmp_path / "log.txt").read_text().splitlines()) == {"13.txt 0"}


def test_a_folder_of_another_run_is_refused(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out", model="a", nested=False)
    with pytest.raises(ConfigError, match=r"out holds the results of another run, with other model, nested — choose"):
        run(text, tmp_path / "out", model="b", nested=True)
    text.write_text("something else\n")
    with pytest.raises(ConfigError, match=r"with other inputs \(.*text\.txt has changed since then\) — choose"):
        run(text, tmp_path / "out", model="a", nested=False)


def test_a_folder_in_which_nothing_was_made_can_have_another_run(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ModelError, match="there is no such model"):
        list(map_to_files(LocalEngine(), broken, plan_of(text, model="a"), LocalFolder(out)))
    assert json.loads((out / MANIFEST).read_text())["model"] == "a"
    assert len(run(text, out, model="b")) == 10
    assert json.loads((out / MANIFEST).read_text())["model"] == "b"
    other = tmp_path / "other"
    other.mkdir()
    (other / MANIFEST).write_text('{"of": "somebody else"}')
    with pytest.raises(ConfigError, match="holds the results of another run"):
        run(text, other)
    assert (other / MANIFEST).read_text() == '{"of": "somebody else"}'


def broken() -> Callable[[Sequence[Shard], TextIO], int]:
    raise ModelError("there is no such model")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_poison_file_starts_no_more_workers(tmp_path: Path, workers: int) -> None:
    paths = [tmp_path / f"{number:02}.txt" for number in range(64)]
    for number, path in enumerate(paths):
        path.write_text("poison\n" if number == 13 else f"{number}\n")

    def start() -> Callable[[Sequence[Shard], TextIO], int]:
        with (tmp_path / "starts.txt").open("a") as file:
            file.write("started\n")
        return shouting(tmp_path / "log.txt")

    parts = list(
        map_to_files(LocalEngine(workers, "fork"), start, plan_of(*paths, size=10**6), LocalFolder(tmp_path / "out"))
    )
    assert [str(part.batch) for part in parts if part.error is not None] == [f"{paths[13]}, bytes 0 to 7"]
    assert sum(len(part.batch.shards) for part in parts) == 64
    assert len((tmp_path / "starts.txt").read_text().splitlines()) <= workers


class CarefulEngine(LocalEngine):
    """Reads all items before it begins, as an engine of another package may."""

    def map_each(self, start, items):  # type: ignore[no-untyped-def]
        return super().map_each(start, list(items))


def test_an_engine_that_reads_its_items_once_finds_the_poison_too(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:02}.txt" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_text("poison\n" if number == 13 else f"{number}\n")
    start = partial(shouting, tmp_path / "log.txt")
    parts = list(map_to_files(CarefulEngine(), start, plan_of(*paths, size=10**6), LocalFolder(tmp_path / "out")))
    assert [str(part.batch) for part in parts if part.error is not None] == [f"{paths[13]}, bytes 0 to 7"]
    assert sum(len(part.batch.shards) for part in parts) == 20


def test_a_folder_with_something_else_is_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="out is not empty, and holds no results of this command"):
        run(text, tmp_path / "out")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "precious"


def test_a_damaged_manifest_is_said(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text("{")
    with pytest.raises(ConfigError, match=r"_manifest\.json is damaged"):
        run(text, tmp_path / "out")


def test_a_file_in_the_way_is_said(text: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="out: File exists — choose another folder"):
        run(text, tmp_path / "out")


def test_two_runs_do_not_write_into_one_folder(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.streams.folders._PATIENCE", 0.3)
    first = map_to_files(
        LocalEngine(), partial(shouting, tmp_path / "log.txt"), plan_of(text), LocalFolder(tmp_path / "out")
    )
    next(first)
    with pytest.raises(
        LacunerError, match=r"another run is writing to .*out — wait for it to finish, or choose another"
    ):
        run(text, tmp_path / "out")
    first.close()
    monkeypatch.setattr("lacuner.streams.folders._PATIENCE", 30)
    held = map_to_files(
        LocalEngine(), partial(shouting, tmp_path / "log.txt"), plan_of(text), LocalFolder(tmp_path / "out")
    )
    next(held)
    threading.Timer(0.5, held.close).start()  # as a killed process gives its lock back a little later
    assert len(run(text, tmp_path / "out")) == 10


def test_work_that_fails_leaves_no_half_of_a_file(text: Path, tmp_path: Path) -> None:
    parts = list(map_to_files(LocalEngine(), failing, plan_of(text), LocalFolder(tmp_path / "out")))
    (failed,) = [part for part in parts if part.error is not None]
    assert (str(failed.batch), str(failed.error)) == (f"{text}, bytes 64 to 96", "third")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"part-{number:05}.txt" for number in range(10) if number != 2} | {MANIFEST, "_summaries", ".lock"}
    assert len(list((tmp_path / "out" / "_summaries").iterdir())) == 9


def failing() -> Callable[[Sequence[Shard], TextIO], int]:
    return _fail_at_the_third


def _fail_at_the_third(shards: Sequence[Shard], file: TextIO) -> int:
    file.write("begun")
    if shards[0].begin == 64:
        raise ValueError("third")
    return 0


def test_a_full_disk_ends_it_at_once(text: Path, tmp_path: Path) -> None:
    made = []

    def start() -> Callable[[Sequence[Shard], TextIO], int]:
        def work(shards: Sequence[Shard], file: TextIO) -> int:
            made.append(shards)
            raise WriteError(OSError(28, "No space left on device"), "part")

        return work

    with pytest.raises(WriteError, match="No space left on device"):
        list(map_to_files(LocalEngine(), start, plan_of(text), LocalFolder(tmp_path / "out")))
    assert len(made) == 1


def test_results_can_be_in_a_store_of_objects() -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe("/in/a.txt", "".join(f"{line}\n" for line in LINES).encode())
    try:
        plan = Plan([InputFile.of("memory://in/a.txt")], {}, 32, suffix=".txt")
        folder, out = folder_at("memory://out/"), io.BytesIO()
        store.pipe("/out/.part-00001.txt.0123456789abcdef.lacuner", b"left behind")
        store.pipe("/out/_manifest.json", json.dumps(plan.fingerprint()).encode())
        parts = list(map_to_files(LocalEngine(), upper, plan, folder))
        assert [part.summary for part in parts] == [4] * 10
        merge_parts(plan, folder, out)
        assert out.getvalue().decode().splitlines() == [line.upper() for line in LINES]
        assert not [name for name in folder.names() if name.startswith(".")]
        assert all(part.reused for part in map_to_files(LocalEngine(), upper, plan, folder))
        store.pipe("/in/a.txt", b"other\n")
        with pytest.raises(ConfigError, match="with other inputs"):
            list(
                map_to_files(
                    LocalEngine(), upper, Plan([InputFile.of("memory://in/a.txt")], {}, 32, suffix=".txt"), folder
                )
            )
    finally:
        store.store.clear()


def upper() -> Callable[[Sequence[Shard], TextIO], int]:
    return _upper


def _upper(shards: Sequence[Shard], file: TextIO) -> int:
    lines = [line for shard in shards for line in read_shard(shard)]
    file.writelines(f"{line.upper()}\n" for line in lines)
    return len(lines)


SCRIPT = """
import sys, time
from functools import partial
from lacuner.streams.engine import LocalEngine
from lacuner.streams.folders import folder_at
from lacuner.streams.resumable import Plan, map_to_files
from lacuner.streams.shards import InputFile, read_shard

def start(pause, log):
    def work(shards, file):
        (shard,) = shards
        for number, line in enumerate(read_shard(shard)):
            file.write(line.upper() + "\\n")
            file.flush()
            time.sleep(pause if number == 2 else 0)
        with open(log, "a") as worked_on:
            worked_on.write(f"{shard.begin}\\n")
        return 4
    return work

if __name__ == "__main__":
    text, out, log, pause = sys.argv[1:]
    plan = Plan([InputFile.of(text)], {}, 32)
    for part in map_to_files(LocalEngine(2, "fork"), partial(start, float(pause), log), plan, folder_at(out)):
        print(part.name, part.reused, part.summary, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_what_was_done_before_a_kill_is_not_done_again(text: Path, tmp_path: Path) -> None:
    script, out, log = tmp_path / "script.py", tmp_path / "out", tmp_path / "log.txt"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(text), str(out), str(log)]
    with subprocess.Popen([*command, "0.4"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30  # workers notice that their parent is gone
    while not list(out.glob(".part-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 3 <= len(before) < 10
    assert all(len((out / name).read_text().splitlines()) == 4 for name in before)

    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted(name for name, _, _ in lines) == [f"part-{number:05}.jsonl" for number in range(10)]
    assert {name for name, reused, _ in lines if reused == "True"} == before.keys()
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}.items() >= before.items()
    assert "".join(path.read_text() for path in sorted(out.glob("part-*"))) == text.read_text().upper()
    assert list(out.glob(".part-*")) == []
    worked_on = log.read_text().splitlines()
    assert len(worked_on) - len(set(worked_on)) <= 2  # at most what was finished, but not yet renamed, by two workers
    assert json.loads((out / MANIFEST).read_text())["inputs"][0]["size"] == text.stat().st_size
