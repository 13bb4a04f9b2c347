"""Commands that need no model start without loading what models need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lacuner import sample
from lacuner.cli.catalog import PATH, as_text, make_catalog, read_catalog

SAMPLE = str(Path(sample.__file__).with_name("dev.conll"))
HEAVY = ("torch", "transformers", "accelerate", "numpy", "fastapi", "matplotlib", "multiprocessing.pool")

CODE = f"""
import sys
from lacuner.cli import main
try:
    main()
finally:
    print("LOADED", *sorted(set(sys.modules) & {set(HEAVY)!r}), file=sys.stderr)
"""


def loaded_by(*arguments: str) -> list[str]:
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    return done.stderr.rpartition("LOADED")[2].split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["methods"],
        ["methods", "uniform"],
        ["methods", "--json"],
        ["inspect", SAMPLE],
        ["inspect", SAMPLE, "--gold", SAMPLE, "--json"],
        ["mask", SAMPLE, "--probability", "0.5", "--out", "-"],
        ["convert", SAMPLE, "-", "--to", "jsonl"],
        *(
            [verb, "--help"]
            for verb in (
                "train",
                "evaluate",
                "predict",
                "annotate",
                "split",
                "merge",
                "audit",
                "review",
                "demo",
                "bench",
            )
        ),
        ["analyse", "--help"],
        ["bench", "data"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    assert loaded_by(*arguments) == []


def test_the_stored_catalog_of_methods_is_that_of_the_registry() -> None:
    assert PATH.read_text(encoding="utf-8") == as_text(make_catalog()), "run make catalog"


def test_what_is_read_is_what_is_stored() -> None:
    assert read_catalog() == json.loads(PATH.read_text(encoding="utf-8")) == json.loads(as_text(make_catalog()))
