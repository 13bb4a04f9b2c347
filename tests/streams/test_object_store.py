"""Texts in an object store, and results in one: a server that speaks S3, on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lacuner.streams.resumable import MANIFEST

pytestmark = pytest.mark.slow

NAMES = "Ada Lovelace\tPER\nTurin\tLOC\n"
TEXTS = {"a.txt": "Ada Lovelace moved to Turin .\n" * 700, "b.txt": "Bo saw Ada Lovelace .\n" * 500}


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[Any, dict[str, str]]]:
    """A file system of a bucket named ``texts``, and what a process needs to know of it."""
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        access = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
        known = s3fs.S3FileSystem(
            key="any", secret="any", endpoint_url=f"http://{host}:{port}", use_listings_cache=False
        )
        known.mkdir("texts")
        for name, text in TEXTS.items():
            known.pipe(f"texts/in/{name}", text.encode())
        yield known, os.environ | access | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    finally:
        server.stop()


def annotate(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "names.tsv").write_text(NAMES, encoding="utf-8")
    command = [sys.executable, "-m", "lacuner", "annotate", *arguments, "--dictionary", str(folder / "names.tsv")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_what_is_read_from_and_written_to_an_object_store_is_what_files_give(
    store: tuple[Any, dict[str, str]], tmp_path: Path
) -> None:
    known, environment = store
    files = []
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        files.append(str(tmp_path / name))
    assert (
        annotate(tmp_path, environment, *files, "--out", str(tmp_path / "here.jsonl"), "--workers", "1").returncode == 0
    )
    merged = tmp_path / "merged.jsonl"
    there = ("s3://texts/in/*.txt", "--out", "s3://texts/out/", "--workers", "2", "--shard-size", "0.01")
    done = annotate(tmp_path, environment, *there, "--merge", str(merged))
    assert done.returncode == 0, done.stderr
    assert merged.read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    parts = sorted(path.rpartition("/")[2] for path in known.ls("texts/out", detail=False))
    assert MANIFEST in parts
    assert sum(part.startswith("part-") for part in parts) == 5

    known.rm("texts/out/part-00002.jsonl")
    again = annotate(tmp_path, environment, *there, "--merge", str(merged))
    assert again.returncode == 0, again.stderr
    assert "4 of 5 shards were already done" in again.stderr
    assert merged.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_a_bucket_that_is_not_there_is_told_in_a_sentence(store: tuple[Any, dict[str, str]], tmp_path: Path) -> None:
    _, environment = store
    failed = annotate(tmp_path, environment, "s3://absent/a.txt", "--out", str(tmp_path / "out.jsonl"))
    assert failed.returncode != 0
    assert "absent" in failed.stderr
    assert "Traceback" not in failed.stderr
