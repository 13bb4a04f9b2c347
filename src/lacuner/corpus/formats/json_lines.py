"""JSON objects, one a line, with errors that say where."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


def read_records(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, with their line numbers."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (RecursionError, ValueError) as error:
            if not isinstance(error, json.JSONDecodeError):
                raise DataError(f"not JSON that can be read ({error})", "correct the line", path, number) from None
            remedy = "write one JSON object a line"
            if number == 1 and line.lstrip().startswith(("[", "{")):
                remedy += " (a JSON array or an indented object is not JSON Lines)"
            raise DataError(f"not JSON: {error.msg} at column {error.colno}", remedy, path, number) from None
        if ("\\ud" in line or "\\uD" in line) and _HALF_A_PAIR.search(json.dumps(record, ensure_ascii=False)):
            raise DataError("there is half of a surrogate pair", "write the whole character", path, number)
        if not isinstance(record, dict):
            raise DataError("the line holds no JSON object", "write one JSON object a line", path, number)
        yield number, record


def to_line(record: object) -> str:
    """A JSON object as a line of its own."""
    return json.dumps(record, ensure_ascii=False) + "\n"
