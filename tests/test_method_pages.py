import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import lacuner.methods
from lacuner import registry as registries
from lacuner.cli import app
from lacuner.cli.methods import methods as print_methods
from lacuner.methods.method import Method
from lacuner.methods.registry import LEVELS, registry
from lacuner.training.settings import parse_assignments, resolve_settings

FOLDER = Path(__file__).parents[1] / "docs" / "methods"
INDEX = FOLDER / "README.md"
PAGES = sorted(FOLDER.glob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^lacuner train .+|(?<=`)lacuner train [^`\n]+(?=`)", re.MULTILINE)
OPTIONS = re.compile(r"(?<=`)--(?:method|set) [a-z][^`\n]+(?=`)")
BAR = re.compile(r"(?<!\\)\|")
"""What separates the cells of a table; one that is part of a cell has a backslash before it."""
HEADER = ("setting", "default", "meaning")


def own_methods() -> list[Method]:
    """The presets of this package, not those of whatever else is installed here."""
    names = (f"{lacuner.methods.__name__}.{info.name}" for info in pkgutil.iter_modules(lacuner.methods.__path__))
    return [method for name in names for method in getattr(importlib.import_module(name), "METHODS", ())]


def printed_settings(name: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, ...]]:
    """Setting, default and meaning, as ``lacuner methods NAME`` prints them."""
    print_methods(name)
    lines = (line.split(None, 2) for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    return [(key, default, text[0] if text else "") for key, default, *text in lines]


def table_of(page: Path) -> list[tuple[str, ...]]:
    """The rows of the page's table of settings."""
    rows = [
        tuple(cell.strip().strip("`").replace(r"\|", "|") for cell in BAR.split(line.strip())[1:-1])
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    assert HEADER in rows, f"{page.name} has no table | setting | default | meaning |"
    return rows[rows.index(HEADER) + 2 :]


def commands_of(page: Path) -> list[str]:
    """Whole command lines, and options that stand alone in the text: these belong to the method of the page."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    method = "" if page == INDEX else f"--method {page.stem} "
    return COMMAND.findall(text) + [
        f"lacuner train data.conll --out model {method}{some}" for some in OPTIONS.findall(text)
    ]


@pytest.fixture
def with_the_example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example method of the index is there, as if its package were installed."""
    example: dict[str, Any] = {"__name__": "tiny_method"}
    exec(compile(CODE.findall(INDEX.read_text(encoding="utf-8"))[0], str(INDEX), "exec"), example)
    point = SimpleNamespace(name="tiny", value="tiny_method", load=lambda: SimpleNamespace(**example))
    monkeypatch.setattr(registries, "entry_points", lambda group: [point] if group == "lacuner.methods" else [])
    registry.cache_clear()
    yield
    monkeypatch.undo()
    registry.cache_clear()


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_every_method_has_a_page_that_the_index_links(method: Method) -> None:
    page = FOLDER / f"{method.name}.md"
    assert page.is_file()
    assert f"]({page.name})" in INDEX.read_text(encoding="utf-8")
    assert f"`{method.name}`" in page.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_the_settings_on_the_page_are_those_that_the_command_prints(
    method: Method, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = printed_settings(method.name, capsys)
    assert len(expected) > len(method.kinds())
    escaped = [(key, default, text.replace("|", r"\|")) for key, default, text in expected]
    table = "\n".join(f"| `{key}` | {default} | {text} |".replace("|  |", "| |") for key, default, text in escaped)
    assert table_of(FOLDER / f"{method.name}.md") == expected, f"the table of {method.name}.md should be:\n{table}"


def test_the_printed_settings_are_all_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    for method in own_methods():
        print_methods(method.name, json=True)
        (described,) = json.loads(capsys.readouterr().out)
        printed = {key: default for key, default, _ in printed_settings(method.name, capsys)}
        assert printed == {key: str(value) for key, value in described["parameters"].items()}


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_a_page_says_how_to_run_and_cite_the_method(method: Method) -> None:
    page = FOLDER / f"{method.name}.md"
    assert any(f"--method {method.name}" in command for command in commands_of(page))
    if not method.paper.startswith("ours"):
        assert "## Citation" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_on_the_pages_are_accepted(page: Path, with_the_example: None) -> None:
    train = typer.main.get_command(app).commands["train"]
    commands = commands_of(page)
    assert commands
    for command in commands:
        given = train.make_context("train", shlex.split(command)[2:]).params
        settings = resolve_settings(given["method"], given["encoder"], parse_assignments(given["settings"] or ()))
        assert settings.method.name == given["method"]


@pytest.mark.parametrize("level", LEVELS)
def test_the_index_names_every_part(level: str) -> None:
    (section,) = re.findall(rf"^{level.capitalize()} level:\n\n(.*?)\n\n", INDEX.read_text("utf-8"), re.M | re.S)
    rows = {row[0]: row[1:] for row in (re.findall(r"`([^`]+)`", line) for line in section.splitlines()[2:])}
    assert list(rows) == list(LEVELS[level].kinds())
    for kind, named in rows.items():
        choices = registry().choices(kind, LEVELS[level]).items()
        own = {name for name, part in choices if part.__module__.startswith("lacuner.")}
        assert set(named) == own | ({"none"} if LEVELS[level].optional(kind) else set())


def test_every_page_is_that_of_a_method() -> None:
    assert {page.stem for page in PAGES} - {"README", "lacuner"} <= {method.name for method in own_methods()}
