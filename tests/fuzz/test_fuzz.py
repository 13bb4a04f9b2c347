"""Made-up and damaged input for everything that is read: `make fuzz` for minutes, `make test` for about 20 seconds.

LACUNER_FUZZ_SEED chooses the cases, LACUNER_FUZZ_SECONDS how long all of them take together, and LACUNER_FUZZ_CASE, a
number that a failure names, repeats one case.
"""

import logging
import os
import time
from functools import partial
from pathlib import Path
from random import Random

import properties
import pytest

from lacuner import Recognizer

SEED = os.environ.get("LACUNER_FUZZ_SEED", "1")
SECONDS = float(os.environ.get("LACUNER_FUZZ_SECONDS", "20"))
CASE = os.environ.get("LACUNER_FUZZ_CASE")
MIN_CASES = 20
PROPERTIES = [
    properties.damaged_corpora_are_read_or_refused,
    properties.damaged_binaries_are_read_or_refused,
    properties.entities_of_records_are_read_or_reported,
    properties.entities_of_tools_are_read_or_reported,
    properties.entities_of_columns_are_read_or_reported,
    properties.entities_of_documents_are_read_or_reported,
    properties.what_is_written_comes_back,
    properties.damaged_lists_are_read_or_refused,
    properties.names_of_lists_are_read_or_reported,
    properties.settings_are_taken_or_refused,
    properties.recipes_are_taken_or_refused,
]


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(holds: properties.Property, tmp_path: Path) -> None:
    """Try cases until the time is over; the same seed tries the same ones, as many as there is time for."""
    end, number = time.monotonic() + SECONDS / (len(PROPERTIES) + 1), int(CASE or 0)
    while CASE is None or number == int(CASE):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            holds(Random(f"{SEED} {number}"), folder)
        except Exception as error:
            error.add_note(f"repeat it: LACUNER_FUZZ_SEED={SEED} LACUNER_FUZZ_CASE={number}; its files are in {folder}")
            raise
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
        number += 1
        if time.monotonic() > end and number >= MIN_CASES:
            return


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_whatever_is_read_is_read_or_refused(tmp_path, holds):
    check(holds, tmp_path)


def test_whatever_is_in_a_model_folder_is_loaded_or_refused(tmp_path, model_folder):
    assert Recognizer.from_pretrained(model_folder).predict("Ada") is not None
    check(partial(properties.damaged_models_are_loaded_or_refused, model=model_folder), tmp_path)
