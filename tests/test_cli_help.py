"""What ``--help`` shows."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from lacuner.cli import app
from lacuner.cli.help import typeset


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    command = command or typer.main.get_command(app)
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("path", list(commands()), ids=lambda path: " ".join(path) or "lacuner")
def test_help_speaks_of_values_and_not_of_types(run, monkeypatch, path: tuple[str, ...], width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run(*path, "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert not re.search(r"<\w*(bool|path|str|int|float|list|dict)\W", out)
    usage = next(line for line in out.splitlines() if "Usage" in line).strip()
    assert re.fullmatch(
        r"Usage: lacuner( [a-z-]+)* \[OPTIONS\]( [A-Z]+(\.\.\.)?| \[[A-Z]+\](\.\.\.)?| COMMAND)*", usage
    )
    assert "`" not in out
    assert "[bold]" not in out


def test_no_sign_of_a_help_text_is_swallowed(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = run("annotate", "--help")
    assert "one NAME<TAB>LABEL per line" in out
    assert typeset("see `a[b]` and [bold] <TAB>,\nthen\n\nmore") == (
        "see [bold]a\\[b][/bold] and \\[bold] <TAB>, then\n\nmore"
    )


def test_help_tells_what_to_try_first(run) -> None:
    _, out, _ = run("--help")
    assert "lacuner demo" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "m", "--check", "d", "--out", "o", "--backend", "x"], "'--backend': 'x' is not one of 'onnx',"),
        (["split", "d", "--out", "o", "--dev", "10%"], "'--dev': it must be a number"),
        (["train", "d", "--out", "o", "--epochs", "many"], "'--epochs': it must be a whole number"),
        (["train", "d", "--out", "o", "--epochs", "0"], "'--epochs': it must be greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_explained_to_a_person(run, arguments: list[str], message: str) -> None:
    code, _, log = run(*arguments)
    said = " ".join(log.replace("│", "").split())
    assert (code, message in said) == (2, True), said
    assert "Value error" not in said
    assert "unable to parse" not in said
