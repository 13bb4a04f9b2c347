"""JSON objects, one a line, with errors that say where."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError

MAX_DEPTH = 100
"""How deep lists and objects of a record may be nested, so that whatever is read can be written, too."""
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


class UnfitJSONError(ValueError):
    """JSON that Python would take, with loss or so that it could not be written again."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def read_records(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, with their line numbers."""
    return decode_records(read_lines(path), path)


def decode_records(lines: Iterable[tuple[int, str]], path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects in numbered lines of a file; blank ones are skipped."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = decode_json(line)
        except json.JSONDecodeError as error:
            remedy = "write one JSON object a line"
            if number == 1 and line.lstrip().startswith(("[", "{")):
                remedy += " (a JSON array or an indented object is not JSON Lines)"
            raise DataError(f"not JSON: {error.msg} at column {error.colno}", remedy, path, number) from None
        except UnfitJSONError as error:
            raise DataError(error.what, error.remedy, path, number) from None
        record = _from_tuple(record)
        if not isinstance(record, dict):
            raise DataError("the line holds no JSON object", "write one JSON object a line", path, number)
        yield number, record


def decode_json(text: str) -> Any:
    """The value that a text describes.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnfitJSONError: a key is there twice (Python would keep the last one), a number is NaN or infinite, there is
            half of a surrogate pair, or lists and objects are nested more than 100 deep.
    """
    try:
        value = _DECODER.decode(text)
    except (json.JSONDecodeError, UnfitJSONError):
        raise
    except RecursionError:
        raise _TOO_DEEP from None
    except ValueError as error:  # a whole number of thousands of digits
        raise UnfitJSONError(f"not JSON that can be read ({error})", "correct the line") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise _TOO_DEEP
    if ("\\ud" in text or "\\uD" in text) and _HALF_A_PAIR.search(json.dumps(value, ensure_ascii=False)):
        raise UnfitJSONError("there is half of a surrogate pair", "write the whole character")
    return value


def to_line(record: object, indent: int | None = None, ascii_only: bool = False) -> str:
    """A value as JSON, and a line feed; what JSON cannot hold is refused."""
    try:
        return json.dumps(record, ensure_ascii=ascii_only, indent=indent, allow_nan=False) + "\n"
    except ValueError as error:
        what = f"a record holds what JSON cannot ({str(error).lower()})"
        raise DataError(what, "give finite numbers, or leave them out") from None
    except (TypeError, RecursionError) as error:
        raise DataError(f"a record cannot be written as JSON ({error})", "correct the field") from None


def _from_tuple(value: Any) -> Any:
    """A training tuple of spaCy, ``[text, {"entities": …}]``, as an object; anything else as it is."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return {"text": value[0], **value[1]}
    return value


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnfitJSONError(f"the key {twice!r} is there twice", "keep one of them")
    return record


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnfitJSONError(f"the number {text[:20]} is too large", "write a smaller one, or null")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise UnfitJSONError(f"{name} is no number in JSON", "write null instead")


def _is_deep(record: object) -> bool:
    layer: list[Any] = [record]
    for _ in range(MAX_DEPTH + 1):
        layer = [value for value in layer if isinstance(value, dict | list)]
        layer = [item for value in layer for item in (value.values() if isinstance(value, dict) else value)]
    return bool(layer)


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct_keys, parse_float=_finite, parse_constant=_refuse_constant)
_TOO_DEEP = UnfitJSONError(f"lists and objects are nested more than {MAX_DEPTH} deep", "make the record flatter")
