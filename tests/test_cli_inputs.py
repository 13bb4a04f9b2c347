"""Texts, files and pipes that ``lacuner predict`` is given, in processes of their own."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.color import ColorSystem

from lacuner.cli.console import terminal_colors
from lacuner.cli.inputs import sort_inputs
from lacuner.errors import DataError

SENTENCE = "Ada moved to Turin ."


@pytest.mark.parametrize(
    "text",
    [
        "Ada Lovelace moved to Turin.",
        "either/or is a question",
        "she lives in the U.S",
        "version 2.5",
        "he paid 3.5kg of it",
        "New York",
        "x" * 5000 + " y",
        "one.txt\ntwo.txt",
        "null \0 byte",
    ],
)
def test_several_words_that_are_no_file_are_a_text(text: str) -> None:
    assert sort_inputs([text], []) == [text]


@pytest.mark.parametrize(
    "name",
    [
        "Turin", "absent.txt", "my data.conll", "my data.jsonl.gz", "my notes.docx", "./my data", "../my data", "/my data",
        "~/my data", "here/my data", "", "see example.com",
    ],
)  # fmt: skip
def test_what_looks_like_a_file_that_is_not_there_is_an_error_that_says_how_to_give_a_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="there is no such file — check the path; if it is a text: --text "):
        sort_inputs([name], [])
    assert sort_inputs([], [name]) == [name]


def test_what_exists_is_a_file_whatever_it_looks_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Ada moved to Turin.").write_text("")
    assert sort_inputs(["Ada moved to Turin.", "-"], ["-"]) == [Path("Ada moved to Turin."), Path("-"), "-"]


def command(model: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lacuner", "predict", str(model), *arguments]


def test_a_text_on_the_command_line_is_searched(run, model_folder: Path, tmp_path: Path) -> None:
    code, output, log = run("predict", model_folder, SENTENCE, "--text", "Kurt")
    assert code == 0, log
    one, two = map(json.loads, output.splitlines())
    assert [entity["text"] for entity in one["entities"]] == ["Ada", "Turin"]
    assert two["text"] == "Kurt"
    assert run("predict", model_folder, SENTENCE, "--format", "text")[1] == "[Ada PER] moved to [Turin LOC] .\n"
    code, output, log = run("predict", model_folder, "Kurt")
    assert (code, output) == (1, "")
    assert log.startswith("Kurt: there is no such file — check the path; if it is a text: --text Kurt")


def test_without_anything_to_read_the_usage_is_wrong(run, model_folder: Path) -> None:
    code, _, log = run("predict", model_folder)
    assert code == 2
    assert "there is nothing to read" in log


def test_a_page_is_written_whole_or_not_at_all(run, model_folder: Path, files: Path) -> None:
    out = files / "x.html"
    code, _, log = run("predict", model_folder, files / "train.conll", "--out", out)
    assert code == 0, log
    page = out.read_text(encoding="utf-8")
    assert page.count("<li") == 25
    assert page.endswith("</html>\n")
    assert "<h1>Entities in train.conll</h1>" in page
    (files / "bad.jsonl").write_text('{"text": "Ada"}\nnot json\n')
    assert run("predict", model_folder, files / "bad.jsonl", "--out", out)[0] == 1
    assert out.read_text(encoding="utf-8") == page
    (files / "fields.jsonl").write_text('{"text": "Ada", "id": 1}\n')
    assert "warning: 1 records have other fields" in run("predict", model_folder, files / "fields.jsonl", "-o", out)[2]


def test_a_pipe_is_answered_line_by_line(model_folder: Path) -> None:
    """Each answer is there before the next question is asked, in time, and in order."""
    with subprocess.Popen(
        command(model_folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seconds = []
        for number in range(8):
            began = time.monotonic()
            process.stdin.write(f"Ada moved {number}\n".encode())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            seconds.append(time.monotonic() - began)
            assert answer["text"] == f"Ada moved {number}"
            assert answer["entities"][0]["text"] == "Ada"
        process.stdin.write(b"no line end")
        process.stdin.close()
        assert json.loads(process.stdout.read())["text"] == "no line end"
        assert process.wait(60) == 0
    assert min(seconds) < 0.5, "the machine may be busy, but not always"


def test_a_quick_pipe_gives_what_a_file_gives(run, model_folder: Path, tmp_path: Path) -> None:
    lines = "".join(f"Ada moved to Turin {number}\n" for number in range(3000))
    (tmp_path / "many.txt").write_text(lines)
    piped = subprocess.run(command(model_folder, "-"), input=lines, capture_output=True, text=True, check=True).stdout
    assert [json.loads(line)["text"] for line in piped.splitlines()] == lines.splitlines()
    _, read, _ = run("predict", model_folder, tmp_path / "many.txt")
    assert [found(line) for line in piped.splitlines()] == [found(line) for line in read.splitlines()]


def found(line: str) -> list[tuple[int, int, str]]:
    return [(entity["start"], entity["end"], entity["label"]) for entity in json.loads(line)["entities"]]


def test_a_reader_who_leaves_ends_the_command_quietly(model_folder: Path) -> None:
    """As in ``yes Ada | lacuner predict model | head -1``: the input never ends."""
    reader, writer = os.pipe()
    with subprocess.Popen(["yes", "Ada moved"], stdout=subprocess.PIPE) as producer:
        with subprocess.Popen(
            command(model_folder), stdin=producer.stdout, stdout=writer, stderr=subprocess.PIPE
        ) as process:
            os.close(writer)
            with os.fdopen(reader, "rb") as output:
                assert json.loads(output.readline())["text"] == "Ada moved"
            assert process.stderr is not None
            log = process.stderr.read().decode()
            process.wait(60)
        producer.kill()
    assert log == ""


def seen_in_a_terminal(arguments: list[str]) -> str:
    pty = pytest.importorskip("pty", reason="there are no terminals on this system")
    ours, theirs = pty.openpty()
    settings = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")
    }
    with subprocess.Popen(
        arguments, stdout=theirs, stderr=subprocess.DEVNULL, env={**settings, "TERM": "xterm-256color"}
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while read := os.read(ours, 4096):
                written += read
        except OSError:  # Linux's way to say that the other side is closed
            pass
        process.wait(60)
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def test_a_terminal_shows_the_sentence_with_its_entities_in_colors(model_folder: Path) -> None:
    colored = seen_in_a_terminal(command(model_folder, SENTENCE))
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == "[Ada PER] moved to [Turin LOC] .\n"
    assert colored.count("\x1b[38;5;") >= 2


@pytest.mark.parametrize(
    ("environment", "colors"),
    [
        ({"TERM": "xterm-256color"}, ColorSystem.EIGHT_BIT),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm"}, ColorSystem.STANDARD),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, None),
        ({"TERM": "dumb"}, None),
    ],
)
def test_there_are_the_colors_that_the_terminal_has(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], colors: ColorSystem | None
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal_colors() is None, "standard output is no terminal"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert terminal_colors() == colors
