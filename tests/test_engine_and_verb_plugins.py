"""Engines, verbs and servers that somebody else publishes as a package: used like ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
"""An engine that works here, one item after the other; a verb; and a verb that starts a server."""

from pathlib import Path
from typing import Annotated

import typer

from lacuner.streams.engine import LocalEngine


class Careful(LocalEngine):
    def __init__(self, workers):
        super().__init__(1)
        print(f"careful with {workers}")


def count(data: Annotated[Path, typer.Argument(help="A corpus.")]) -> None:
    """Count sentences."""
    from lacuner import Corpus

    print(len(Corpus.read(data)))


def serve_labels(data: Path) -> None:
    """Answer one request with the labels of a corpus."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from lacuner import Corpus

    class Labels(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(" ".join(Corpus.read(data).labels).encode())

    server = HTTPServer(("127.0.0.1", 0), Labels)
    print(server.server_port, flush=True)
    server.handle_request()
'''
POINTS = """
[lacuner.engines]
careful = tiny_runtime:Careful
[lacuner.verbs]
count = tiny_runtime:count
labels = tiny_runtime:serve_labels
broken = tiny_runtime:nothing
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where the package is installed."""
    installed = tmp_path / "installed"
    information = installed / "tiny_runtime-1.0.dist-info"
    information.mkdir(parents=True)
    (installed / "tiny_runtime.py").write_text(MODULE, encoding="utf-8")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-runtime\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    others = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(installed), others]))}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.conll"
    path.write_text("Ada\tB-PER\n\nTurin\tB-LOC\n", encoding="utf-8")
    return path


def lacuner(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lacuner", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_verb_of_a_package_is_listed_and_runs_and_a_broken_one_is_named(
    environment: dict[str, str], corpus: Path
) -> None:
    listed = lacuner(environment, "--help")
    assert listed.returncode == 0
    assert "count" in listed.stdout
    done = lacuner(environment, "count", corpus)
    assert done.stdout == "2\n"
    (warning,) = done.stderr.splitlines()
    assert "tiny_runtime:nothing" in warning


def test_a_verb_of_a_package_can_start_a_server(environment: dict[str, str], corpus: Path) -> None:
    from urllib.request import urlopen

    command = [sys.executable, "-m", "lacuner", "labels", str(corpus)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert urlopen(f"http://127.0.0.1:{port}/").read() == b"LOC PER"
    assert process.returncode == 0


def test_an_engine_of_a_package_runs_annotate(environment: dict[str, str], tmp_path: Path) -> None:
    text, names, out = tmp_path / "news.txt", tmp_path / "names.tsv", tmp_path / "out.jsonl"
    text.write_text("Ada met Bo .\n", encoding="utf-8")
    names.write_text("Ada\tPER\n", encoding="utf-8")
    given = ("annotate", text, "--dictionary", names, "--out", out, "--workers", 3)
    done = lacuner(environment, *given, "--engine", "careful")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("careful with 3\n")
    (entity,) = json.loads(out.read_text(encoding="utf-8"))["entities"]
    assert entity["label"] == "PER"


def test_an_engine_that_is_not_there_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    text, names = tmp_path / "news.txt", tmp_path / "names.tsv"
    text.write_text("Ada\n", encoding="utf-8")
    names.write_text("Ada\tPER\n", encoding="utf-8")
    given = ("annotate", text, "--dictionary", names, "--out", tmp_path / "out.jsonl", "--engine", "cloud")
    done = lacuner(environment, *given)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "there is no engine 'cloud'; choose local, ray, careful"
