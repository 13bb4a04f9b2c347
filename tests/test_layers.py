"""A package imports only from those above it in the drawing of DESIGN.md."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import lacuner

LAYERS: tuple[tuple[str, ...], ...] = (
    ("corpus", "sample"),
    ("matching",),
    ("streams",),
    ("features",),
    ("supervision",),
    ("encoders",),
    ("heads",),
    ("models",),
    ("methods",),
    ("inference",),
    ("evaluation",),
    ("training",),
    ("recognizer", "hub", "model_folder", "model_card", "client"),
    ("audit",),
    ("review",),
    ("web",),
    ("integrations",),
    ("analysis",),
    ("bench",),
    ("cli",),
)
ANYWHERE = {"errors", "parts", "registry", "storage", "version"}
FRONT_DOOR = {"__init__", "__main__"}  # offers what users need from everywhere, and so belongs to no layer
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}
KNOWN = DEPTH.keys() | ANYWHERE
SOURCE = Path(lacuner.__file__).parent


def imported_modules(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Line and name of every module of ours that ``module`` imports, wherever in its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            names = [
                f"lacuner.{alias.name}" if origin == "lacuner" and alias.name in KNOWN else origin
                for alias in node.names
            ]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "lacuner")


def wrong_imports(source: str, module: str) -> list[str]:
    """What is wrong with the imports of ``module``, such as ``lacuner.corpus.tokenize``."""
    own = module.split(".")[1]
    if own in ANYWHERE:
        allowed = ANYWHERE
    elif own in DEPTH:
        allowed = ANYWHERE | {name for name, depth in DEPTH.items() if depth < DEPTH[own]} | set(LAYERS[DEPTH[own]])
    else:
        return [f"{module}: {own} has no place in LAYERS"]
    if DEPTH.get(own, -1) > DEPTH["recognizer"]:
        allowed = allowed | {""}  # `from lacuner import Recognizer`: the front door reaches down to the recognizer
    found = []
    for line, name in imported_modules(source, module):
        target = name.partition(".")[2].partition(".")[0]
        if target not in allowed:
            found.append(f"{module}:{line}: imports {name}")
    return found


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0] not in FRONT_DOOR:
            found.append((".".join(("lacuner", *parts)), path))
    return found


def test_packages_import_only_from_those_above_them() -> None:
    checked = modules()
    assert {"lacuner.corpus.tokenize", "lacuner.methods.registry", "lacuner.cli.__init__"} <= {
        name for name, _ in checked
    }
    wrong = [found for name, path in checked for found in wrong_imports(path.read_text("utf-8"), name)]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "from lacuner.heads import SpanHead",
        "import lacuner.heads.scores",
        "import json, lacuner.heads as heads",
        "from lacuner import heads",
        "from ..heads.scores import CHUNK",
        "from .. import heads",
        "def late():\n    from lacuner.heads import SpanHead",
        "if TYPE_CHECKING:\n    from lacuner.heads import SpanHead",
        "try:\n    from lacuner.matching import Matcher\nexcept ImportError:\n    pass",
        "from lacuner import Recognizer",
        "import lacuner",
    ],
)
def test_a_corpus_that_imported_from_below_would_be_noticed(source: str) -> None:
    (found,) = wrong_imports(source, "lacuner.corpus.tokenize")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "import " in text)
    assert found.startswith(f"lacuner.corpus.tokenize:{line}: imports lacuner")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lacuner.heads.scores", "from lacuner.corpus import Entity"),
        ("lacuner.heads.scores", "from lacuner.heads.width import WidthHead"),
        ("lacuner.heads.scores", "from .width import WidthHead"),
        ("lacuner.heads.scores", "from lacuner.errors import ConfigError\nfrom lacuner.parts import Part"),
        ("lacuner.heads.scores", "import torch\nfrom torch import nn\nimport lacunerish"),
        ("lacuner.recognizer", "from lacuner.model_folder import ModelFolder"),
        ("lacuner.sample.__init__", "from lacuner.corpus import Corpus"),
        ("lacuner.cli.train", "from lacuner.recognizer import Recognizer"),
        ("lacuner.cli.train", "from lacuner import Recognizer"),
        ("lacuner.parts", "from lacuner.errors import ConfigError"),
    ],
)
def test_imports_from_above_are_fine(module: str, source: str) -> None:
    assert wrong_imports(source, module) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lacuner.methods.full", "from lacuner.training.loop import fit"),
        ("lacuner.methods.full", "from lacuner.evaluation import Scores"),
        ("lacuner.models.model", "from lacuner.methods.method import Method"),
        ("lacuner.inference.predict", "from lacuner.training.loop import fit"),
        ("lacuner.inference.threshold", "from lacuner.evaluation import Scores"),
        ("lacuner.training.loop", "from lacuner.recognizer import Recognizer"),
        ("lacuner.model_folder", "from lacuner.cli import main"),
        ("lacuner.errors", "from lacuner.corpus import Corpus"),
        ("lacuner.cli.train", "from lacuner.somewhere import thing"),
    ],
)
def test_imports_from_below_are_not(module: str, source: str) -> None:
    assert len(wrong_imports(source, module)) == 1


def test_a_new_package_needs_a_place_in_the_order() -> None:
    assert wrong_imports("", "lacuner.novelty.thing") == ["lacuner.novelty.thing: novelty has no place in LAYERS"]


@pytest.mark.parametrize(
    ("package", "foreign"),
    [
        ("review", {"fastapi", "starlette", "uvicorn", "http"}),
        ("web", {"sqlite3"}),
        ("web", {"lacuner.review.database"}),
    ],
)
def test_the_review_knows_no_http_and_the_web_no_sql(package: str, foreign: set[str]) -> None:
    for path in (SOURCE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name in foreign or name.split(".")[0] in foreign], path


def test_test_modules_have_names_of_their_own() -> None:
    """pytest cannot collect two modules of the same name in folders that are no packages."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
