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
