"""Encoders and heads that somebody else publishes as a package: the examples of docs/plugins.md, installed."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from installing import install, lacuner
from lacuner import Corpus

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
ENCODER, HEADS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TOML = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
TEXT = "Grace Hopper moved to Oslo ."


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the packages of the documentation."""
    folder = tmp_path / "installed"
    for group, points in tomllib.loads(TOML)["project"]["entry-points"].items():
        ((entry_point, module),) = points.items()
        install(folder, module, ENCODER if "encoder" in module else HEADS, group, entry_point)
    return folder


@pytest.fixture
def corpus(toy: Corpus, tmp_path: Path) -> Path:
    toy.write(tmp_path / "toy.conll")
    return tmp_path / "toy.conll"


@pytest.mark.slow
@pytest.mark.parametrize(("method", "head"), [("full", "sum"), ("token", "warm")])
def test_an_encoder_and_a_head_of_a_package_are_trained_stored_and_used(
    method: str, head: str, packages: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    chosen = ["--method", method, "--encoder", "bag", "--set", f"head={head}", "--epochs", 60]
    done = lacuner("train", corpus, "--dev", corpus, "--out", out, "--json", *chosen, packages=packages)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dev"]["f1"] > 0.5
    stored = json.loads((out / "config.json").read_text(encoding="utf-8"))["settings"]
    assert stored["encoder"] == {"name": "bag", "word_size": 30}
    assert stored["method"]["head"]["name"] == head
    done = lacuner("predict", out, "-", packages=packages, given=TEXT)
    assert done.returncode == 0, done.stderr
    assert "Oslo" in [entity["text"] for entity in json.loads(done.stdout)["entities"]]
    done = lacuner("predict", out, "-", given=TEXT)
    assert done.returncode in (1, 2)
    (sentence,) = done.stderr.splitlines()
    assert str(out) in sentence
    assert f"'{head}'" in sentence or "'bag'" in sentence


def test_heads_of_a_package_are_listed_among_ours(packages: Path) -> None:
    done = lacuner("methods", packages=packages)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert re.search(r"^ +head +.*\bproduct\b.*\bsum\b", done.stdout, re.MULTILINE)
    assert re.search(r"^ +head +.*\bcrf\b.*\bwarm\b", done.stdout, re.MULTILINE)


BROKEN = {
    "an import that fails": ("lacuner.encoders", "import a_package_that_nobody_has", "a_package_that_nobody_has"),
    "an encoder whose name is taken": ("lacuner.encoders", ENCODER.replace('"bag"', '"recurrent"'), "'recurrent'"),
    "a head whose name is taken": ("lacuner.heads", HEADS.replace('"sum"', '"width"'), "'width'"),
    "a head among encoders": ("lacuner.encoders", HEADS, "SumConfig"),
}


@pytest.mark.parametrize(("group", "code", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_left_out_with_a_warning_where_it_might_be_needed(
    group: str, code: str, reason: str, corpus: Path, tmp_path: Path
) -> None:
    packages = install(tmp_path / "installed", "broken_part", code, group)
    asked = ["--encoder", "bag"] if group == "lacuner.encoders" else ["--set", "head=sum"]
    done = lacuner("train", corpus, "--out", tmp_path / "model", *asked, packages=packages)
    assert done.returncode in (1, 2)
    warning = " ".join(done.stderr.split())
    assert "broken_part" in warning
    assert reason in warning
