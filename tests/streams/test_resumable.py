import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from lacuner.errors import ConfigError
from lacuner.streams.engine import LocalEngine
from lacuner.streams.resumable import FINGERPRINT, Part, map_to_files
from lacuner.streams.shards import Shard, cut_into_shards, read_shard

LINES = [f"line {number:02}" for number in range(40)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def shouting(log: Path) -> Callable[[Shard, TextIO], int]:
    return partial(_shout, log)


def _shout(log: Path, shard: Shard, file: TextIO) -> int:
    with log.open("a") as worked_on:
        worked_on.write(f"{shard.begin}\n")
    count = 0
    for line in read_shard(shard):
        file.write(line.upper() + "\n")
        count += 1
    return count


def run(text: Path, folder: Path, workers: int = 1, **fingerprint: object) -> list[Part]:
    start = partial(shouting, text.parent / "log.txt")
    shards = cut_into_shards(text, 32)
    return list(map_to_files(LocalEngine(workers), start, shards, folder, fingerprint, ".txt"))


def content(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("part-*.txt")))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_shard_becomes_a_file(text: Path, tmp_path: Path, workers: int) -> None:
    parts = run(text, tmp_path / "out", workers)
    assert content(tmp_path / "out") == text.read_text().upper()
    assert [part.path.name for part in parts] == [f"part-{number:05}.txt" for number in range(10)]
    assert [(part.summary, part.reused) for part in parts] == [(4, False)] * 10
    assert {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith("part-")} == {
        FINGERPRINT,
        "summaries",
    }


def test_a_second_run_makes_only_what_is_missing(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out")
    (tmp_path / "out" / "part-00003.txt").unlink()
    (tmp_path / "log.txt").unlink()
    parts = run(text, tmp_path / "out")
    assert (tmp_path / "log.txt").read_text() == "96\n"
    assert [part.reused for part in parts] == [number != 3 for number in range(10)]
    assert sum(part.summary for part in parts) == 40
    assert content(tmp_path / "out") == text.read_text().upper()


def test_a_folder_of_another_run_is_refused(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out", model="a", nested=False)
    with pytest.raises(ConfigError, match=r"out holds the results of another run, with other model, nested — choose"):
        run(text, tmp_path / "out", model="b", nested=True)
    text.write_text("something else\n")
    with pytest.raises(ConfigError, match="with other shards — choose"):
        run(text, tmp_path / "out", model="a", nested=False)


def test_a_folder_with_something_else_is_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="out is not empty, and holds no results of this command"):
        run(text, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_damaged_fingerprint_is_said(text: Path, tmp_path: Path) -> None:
    run(text, tmp_path / "out")
    (tmp_path / "out" / FINGERPRINT).write_text("{")
    with pytest.raises(ConfigError, match=r"fingerprint\.json is damaged"):
        run(text, tmp_path / "out")


def test_a_file_in_the_way_is_said(text: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="out: File exists — choose another folder"):
        run(text, tmp_path / "out")


def test_work_that_fails_leaves_no_half_of_a_file(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="third") as raised:
        list(map_to_files(LocalEngine(), failing, cut_into_shards(text, 32), tmp_path / "out", {}))
    assert raised.value.__notes__ == [f"while working on {text}, bytes 64 to 96"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"part-00000.jsonl", "part-00001.jsonl", FINGERPRINT, "summaries"}


def failing() -> Callable[[Shard, TextIO], int]:
    return _fail_at_the_third


def _fail_at_the_third(shard: Shard, file: TextIO) -> int:
    file.write("begun")
    if shard.begin == 64:
        raise ValueError("third")
    return 0


SCRIPT = """
import sys, time
from functools import partial
from pathlib import Path
from lacuner.streams.engine import LocalEngine
from lacuner.streams.resumable import map_to_files
from lacuner.streams.shards import cut_into_shards, read_shard

def start(pause, log):
    def work(shard, file):
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
    shards = cut_into_shards(text, 32)
    for part in map_to_files(LocalEngine(2, "fork"), partial(start, float(pause), log), shards, Path(out), {}):
        print(part.path.name, part.reused, part.summary, flush=True)
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
    assert [name for name, _, _ in lines] == [f"part-{number:05}.jsonl" for number in range(10)]
    assert {name for name, reused, _ in lines if reused == "True"} == before.keys()
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}.items() >= before.items()
    assert "".join(path.read_text() for path in sorted(out.glob("part-*"))) == text.read_text().upper()
    assert list(out.glob(".part-*")) == []
    worked_on = log.read_text().splitlines()
    assert len(worked_on) - len(set(worked_on)) <= 2  # at most what was finished, but not yet renamed, by two workers
    assert json.loads((out / FINGERPRINT).read_text())["shards"][0]["bytes"] == text.stat().st_size
