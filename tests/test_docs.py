import json
import re
from pathlib import Path

import pytest

import lacuner.integrations.spacy  # noqa: F401  # as spaCy itself does where the package is installed

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
    verbs |= {group.typer_instance.info.name for group in app.registered_groups}
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target
    for block in re.findall(r"`[^`]+`|^```.*?^```", text, re.MULTILINE | re.DOTALL):
        for verb in COMMAND.findall(block):
            assert verb in verbs, verb


def test_settings_that_the_documentation_names_exist():
    from lacuner.errors import ConfigError
    from lacuner.methods.registry import registry
    from lacuner.training.settings import parse_assignments, resolve_settings

    def accepted(method, assignment):
        try:
            return resolve_settings(method, overrides=parse_assignments([assignment]))
        except ConfigError:
            return None

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = re.findall(r"--set ([a-z][\w.]+=[\w./-]+)", text)
    assert len(named) > 3
    for assignment in dict.fromkeys(named):
        assert any(accepted(method, assignment) for method in registry().methods), assignment


def test_every_setting_is_documented_with_its_default_and_meaning():
    from lacuner.encoders import ENCODERS
    from lacuner.methods.registry import LEVELS, registry
    from lacuner.training.settings import TrainingConfig, TrustedConfig

    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    found = registry()
    parts = [
        (kind, part)
        for method in LEVELS.values()
        for kind in method.kinds()
        for part in found.choices(kind, method).values()
    ]
    parts += [("encoder", part) for part in ENCODERS.values()] + [
        ("training", TrainingConfig),
        ("trusted", TrustedConfig),
    ]
    for kind, part in parts:
        for name, field in part.model_fields.items():
            if name != "name":
                assert f"| `{kind}.{name}` |" in text
                assert f"| {field.description} |" in text, field.description


def test_the_demo_prints_what_the_readme_shows(model, run, monkeypatch):
    """Titles, columns and sentences; the numbers are those of models that take minutes to train."""
    monkeypatch.setattr("lacuner.recognizer.Recognizer.train", lambda *_, **__: model)
    code, output, _ = run("demo")
    assert code == 0
    (shown,) = re.findall(
        r"^```text\n(test data.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    def skeleton(text):
        figures, example = re.split(r"(?<=greatest:)\n", text.strip())
        names = re.findall(r"^  (truth|ordinary training|lacuner) {2,}", example, re.MULTILINE)
        return re.sub(r" +-?\d+(\.\d+)?\b", " #", figures).splitlines(), names

    assert skeleton(output) == skeleton(shown)


def demo_of_the_readme():
    """The first paragraph, and precision, recall and F1 in the table that the demo prints, by row."""
    text = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^((?:all labels|gaps), .+?)  +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    return text.split("\n\n")[1], {name: [float(number) for number in numbers] for name, *numbers in rows}


def test_the_first_paragraph_of_the_readme_quotes_the_demo_that_it_shows():
    paragraph, rows = demo_of_the_readme()
    (quoted,) = re.findall(
        r"recall falls from (\d+) to (\d+); a threshold from dev data brings back (\d+), the default method (\d+)",
        paragraph,
    )
    assert [int(number) for number in quoted] == [round(recall) for _, recall, _ in rows.values()]


@pytest.mark.slow
def test_the_demo_finds_what_the_readme_says(run):
    """Within what another machine, or another number of threads, changes: most where training hardly finds anything."""
    code, output, _ = run("demo", "--json")
    assert code == 0
    found = [
        [100 * scores[name] for name in ("precision", "recall", "f1")] for scores in json.loads(output)["test"].values()
    ]
    for numbers, shown in zip(found, demo_of_the_readme()[1].values(), strict=True):
        assert numbers == pytest.approx(shown, abs=6)


def test_no_placeholder_is_left():
    for page in PAGES:
        assert not re.search(r"^[A-Z]{4,}$", page.read_text(encoding="utf-8"), re.MULTILINE), page
