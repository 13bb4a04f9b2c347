import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.audit.folder import AuditFolder, hash_of_files
from lacuner.review.review import Review
from lacuner.web.server import DEFAULT_PORT


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """An audit of a file that is still there, with two findings."""
    corpus = Corpus((Sentence(("Ada", "left", "Turin"), (Entity(0, 1, "PER"),)), Sentence(("Oslo", "sleeps"))))
    corpus.write(tmp_path / "names.conll")
    folder = tmp_path / "audit"
    folder.mkdir()
    corpus.write(folder / "corpus.jsonl")
    findings = [
        {"sentence": 0, "start": 2, "end": 3, "label": "LOC", "probability": 0.9, "kind": "missing", "text": "Turin"},
        {"sentence": 1, "start": 0, "end": 1, "label": "PER", "probability": 0.2, "kind": "missing", "text": "Oslo"},
    ]
    (folder / "findings.jsonl").write_text("".join(json.dumps(f) + "\n" for f in findings), encoding="utf-8")
    source = tmp_path / "names.conll"
    summary = {"format_version": 1, "corpus": str(source), "files": [str(source)], "hash": hash_of_files([source])}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder


def serve(audit: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "lacuner", "review", str(audit), "--no-browser", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return process, json.loads(line)["url"]


def test_decisions_are_exported_with_figures(audit: Path, tmp_path: Path, run) -> None:
    with Review(AuditFolder.open(audit)) as review:
        review.decide("ada-12345678", 0, 0, "accept")
        review.decide("ada-12345678", 1, 0, "reject")
    out = tmp_path / "reviewed.jsonl"
    code, printed, said = run("review", audit, "--export", out)
    assert (code, printed) == (0, "")
    assert "1 findings accepted, 1 rejected, 0 skipped, 0 open." in said
    assert Corpus.read(out)[0].entities == (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))
    code, printed, _ = run("review", audit, "--export", out, "--json")
    figures = json.loads(printed)
    assert (figures["accepted"], figures["rejected"], figures["skipped"], figures["open"]) == (1, 1, 0, 0)
    code, printed, _ = run("review", audit, "--export", "-")
    assert len(printed.splitlines()) == 2


def test_a_changed_corpus_is_said_and_the_export_goes_on(audit: Path, tmp_path: Path, run) -> None:
    (tmp_path / "names.conll").write_text("Bergen\tB-LOC\n", encoding="utf-8")
    code, _, said = run("review", audit, "--export", tmp_path / "reviewed.jsonl")
    assert code == 0
    assert "names.conll has changed since the audit" in said
    assert "nothing is lost" in said
    assert len(Corpus.read(tmp_path / "reviewed.jsonl")) == 2


def test_what_cannot_be_reviewed_is_said_in_a_sentence(audit: Path, tmp_path: Path, run) -> None:
    code, _, said = run("review", tmp_path)
    assert code == 1
    assert "this is not an audit (summary.json is missing) — give a folder written by lacuner audit" in said
    code, _, said = run("review", audit, "--token", "short")
    assert (code, said) == (2, "--token: 5 characters are easy to guess — use at least 8\n")
    for token in ("пароль12345678", "schlüssel-123", "two\nlines-123", "two words-123"):
        code, _, said = run("review", audit, "--no-browser", "--token", token)
        assert code == 2
        assert said == "--token: headers hold ASCII only — use letters from A to Z, digits and punctuation\n"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, said = run("review", audit, "--port", port, "--no-browser")
    assert code == 2
    assert f"--port {port}: another program listens there — choose another" in said
    code, _, said = run("review", audit, "--host", "203.0.113.1", "--no-browser")
    assert code == 2
    assert "this machine cannot listen there" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_listens_here_only_and_ends_in_order(audit: Path, number: int) -> None:
    process, url = serve(audit, "--port", "0")
    try:
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:
            assert b"<title>Review</title>" in answer.read()
        page, _, token = url.partition("#token=")
        about = urllib.request.Request(f"{page}api/review", headers={"X-Reviewer": "ada-12345678"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(about)
        assert refused.value.code == 401
        about.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(about) as answer:
            assert json.load(answer)["labels"] == ["LOC", "PER"]
    finally:
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Stopped; everything is stored. 2 findings are left" in said
    assert "Traceback" not in said


def test_a_server_whose_database_is_gone_does_not_say_that_everything_is_stored(audit: Path) -> None:
    process, _ = serve(audit, "--port", "0")
    (audit / "review.sqlite").unlink()
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "everything is stored" not in said
    assert "review.sqlite can no longer be used" in said
    assert "was deleted, moved or replaced" in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="sets the limits of another process")
def test_a_thousand_half_open_connections_neither_starve_the_server_nor_fill_its_log(audit: Path) -> None:
    import resource

    process, url = serve(audit, "--port", "0")
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
    port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
    needed, (soft, hard) = 1400, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(needed, hard)), hard))
    clients = []
    try:
        for _ in range(1100):
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=10))
            clients[-1].sendall(b"GET / HTTP/1.1\r\nHost:")
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"<title>Review</title>" in answer.read()
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    assert len(said) < 1000
    assert "out of system resource" not in said


def test_decisions_in_a_folder_that_cannot_be_written_are_exported(
    audit: Path, tmp_path: Path, run, monkeypatch
) -> None:
    with Review(AuditFolder.open(audit)) as review:
        review.decide("ada-12345678", 0, 0, "accept")
    before = {path.name: path.stat().st_mtime_ns for path in audit.iterdir()}
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK and access(path, mode))
    out = tmp_path / "reviewed.jsonl"
    assert run("review", audit, "--export", out)[0] == 0
    assert Corpus.read(out)[0].entities == (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))
    assert {path.name: path.stat().st_mtime_ns for path in audit.iterdir()} == before


def test_nothing_is_created_in_a_folder_that_cannot_be_written(audit: Path, tmp_path: Path, run, monkeypatch) -> None:
    before = {path.name for path in audit.iterdir()}
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK and access(path, mode))
    assert run("review", audit, "--export", tmp_path / "reviewed.jsonl")[0] == 0
    assert {path.name for path in audit.iterdir()} == before


def test_the_port_that_the_help_names_is_the_one_that_is_taken(run) -> None:
    assert f"default: ({DEFAULT_PORT}, or" in run("review", "--help")[1]


def test_importing_lacuner_needs_no_web_framework() -> None:
    code = "import sys, lacuner, lacuner.cli.review; assert not {'fastapi', 'uvicorn', 'torch'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
