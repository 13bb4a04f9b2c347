"""What every verb says when nothing can be written, and what it leaves."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults import always_failing, failing
from handmade_audit import small_audit
from lacuner.audit.audit import claimed
from lacuner.errors import LacunerError
from lacuner.training.checkpoints import RunFolder

QUICK = [
    "--epochs", "1", "--set", "encoder.vectors=none", "--set", "encoder.hidden=8", "--set", "head=product",
]  # fmt: skip
VERBS = {
    "mask": ["mask", "train.conll", "--probability", "0.5", "--out", "out.conll"],
    "mask hidden": ["mask", "train.conll", "--probability", "0.5", "--out", "out.conll", "--hidden", "out.jsonl"],
    "predict": ["predict", "MODEL", "train.conll", "--out", "out.jsonl"],
    "annotate": ["annotate", "train.conll", "-d", "names.tsv", "--out", "out.jsonl", "--workers", "1"],
    "evaluate": ["evaluate", "MODEL", "dev.jsonl", "--errors", "out.jsonl", "--min-score", "1"],
    "review": ["review", "audit", "--export", "out.jsonl"],
    "train": ["train", "train.conll", "--out", "out", *QUICK],
    "audit": ["audit", "train.conll", "--out", "out", "--folds", "2", *QUICK],
}


@pytest.fixture
def place(files: Path, model_folder: Path, monkeypatch) -> Path:
    (files / "MODEL").symlink_to(model_folder)
    (files / "names.tsv").write_text("Turin\tLOC\n")
    small_audit(files / "audit")
    monkeypatch.chdir(files)
    return files


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", ["write", "fsync", "create"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_one_sentence_in_every_verb(run, place, verb, what, number):
    before = {path.name for path in place.iterdir()}
    with always_failing(what, lambda: OSError(number, os.strerror(number))):
        code, _, log = run(*VERBS[verb])
    assert code == 1, log
    (said,) = [line for line in log.splitlines() if os.strerror(number) in line]
    assert " — " in said
    assert "bug" not in log
    assert "Traceback" not in log
    left = {path.name for path in place.iterdir()} - before
    assert not {name for name in left if not name.startswith("out")}, "temporary files"
    assert not (place / "out.jsonl").exists()
    assert not (place / "out.conll").exists() or verb == "mask hidden"


def test_memory_that_runs_out_is_one_sentence(run, place):
    with failing("write", 1, MemoryError):
        code, _, log = run(*VERBS["mask"])
    assert code == 1
    assert "memory ran out — close other programs" in log
    assert not list(place.glob(".*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
@pytest.mark.parametrize("arguments", [["methods"], ["mask", "train.conll", "--probability", "0.5", "--out", "-"]])
def test_output_to_a_full_disk_is_one_sentence(place, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lacuner", *arguments], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert "standard output: No space left on device — make room, or choose another disk" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_device_stays_what_it_is(run, place):
    assert run("mask", "train.conll", "--probability", "0.5", "--out", "/dev/null", "--format", "conll")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_two_audits_into_one_folder_exclude_each_other(run, place):
    with claimed(place / "out"):
        code, _, log = run(*VERBS["audit"])
    assert code == 1
    assert "another audit is writing to out — wait for it, or choose another --out" in log


def test_two_training_runs_into_one_folder_exclude_each_other(run, place):
    with RunFolder(place / "out.training", "key").claimed():
        code, _, log = run(*VERBS["train"])
    assert code == 1
    assert "another run is training in" in log


def test_an_audit_that_cannot_be_written_is_said_before_the_first_epoch(run, place, monkeypatch):
    def never(*arguments, **keywords):
        raise AssertionError("it has begun to train")

    monkeypatch.setattr("lacuner.recognizer.Recognizer.train", never)
    (place / "file").write_text("")
    code, _, log = run("audit", "train.conll", "--out", "file/audit", "--folds", "2", *QUICK)
    assert code == 1
    assert "Not a directory" in log
    with failing("create", 1), pytest.raises(LacunerError, match="No space left"), claimed(place / "out"):
        pytest.fail("it was claimed")


def test_a_folder_that_became_full_or_read_only_is_not_claimed_for_a_second_audit(place):
    with claimed(place / "out"):
        pass
    with (
        always_failing("create", lambda: OSError(errno.EROFS, os.strerror(errno.EROFS))),
        pytest.raises(LacunerError, match="Read-only file system"),
        claimed(place / "out"),
    ):
        pytest.fail("it was claimed")


def test_what_a_killed_annotate_leaves_is_removed_by_the_next(run, place):
    command = [
        sys.executable,
        "-m",
        "lacuner",
        "annotate",
        "-",
        "-d",
        "names.tsv",
        "--out",
        "out.jsonl",
        "--workers",
        "2",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not list(place.glob(".out.jsonl.*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert len(list(place.glob(".out.jsonl.*"))) == 1
    time.sleep(0.5)  # workers notice that their parent is gone
    assert run(*VERBS["annotate"])[0] == 0
    assert not list(place.glob(".out.jsonl.*"))
