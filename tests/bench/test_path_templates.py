import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.bench.path_templates import PathTemplates
from lacuner.errors import ConfigError


def test_only_whole_names_of_folders_are_hidden(tmp_path: Path) -> None:
    paths = PathTemplates(tmp_path)
    kept = f"{tmp_path}2/words.txt"
    assert paths.hide([str(tmp_path), f"{tmp_path}/words.txt", kept]) == ["{data}", "{data}/words.txt", kept]


def test_paths_are_filled_in_and_hidden_again(tmp_path: Path) -> None:
    paths = PathTemplates(tmp_path)
    package = Path(json.__file__).parent
    settings = {"a": "{data}/words.txt", "b": [{"c": "{package:json}/tool.py"}, 3, None], "d": "plain {x}"}
    filled = {"a": f"{tmp_path}/words.txt", "b": [{"c": f"{package}/tool.py"}, 3, None], "d": "plain {x}"}
    assert paths.fill(settings) == filled
    assert paths.hide(filled) == settings
    assert paths.fill("{data}:{package:json}:{package:email}") == (f"{tmp_path}:{package}:{package.parent / 'email'}")


PIECES = (
    "{data}",
    "{package:json}",
    "{package:nonesuch}",
    "{a}",
    "{",
    "}",
    "/",
    ":",
    "data",
    "words.txt",
    "/some/where",
)


def filled(text: str) -> str:
    """The text with paths, or why it is refused."""
    try:
        return str(PathTemplates("/some/where").fill(text))
    except ConfigError as error:
        return f"refused: {error}"


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_hiding_paths_changes_nothing_about_what_is_filled_in(text: str) -> None:
    assert filled(str(PathTemplates("/some/where").hide(text))) == filled(text)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_was_filled_in_can_be_hidden_and_filled_in_again(text: str) -> None:
    paths = PathTemplates("/some/where")
    try:
        path = paths.fill(text)
    except ConfigError:
        return  # an unknown template, or a package that is not installed
    assert paths.fill(paths.hide(path)) == path


@pytest.mark.parametrize("text", ["{a}/", "{dta}/words.txt", "{Data}/words.txt"])
def test_an_unknown_template_at_the_beginning_of_a_path_is_a_mistake(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^\{\w+\} in '.*' is not a known template; write \{data\} or \{package:NAME\}$"
    ):
        PathTemplates("/some/where").fill(text)


@pytest.mark.parametrize("text", ["{a}", "{a} and b", "folder/{a}/words.txt", "{a b}/words.txt"])
def test_other_braces_are_text(text: str) -> None:
    assert PathTemplates("/some/where").fill(text) == text


def test_what_is_not_closed_is_no_package(tmp_path: Path) -> None:
    assert PathTemplates(tmp_path).fill("{package:json") == "{package:json"


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.part", ""])
def test_a_missing_package_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{{package:{name}}}: the package {name} is not installed — install it"):
        PathTemplates(tmp_path).fill({"encoder": {"model": f"{{package:{name}}}/model"}})


def test_the_data_lies_where_it_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LACUNER_DATA", "elsewhere")
    assert PathTemplates("here").data == tmp_path / "here"
    assert PathTemplates().data == tmp_path / "elsewhere"
    monkeypatch.delenv("LACUNER_DATA")
    assert PathTemplates().data == tmp_path / ".." / "shared" / "data"
