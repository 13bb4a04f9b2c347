import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults import CALLS, fail_everywhere
from lacuner import Corpus, storage
from lacuner.errors import LacunerError
from lacuner.storage import WriteError, new_file, new_folder, recover_folder, remove_leftovers, reporting, try_writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, content: bytes) -> None:
    with new_file(path) as file:
        file.write(content)


def fill(path: Path, content: str) -> None:
    with new_folder(path) as folder, reporting(path):
        (folder / "one").write_text(content)
        (folder / "two").mkdir()
        (folder / "two" / "three").write_text(content)


def read(folder: Path) -> set[str]:
    return {(folder / "one").read_text(), (folder / "two" / "three").read_text()}


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path):
    write(tmp_path / "a.txt", b"old")
    with new_file(tmp_path / "a.txt") as file:
        file.write(b"new" * 100_000)
        file.flush()
        assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert (tmp_path / "a.txt").read_bytes() == b"new" * 100_000
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("error", [None, MemoryError])
def test_whatever_fails_a_file_is_the_old_one_or_the_new_one(tmp_path, what, error):
    path = tmp_path / "a.txt"
    write(path, b"old")

    def check():
        assert path.read_bytes() in (b"old", b"new")
        remove_leftovers(path)
        assert names(tmp_path) == ["a.txt"]

    failures = fail_everywhere(what, lambda: write(path, b"new"), check, *([error] if error else []))
    assert failures >= 1
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "renamed twice"])
@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_a_folder_is_the_old_one_or_the_new_one(tmp_path, monkeypatch, what, exchange):
    if not exchange:
        monkeypatch.setattr(storage, "_exchange", lambda one, other: False)
    path = tmp_path / "m"
    fill(path, "old")

    def check():
        recover_folder(path)
        assert read(path) in ({"old"}, {"new"})
        fill(path, "old")
        assert names(tmp_path) == ["m"], "the next run cleans up"

    fail_everywhere(what, lambda: fill(path, "new"), check)
    assert read(path) == {"new"}
    assert names(tmp_path) == ["m"]


def test_files_and_names_are_brought_to_the_disk_before_and_after_the_rename(tmp_path, monkeypatch):
    """The order of calls decides what a power cut leaves."""
    done = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor):
        done.append(os.readlink(f"/proc/self/fd/{descriptor}") if sys.platform == "linux" else "")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, lambda *paths: (done.append("renamed"), rename(*paths)))
    write(tmp_path / "a.txt", b"new")
    assert [Path(each).name.partition(".lacuner")[0][:6] for each in done[:1]] == [".a.txt"]
    assert done[1:] == ["renamed", str(tmp_path)]
    done.clear()
    fill(tmp_path / "m", "new")
    assert {Path(each).name for each in done[:-2]} >= {"one", "two", "three"}
    assert done[-2:] == ["renamed", str(tmp_path)]


@pytest.fixture
def masked(request):
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


@pytest.mark.parametrize("masked", [0o022, 0o027, 0o002], indirect=True)
def test_what_is_written_may_be_read_by_whom_the_user_lets_read_it(tmp_path, masked):
    """Whatever a library that wrote a file made of its permissions."""
    write(tmp_path / "a.txt", b"new")
    with new_folder(tmp_path / "m") as folder:
        (folder / "in").mkdir()
        for name in ("one", "in/two"):
            (folder / name).touch(0o600)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(("a.txt", "one", "two"), masked)
    assert (tmp_path / "m").stat().st_mode & 0o666 == masked


def test_there_is_no_moment_without_the_folder(tmp_path, monkeypatch):
    if not storage._exchange(*(_made(tmp_path / name) for name in ("x", "y"))):
        pytest.skip("this system cannot exchange folders")
    fill(tmp_path / "m", "old")
    rename = os.rename

    def watched(one, other):
        assert Path(one) != tmp_path / "m"
        rename(one, other)

    monkeypatch.setattr(os, "rename", watched)
    fill(tmp_path / "m", "new")
    assert read(tmp_path / "m") == {"new"}


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_folder_that_lost_its_name_in_that_moment_gets_it_back(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_exchange", lambda one, other: False)
    fill(tmp_path / "m", "old")
    real, calls = os.rename, []

    def killed(one, other):
        calls.append(one)
        if len(calls) > 1:
            raise SystemExit  # and nothing is put back
        real(one, other)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(SystemExit):
        fill(tmp_path / "m", "new")
    monkeypatch.undo()
    assert not (tmp_path / "m").exists()
    recover_folder(tmp_path / "m")
    assert read(tmp_path / "m") == {"old"}


WRITE = """
import sys, time
from lacuner.storage import new_file, new_folder
with new_file(sys.argv[1] + "/a.txt") as file, new_folder(sys.argv[1] + "/m") as folder:
    file.write(b"half")
    file.flush()
    (folder / "half").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_is_being_written_is_not(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WRITE, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            write(tmp_path / "a.txt", b"whole")
            fill(tmp_path / "m", "whole")
            assert len(names(tmp_path)) == 4
        finally:
            process.send_signal(signal.SIGKILL)
    assert len(names(tmp_path)) == 4
    write(tmp_path / "a.txt", b"whole")
    fill(tmp_path / "m", "whole")
    assert names(tmp_path) == ["a.txt", "m"]


def test_files_that_only_look_like_leftovers_stay(tmp_path):
    for name in (".a.txt.swp", ".a.txt.lacuner", ".a.txt.0123456789abcdef", ".b.txt.0123456789abcdef.lacuner"):
        (tmp_path / name).write_text("years of work")
    before = names(tmp_path)
    write(tmp_path / "a.txt", b"new")
    assert names(tmp_path) == sorted([*before, "a.txt"])


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    fill(tmp_path / "disk" / "m", "old")
    write(tmp_path / "disk" / "a.txt", b"old")
    for name in ("m", "a.txt"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    fill(tmp_path / "m", "new")
    write(tmp_path / "a.txt", b"new")
    assert (tmp_path / "m").is_symlink()
    assert (tmp_path / "a.txt").is_symlink()
    assert read(tmp_path / "disk" / "m") == {"new"}
    assert (tmp_path / "disk" / "a.txt").read_bytes() == b"new"
    assert names(tmp_path / "disk") == ["a.txt", "m"]


def test_names_of_the_greatest_length_can_be_written(tmp_path):
    name = "ä" * 127
    write(tmp_path / name, b"new")
    assert names(tmp_path) == [name]


def test_errors_of_other_files_are_not_blamed_on_the_one_that_is_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent") as raised, new_file(tmp_path / "a.txt"):
        (tmp_path / "absent").read_text()
    assert not isinstance(raised.value, LacunerError)
    assert names(tmp_path) == []


def test_the_reason_and_a_remedy_are_said_and_survive_the_way_out_of_a_worker(tmp_path):
    error = WriteError(OSError(errno.ENOSPC, "No space left on device"), "a.txt")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each) == "a.txt: No space left on device — make room, or choose another disk"
        assert each.errno == errno.ENOSPC


def test_the_folder_in_which_one_is_cannot_be_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WriteError, match="cannot be replaced — choose a folder in it"):
        try_writing(".", folder=True)
    try_writing("m", folder=True)
    try_writing("a.txt")
    assert names(tmp_path) == []


@pytest.mark.parametrize("ending", ["jsonl", "conll", "conll.gz"])
@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_a_corpus_is_the_old_one_or_the_new_one(toy, tmp_path, what, ending):
    path = tmp_path / f"corpus.{ending}"
    toy[:3].write(path)

    def check():
        assert len(Corpus.read(path)) in (3, len(toy))
        remove_leftovers(path)
        assert names(tmp_path) == [path.name]

    assert fail_everywhere(what, lambda: toy.write(path), check) >= 1
    assert len(Corpus.read(path)) == len(toy)


REPEAT = """
import sys
from lacuner.storage import new_folder
for number in range(10_000):
    with new_folder(sys.argv[1]) as folder:
        for name in ("one", "other"):
            (folder / name).write_text(str(number))
    print(number, flush=True)
"""


def test_a_folder_is_whole_after_kills_at_any_moment(tmp_path):
    for pause in (0.0, 0.003, 0.007, 0.011, 0.02):
        with subprocess.Popen([sys.executable, "-c", REPEAT, tmp_path / "m"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
        assert (tmp_path / "m" / "one").read_text() == (tmp_path / "m" / "other").read_text()
    fill(tmp_path / "m", "new")
    assert names(tmp_path) == ["m"]
