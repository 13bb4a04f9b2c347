"""``annotate`` and ``predict`` into a folder: the same bytes as one process, whatever happens meanwhile."""

import bz2
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lacuner.streams.resumable import MANIFEST


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with files of every kind, and a list of names."""
    generator = random.Random(7)
    names = ["Ada Lovelace", "Turin", "New York", "上海"]
    (tmp_path / "names.tsv").write_text("Ada Lovelace\tPER\nTurin\tLOC\nNew York\tLOC\n上海\tLOC\n", encoding="utf-8")
    folder = tmp_path / "in"
    folder.mkdir()

    def text(words: int) -> str:
        return " ".join([*(f"w{generator.randrange(99)}" for _ in range(words)), generator.choice(names), "."])

    long = " ".join(text(40) for _ in range(8))  # more than 256 words: it is cut into sentences
    for number, end in enumerate(["\n", "\r\n", "\n"]):
        lines = [text(generator.randrange(12)) for _ in range(120)] + [long, "", " "]
        generator.shuffle(lines)
        last = end if number < 2 else ""  # without an end of its last line
        (folder / f"{number}.txt").write_text(end.join(lines) + last, encoding="utf-8", newline="")
    (folder / "3-empty.txt").write_text("")
    (folder / "4.txt.gz").write_bytes(gzip.compress(text(5).encode() + b"\n"))
    (folder / "5.txt.bz2").write_bytes(bz2.compress(text(5).encode() + b"\n"))
    records = [{"text": text(9), "id": number} if number % 2 else {"text": long} for number in range(40)]
    (folder / "6.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    sentences = ["-DOCSTART-\tO\n" if number % 9 == 0 else "Ada\tO\nLovelace\tO\nslept\tO\n" for number in range(200)]
    (folder / "7.conll").write_text("\n".join(sentences))
    (folder / "8-huge.txt").write_text(text(3000) + "\n" + text(2))
    (folder / "9-chinese.txt").write_text("他去了上海。\n" * 50, encoding="utf-8")
    return folder


def arguments(corpus: Path, *others: object) -> list[str]:
    return ["annotate", str(corpus), "--dictionary", str(corpus.parent / "names.tsv"), *map(str, others)]


def merged(run, corpus: Path, out: Path, *others: object) -> bytes:
    code, _, log = run(*arguments(corpus, "--out", f"{out}/", "--merge", f"{out}.jsonl", *others))
    assert code == 0, log
    return Path(f"{out}.jsonl").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("size", [0.0005, 0.01, 16])
def test_parts_are_the_bytes_that_one_process_writes(
    run, corpus: Path, tmp_path: Path, workers: int, size: float
) -> None:
    code, _, said = run(*arguments(corpus, "--out", tmp_path / "one.jsonl", "--workers", 1, "--ignore-case"))
    assert code == 0, said
    options = ["--workers", workers, "--shard-size", size, "--ignore-case"]
    assert merged(run, corpus, tmp_path / "out", *options) == (tmp_path / "one.jsonl").read_bytes()
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["complete"]
    assert (manifest["parts"] == 1) == (size == 16)
    assert f"in {manifest['counts']['sentences']:,} sentences with {manifest['counts']['words']:,} words" in said


def test_columns_are_merged_too(run, corpus: Path, tmp_path: Path) -> None:
    conll = corpus / "7.conll"
    run(*arguments(conll, "--dictionary", tmp_path / "names.tsv", "--out", tmp_path / "one.conll"))
    code, _, log = run(
        *arguments(conll, "--dictionary", tmp_path / "names.tsv", "--out", f"{tmp_path / 'out'}/"),
        *("--merge", tmp_path / "two.conll", "--shard-size", "0.0002", "--workers", 2),
    )
    assert code == 0, log
    assert (tmp_path / "two.conll").read_bytes() == (tmp_path / "one.conll").read_bytes()
    assert "-DOCSTART-" in (tmp_path / "two.conll").read_text()


def test_a_second_run_does_nothing_and_another_is_refused(run, corpus: Path, tmp_path: Path) -> None:
    merged(run, corpus, tmp_path / "out", "--shard-size", "0.001", "--json")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    code, again, log = run(*arguments(corpus, "--out", f"{tmp_path / 'out'}/", "--shard-size", "0.001", "--json"))
    assert code == 0
    assert "shards were already done." in log
    assert json.loads(again)["entities"] > 100
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")} == before
    for change, what in (
        (["--ignore-case"], "ignore case"),
        (["--variants"], "variants"),
        (["--documents", "keep"], "documents"),
        (["--shard-size", "1"], "shard size"),
    ):
        code, _, log = run(*arguments(corpus, "--out", f"{tmp_path / 'out'}/", "--shard-size", "0.001", *change))
        assert code == 2
        assert (
            log
            == f"{tmp_path / 'out'} holds the results of another run, with other {what} — choose another folder, or remove it\n"
        )
    (tmp_path / "names.tsv").write_text("Ada\tPER\n")
    code, _, log = run(*arguments(corpus, "--out", f"{tmp_path / 'out'}/", "--shard-size", "0.001"))
    assert (code, "with other dictionary —" in log) == (2, True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_poison_shard_is_named_and_the_rest_is_done(run, corpus: Path, tmp_path: Path, workers: int) -> None:
    before = (corpus / "6.jsonl").read_text()
    (corpus / "6.jsonl").write_text(before + "broken\n")
    options = [
        "--out",
        f"{tmp_path / 'out'}/",
        "--merge",
        tmp_path / "all.jsonl",
        "--shard-size",
        "0.01",
        "--workers",
        workers,
    ]
    code, _, log = run(*arguments(corpus, *options))
    assert code == 1, log
    (failed,) = [line for line in log.splitlines() if line.startswith("failed: ")]
    assert f"{corpus / '6.jsonl'}, bytes " in failed
    assert f"{corpus / '6.jsonl'}:41: not JSON" in failed
    assert "1 of " in log
    assert (
        "shards failed; all others are done. --merge was not carried out. Run the same command again to retry them."
        in log
    )
    assert not (tmp_path / "all.jsonl").exists()
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text(encoding="utf-8"))
    assert [failure["shard"] in failed for failure in manifest["failed"]] == [True]
    (corpus / "6.jsonl").write_text(before)
    code, _, log = run(*arguments(corpus, *options))
    assert (code, f"({corpus / '6.jsonl'} has changed since then)" in log) == (2, True)


def test_thousands_of_small_files_are_few_tasks(run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "names.tsv").write_text("Ada\tPER\n")
    for number in range(3000):
        (tmp_path / "in" / f"{number:05}.txt").write_text(f"Ada {number}\n")
    content = merged(run, tmp_path / "in", tmp_path / "out", "--workers", 1)
    assert [json.loads(line)["text"] for line in content.splitlines()] == [f"Ada {number}" for number in range(3000)]
    assert len(list((tmp_path / "out").glob("part-*"))) == 3


def test_predictions_in_parts_are_those_of_one_process(run, corpus: Path, model_folder: Path, tmp_path: Path) -> None:
    given = ["predict", model_folder, corpus, "--shard-size", "0.01"]
    code, _, log = run(*given, "--out", tmp_path / "one.jsonl")
    assert code == 0, log
    for workers in (1, 2):
        out = tmp_path / f"parts-{workers}"
        code, _, log = run(*given, "--out", f"{out}/", "--merge", tmp_path / "two.jsonl", "--workers", workers)
        assert code == 0, log
        assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
        assert len(list(out.glob("part-*.jsonl"))) > 5
    code, _, log = run(*given, "--out", f"{out}/", "--min-score", "0.9")
    assert (code, "with other min score —" in log) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "x.jsonl", "--merge", "y.jsonl"], "--merge joins the parts in a folder — end --out with /"),
        (["--out", "memory://x.jsonl"], "memory://x.jsonl: an output URL must be a folder — end it with /"),
        (["--out", "x/", "--address", "auto"], "--address is the address of a Ray cluster — add --engine ray"),
        (["--out", "x/", "--format", "label_studio"], "cannot be written incrementally"),
        (
            ["--out", "x/", "--merge", "x/part-00000.jsonl"],
            "--merge x/part-00000.jsonl is in the folder of the parts, x/",
        ),
        (
            ["--out", "x/", "--merge", "./y/../x/_manifest.json"],
            "_manifest.json is in the folder of the parts, x/ — write",
        ),
        (
            ["--out", "x/", "--unmatched", "x/part-00000.jsonl"],
            "--unmatched x/part-00000.jsonl is in the folder of the",
        ),
        (["--out", "in/out/"], "--out in/out/ is among the inputs, "),
        (["--out", "x/", "--merge", "in/all.jsonl"], "--merge in/all.jsonl is among the inputs, "),
    ],
)
def test_what_does_not_go_together_is_said(run, corpus: Path, tmp_path: Path, options, said, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, log = run(*arguments(corpus, *options))
    assert code == 2
    assert said in log
    assert {path.name for path in tmp_path.iterdir()} == {"in", "names.tsv"}


def test_a_page_or_a_text_has_no_parts(run, corpus: Path, model_folder: Path, tmp_path: Path) -> None:
    code, _, log = run("predict", model_folder, corpus, "--out", f"{tmp_path / 'out'}/", "--format", "html")
    assert (code, "a page cannot be written in parts" in log) == (2, True)
    code, _, log = run("predict", model_folder, "Ada sleeps here.", "--out", f"{tmp_path / 'out'}/")
    assert (code, "a text on the command line cannot be split into shards" in log) == (2, True)


def test_stores_of_objects_are_read_and_written(run, corpus: Path, tmp_path: Path) -> None:
    """Through fsspec; ``file://`` is one that other processes see as well."""
    import fsspec

    run(*arguments(corpus, "--out", tmp_path / "one.jsonl"))
    names = ["--dictionary", tmp_path / "names.tsv", "--shard-size", "0.001"]
    store = fsspec.filesystem("memory")
    store.put(str(corpus), "/in", recursive=True)
    try:
        code, _, log = run(
            "annotate",
            "memory://in/",
            *names,
            "--out",
            "memory://out/",
            "--merge",
            tmp_path / "a.jsonl",
            "--workers",
            1,
        )
        assert code == 0, log
        assert store.exists(f"/out/{MANIFEST}")
        url = f"file://{corpus}"
        code, _, log = run(
            "annotate", url, *names, "--out", f"file://{tmp_path}/o/", "--merge", tmp_path / "b.jsonl", "--workers", 2
        )
        assert code == 0, log
        for name in ("a.jsonl", "b.jsonl"):
            assert (tmp_path / name).read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    finally:
        store.store.clear()


def start(corpus: Path, out: Path, *others: str) -> "subprocess.Popen[str]":
    given = arguments(
        corpus, "--out", f"{out}/", "--merge", f"{out}.jsonl", "--shard-size", "0.002", "--workers", 2, *others
    )
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom lacuner.cli import main\nmain()"
    )
    return subprocess.Popen([sys.executable, "-c", code, *given], stderr=subprocess.PIPE, text=True, process_group=0)


def wait_for_parts(process: "subprocess.Popen[str]", out: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and len(list(out.glob("part-*"))) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def test_ctrl_c_ends_it_cleanly(run, corpus: Path, tmp_path: Path) -> None:
    (corpus / "0.txt").write_text("Ada Lovelace slept in Turin .\n" * 5_000)
    out = tmp_path / "out"
    with start(corpus, out) as process:
        wait_for_parts(process, out, 5)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "shards are done; run the same command again to resume." in log
    assert "Traceback" not in log
    assert not list(out.rglob("*.lacuner"))
    run(*arguments(corpus, "--out", tmp_path / "one.jsonl"))
    assert merged(run, corpus, out, "--shard-size", "0.002", "--workers", 2) == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_moments_lose_and_repeat_nothing(run, corpus: Path, tmp_path: Path, seed: int) -> None:
    (corpus / "0.txt").write_text("Ada Lovelace slept in Turin .\n" * 10_000)
    run(*arguments(corpus, "--out", tmp_path / "one.jsonl"))
    generator, out, done = random.Random(seed), tmp_path / "out", 0
    for attempt in range(4):
        with start(corpus, out) as process:
            wait_for_parts(process, out, done + generator.randrange(1, 30))
            workers = children(process.pid)
            victim = process.pid if attempt % 2 == 0 or not workers else generator.choice(workers)
            kill(victim)
            if victim != process.pid:
                wait_for_parts(process, out, done + 40)
                kill(process.pid)
            process.communicate(timeout=60)
        done = len(list(out.glob("part-*")))
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert merged(run, corpus, out, "--shard-size", "0.002", "--workers", 2) == (tmp_path / "one.jsonl").read_bytes()
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}.items() >= before.items()
    assert not list(out.rglob("*.lacuner"))


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
