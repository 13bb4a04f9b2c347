import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from failing import fail_in
from several import losses, sentences_searched, train_all, train_together

import lacuner
from lacuner import Corpus, Recognizer
from lacuner.encoders.processes import ALONE, Processes, divide_rows
from lacuner.errors import ConfigError, ProcessLostError, TrainingError
from lacuner.sample import read_sample
from lacuner.training.launch import run_together
from watching import StopAfter

SOURCE = Path(lacuner.__file__).parents[1]
TINY = {"encoder.vectors": "none", "encoder.word_size": 8, "encoder.hidden": 8, "training.batch_tokens": 96}
SET = [option for key, value in TINY.items() for option in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def train() -> Corpus:
    """A few sentences, every fourth one complete."""
    sentences = read_sample("train")[:18]
    return Corpus(tuple(replace(sentence, complete=index % 4 == 0) for index, sentence in enumerate(sentences)))


@pytest.fixture(scope="module")
def dev() -> Corpus:
    return read_sample("dev")[:7]


def assert_same(one, other, rel=2e-5) -> None:
    for name, expected in losses(one).items():
        assert losses(other)[name] == pytest.approx(expected, rel=rel), name
    assert [[record.get("dev") for record in history] for history in one.values()] == [
        [record.get("dev") for record in history] for history in other.values()
    ]


@pytest.fixture(scope="module")
def quiet_bert(toy_bert, tmp_path_factory) -> str:
    """Dropout inside of pretrained layers is drawn by each process for itself, so this one has none."""
    folder = tmp_path_factory.mktemp("quiet") / "bert"
    shutil.copytree(toy_bert, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config | none), encoding="utf-8")
    return str(folder)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(train, dev, toy, quiet_bert, tmp_path):
    """Whether a method draws, compares spans of the whole batch, keeps something, rescores, or trains teachers first."""
    names = ("full", "uniform", "top-neg", "scl-rai", "selective", "eer", "bond", "roster", "lacuner")
    more = {"roster": {"stage.models": 1}, "lacuner": {"teacher.min_entities": 3, "teacher.folds": 2}}
    runs = {
        name: {"train": train, "dev": dev, "method": name, "epochs": 2, "settings": TINY | more.get(name, {})}
        for name in names
    }
    alone = TINY | {"training.batch_tokens": 1}  # in a batch of one sentence, there is nothing for the second process
    runs["one sentence"] = {"train": train[:4], "dev": None, "method": "uniform", "epochs": 1, "settings": alone}
    pieces = {"encoder": quiet_bert, "epochs": 1, "settings": {"encoder.dropout": 0, "encoder.window": 128}}
    runs |= {name: {"train": toy[:9], "dev": toy[:3], "method": name, **pieces} for name in ("weighted", "mrc")}
    assert_same(train_all(runs), train_together(2, tmp_path, runs))


@pytest.mark.slow
def test_a_run_of_one_process_is_resumed_by_two(train, dev, tmp_path):
    """Of ``accelerate launch``; and only one of them says something."""
    arguments = {"method": "full", "epochs": 3, "settings": TINY}
    whole = Recognizer.train(train, dev, **arguments).record.history
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(train, dev, observer=StopAfter(1), out=tmp_path / "model", **arguments)
    train.write(tmp_path / "train.jsonl")
    dev.write(tmp_path / "dev.jsonl")
    launched = ["accelerate.commands.launch", "--cpu", "--num_processes", "2", "-m", "lacuner"]
    verb = ["train", "train.jsonl", "--dev", "dev.jsonl", "--out", "model", "--resume", "--json"]
    command = [sys.executable, "-m", *launched, *verb, "--method", "full", "--epochs", "3", *SET]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["epochs"] == 3
    assert "Resuming after epoch 1." in done.stderr
    assert done.stderr.count("epoch  3/3") == 1
    assert_same({"": whole}, {"": Recognizer.from_pretrained(tmp_path / "model").record.history})


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.slow
def test_a_killed_process_ends_all_with_a_sentence_and_one_process_resumes_the_run(train, tmp_path):
    arguments = {"method": "uniform", "epochs": 12, "settings": TINY}
    whole = Recognizer.train(train, **arguments).record.history
    train.write(tmp_path / "train.jsonl")
    verb = ["train", "train.jsonl", "--out", "model", "--method", "uniform", "--epochs", "12", *SET]
    command = [sys.executable, "-m", "lacuner", *verb, "--processes", "2"]
    running = subprocess.Popen(command, cwd=tmp_path, env=_environment(), text=True, stderr=subprocess.PIPE)
    _wait_for(lambda: list(tmp_path.glob("model.training/model/epoch-00*/progress.json")))
    children = _children(running.pid)
    os.kill(children[1], signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "process 2 of 2: its process was killed" in said.splitlines()[-1], said
    assert "--resume" in said.splitlines()[-1]
    assert "Traceback" not in said
    _wait_for(lambda: not any(Path(f"/proc/{child}/cmdline").exists() for child in children))
    resumed = Recognizer.train(train, out=tmp_path / "model", resume=True, **arguments)
    assert_same({"": whole}, {"": resumed.record.history}, rel=1e-3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "train.jsonl"]


def _wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


def _children(process: int) -> list[int]:
    """The processes that train, in the order in which they were started."""
    own = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return sorted(child for child in own if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes())


@pytest.mark.parametrize("index", [0, 1])
def test_what_the_process_says_that_failed_first_is_what_the_user_reads(index):
    with pytest.raises(TrainingError, match="the disk is full"):
        run_together(partial(fail_in, index), 2)


def test_processes_are_not_started_inside_of_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match="started by another launcher already"):
        run_together(time.time, 2)


@pytest.mark.parametrize(("rows", "count"), [(0, 2), (1, 2), (7, 2), (7, 3), (2, 5), (64, 8)])
def test_rows_are_divided_evenly_and_none_is_lost(rows, count):
    shares = divide_rows(rows, count)
    assert [row for begin, end in shares for row in range(begin, end)] == list(range(rows))
    sizes = [end - begin for begin, end in shares]
    assert max(sizes) - min(sizes) <= 1


def test_items_are_divided_and_none_is_lost():
    assert [list(Processes(index, 2).own(range(5))) for index in (0, 1)] == [[0, 2, 4], [1, 3]]
    assert list(Processes(3, 4).own(range(3))) == []


@pytest.mark.slow
def test_each_process_searches_its_share_of_the_dev_data(train, tmp_path):
    sentences = [sentence for sentence in (*read_sample("dev"), *read_sample("train")) if len(sentence.tokens) < 100]
    dev = Corpus(tuple(sentences[:500]))
    run = {"train": train, "dev": dev, "method": "full", "epochs": 1, "settings": TINY}
    alone = sentences_searched(1, tmp_path, run)
    both = sentences_searched(2, tmp_path, run)
    assert sum(both) == sum(alone) == 500
    assert min(both) > 100  # of three batches, one has one and the other has two


@pytest.mark.slow
def test_a_corpus_on_disk_is_read_by_both(train, dev, tmp_path):
    train.write(tmp_path / "train.jsonl")
    dev.write(tmp_path / "dev.jsonl")
    verb = ["train", "train.jsonl", "--dev", "dev.jsonl", "--method", "uniform", "--epochs", "2", *SET]
    for out, options in (("one", []), ("two", ["--processes", "2", "--streaming"])):
        command = [sys.executable, "-m", "lacuner", *verb, "--out", out, *options]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, env=_environment())
        assert done.returncode == 0, done.stderr
    one, two = (Recognizer.from_pretrained(tmp_path / out).record.history for out in ("one", "two"))
    assert_same({"": one}, {"": two})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.jsonl", "one", "train.jsonl", "two"]


def test_two_ways_to_divide_the_cores_are_refused_before_anything_is_read(run, tmp_path, monkeypatch):
    (tmp_path / "train.conll").write_text("broken broken broken\n")
    given = ("train", tmp_path / "train.conll", "--out", tmp_path / "model", "--workers", "2")
    said = "--workers and --processes share the same cores — give only one of them\n"
    assert run(*given, "--processes", "2")[::2] == (2, said)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run(*given)[::2] == (2, said)


def test_a_process_alone_has_everything_and_loses_nobody():
    assert list(ALONE.own([3, 1, 2])) == [3, 1, 2]
    assert ALONE.merge({1: "a"}) == {1: "a"}
    with pytest.raises(RuntimeError, match="gloo"), ALONE.reporting_loss():
        raise RuntimeError("gloo")
    with pytest.raises(ProcessLostError, match="--resume"), Processes(0, 2).reporting_loss():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711")
