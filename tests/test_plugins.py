"""Methods that somebody else publishes as a package: listed, trained and stored like ours.

The package is the example of docs/methods/README.md, laid out as an installer would, in a folder on ``PYTHONPATH``.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from installing import install, lacuner
from lacuner import Corpus
from lacuner.cli.methods import methods as print_methods

PAGE = (Path(__file__).parents[1] / "docs" / "methods" / "README.md").read_text(encoding="utf-8")
GROUP = "lacuner.methods"
LONG_ENOUGH = {"training.epochs": 25, "training.patience": "none"}
TEXT = "Grace Hopper moved to Oslo ."
FOUND = ["Grace Hopper", "Oslo"]


def block(language: str, number: int = 0) -> str:
    """A block of code in this language on the page about methods."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[number]


def train(corpus: Path, out: Path, packages: Path, settings: dict[str, object], *options: str) -> dict[str, Any]:
    """What ``lacuner train`` reports."""
    assigned = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    done = lacuner("train", corpus, "--dev", corpus, "--out", out, "--json", *assigned, *options, packages=packages)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def entities_in(text: str, model: Path, packages: Path | None = None) -> list[str]:
    """What ``lacuner predict`` finds."""
    done = lacuner("predict", model, "-", packages=packages, given=text)
    assert done.returncode == 0, done.stderr
    return [entity["text"] for entity in json.loads(done.stdout)["entities"]]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the documentation."""
    points = tomllib.loads(block("toml"))["project"]["entry-points"]["lacuner.methods"]
    ((entry_point, module),) = points.items()
    return install(tmp_path_factory.mktemp("installed"), module, block("python"), GROUP, entry_point)


@pytest.fixture(scope="module")
def corpus(toy: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "toy.conll"
    toy.write(path)
    return path


@pytest.fixture(scope="module")
def settings(small_settings: dict[str, object]) -> dict[str, object]:
    """Learns the corpus by heart in a moment."""
    return small_settings | LONG_ENOUGH | {"negatives.fraction": 0.9}


@pytest.fixture(scope="module")
def model(corpus: Path, packages: Path, settings: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained with the package's method."""
    folder = tmp_path_factory.mktemp("plugin") / "model"
    report = train(corpus, folder, packages, settings, "--method", "tiny")
    assert report["dev"]["f1"] > 0.9
    return folder


def test_an_installed_method_is_listed_among_ours(packages: Path) -> None:
    done = lacuner("methods", packages=packages)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")}
    assert {"tiny", "full", "uniform"} <= names
    assert re.search(r"^ +negatives +.*\bnarrow\b", done.stdout, re.MULTILINE)


def test_its_parameters_are_described(packages: Path) -> None:
    (described,) = json.loads(lacuner("methods", "tiny", "--json", packages=packages).stdout)
    assert described["summary"] == "Some short unlabeled spans are negatives."
    parameters = described["parameters"]
    assert parameters.items() >= {"negatives": "narrow", "negatives.max_width": 3, "negatives.fraction": 0.3}.items()


@pytest.mark.slow
def test_a_model_of_it_finds_entities_in_a_new_process(model: Path, packages: Path) -> None:
    stored = json.loads((model / "config.json").read_text(encoding="utf-8"))["settings"]["method"]
    assert stored["name"] == "tiny"
    assert stored["negatives"] == {"name": "narrow", "max_width": 3, "fraction": 0.9}
    assert entities_in(TEXT, model, packages) == FOUND


@pytest.mark.slow
def test_without_the_package_one_sentence_says_what_is_missing(model: Path) -> None:
    done = lacuner("predict", model, "-", given=TEXT)
    assert done.returncode in (1, 2)
    assert not done.stdout
    (sentence,) = done.stderr.splitlines()
    assert str(model) in sentence
    assert "'narrow'" in sentence


@pytest.mark.slow
def test_its_part_goes_into_a_method_of_ours_even_beside_a_broken_package(
    corpus: Path, settings: dict[str, object], tmp_path: Path
) -> None:
    installed, out = tmp_path / "installed", tmp_path / "model"
    install(installed, "a_broken_method", "raise RuntimeError('too old')", GROUP, "broken")
    install(installed, "tiny_method", block("python"), GROUP, "tiny")
    train(corpus, out, installed, settings, "--method", "uniform", "--set", "negatives=narrow")
    stored = json.loads((out / "config.json").read_text(encoding="utf-8"))["settings"]["method"]
    assert stored["name"] == "uniform"
    assert stored["negatives"] == {"name": "narrow", "max_width": 3, "fraction": 0.9}
    assert entities_in(TEXT, out, installed) == FOUND


@pytest.mark.slow
def test_a_loss_that_keeps_state_goes_into_a_method_of_ours(
    corpus: Path, settings: dict[str, object], tmp_path: Path
) -> None:
    """The second example of the page: it needs its state in training only, so the model folder has none of it."""
    code = f"{block('python')}\n\n{block('python', 1)}\n\nPARTS = (Narrow, Steady)\n"
    installed = install(tmp_path / "installed", "steady_method", code, GROUP, "steady")
    given = {key: value for key, value in settings.items() if key != "negatives.fraction"}
    report = train(corpus, tmp_path / "model", installed, given, "--method", "full", "--set", "loss=steady")
    assert report["dev"]["f1"] > 0.9
    stored = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))["settings"]["method"]
    assert stored["loss"] == {"name": "steady", "reduction": "words", "momentum": 0.9}
    assert not [name for name in load_file(tmp_path / "model" / "model.safetensors") if name.startswith("state.")]
    assert entities_in(TEXT, tmp_path / "model", installed) == FOUND


BROKEN = {
    "an import that fails": ("import a_package_that_nobody_has", "a_package_that_nobody_has"),
    "a part whose name is taken": (block("python").replace('"narrow"', '"uniform"'), "'uniform'"),
    "a method whose name is taken": (block("python").replace('"tiny"', '"full"'), "'full'"),
}


@pytest.mark.parametrize(("code", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_reported_and_leaves_ours_as_they_are(
    code: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = lacuner(
        "methods", "--json", packages=install(tmp_path / "installed", "broken_method", code, GROUP, "broken")
    )
    assert done.returncode == 0, done.stderr
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert "broken_method" in warning
    assert reason in warning
    print_methods(json=True)
    assert json.loads(done.stdout) == json.loads(capsys.readouterr().out)
