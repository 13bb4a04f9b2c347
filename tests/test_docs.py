import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<!from )\blacuner ([a-z]+) ")
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_in_the_documentation_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in CODE.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_and_commands_exist(page):
    from lacuner.cli import app

    verbs = {command.callback.__name__ for command in app.registered_commands}
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target
    for block in re.findall(r"`[^`]+`|^```.*?^```", text, re.MULTILINE | re.DOTALL):
        for verb in COMMAND.findall(block):
            assert verb in verbs, verb


def test_settings_that_the_documentation_names_exist():
    from lacuner.training.settings import parse_assignments, resolve_settings

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = re.findall(r"--set ([a-z][\w.]+=[\w./-]+)", text)
    assert len(named) > 3
    for assignment in named:
        resolve_settings("full", overrides=parse_assignments([assignment]))
