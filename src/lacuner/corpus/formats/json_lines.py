"""JSON objects, one per line or in an array, with errors that include the position."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TextIO

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError

MAX_DEPTH = 100
"""Maximum nesting depth of records, so that whatever is read can also be written."""
_JSON_SPACE = " \t\n\r"
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


class UnfitJSONError(ValueError):
    """JSON that Python would accept, but lose data or be unable to write again."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def read_records(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file with their line numbers."""
    return decode_records(read_lines(path), path)


def read_objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file, one per line, in an array, or indented, with the numbers of their first lines.

    Only a file with one object per line is read in constant memory; others are read as a whole.
    """
    lines = read_lines(path)
    for number, line in lines:
        if not line.strip():
            continue
        if line.lstrip().startswith("[") and not _is_tuple_line(line):
            yield from _elements("\n".join([line, *(rest for _, rest in lines)]), number, path)
        elif _goes_on(line):
            rest = [other for _, other in lines]
            if next((other for other in rest if other.strip()), "").startswith(
                "{"
            ):  # the next record follows, so this one is broken
                raise _not_json(line, path, number)
            yield from _indented("\n".join([line, *rest]), number, path)
        else:
            yield from decode_records(chain([(number, line)], lines), path)
        return


def is_one_a_line(path: str | Path) -> bool:
    """Whether there is one object per line, not an array or indented objects."""
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    return not _goes_on(first) and (not first.lstrip().startswith("[") or _is_tuple_line(first))


def write_array(records: Iterable[object], file: TextIO, ascii_only: bool = False) -> None:
    """Write a JSON array from a stream of records, one per line."""
    before = "[\n"
    for record in records:
        file.write(before + to_line(record, ascii_only=ascii_only).removesuffix("\n"))
        before = ",\n"
    file.write("[]\n" if before == "[\n" else "\n]\n")


def decode_records(lines: Iterable[tuple[int, str]], path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects in numbered lines of a file; blank ones are skipped."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = decode_json(line)
        except json.JSONDecodeError:
            raise _not_json(line, path, number) from None
        except UnfitJSONError as error:
            raise DataError(error.what, error.remedy, path, number) from None
        record = _from_tuple(record)
        if not isinstance(record, dict):
            raise DataError("the line is not a JSON object", "write one JSON object a line", path, number)
        yield number, record


def _is_tuple_line(line: str) -> bool:
    """Whether the line is a complete spaCy training tuple, not the beginning of an array."""
    try:
        return isinstance(_from_tuple(decode_json(line)), dict)
    except (json.JSONDecodeError, UnfitJSONError):
        return False


def _goes_on(line: str) -> bool:
    """Whether the line begins an object that may end in a later line."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        decode_json(line)
    except json.JSONDecodeError:
        return True
    except UnfitJSONError:
        pass
    return False


def _not_json(line: str, path: str | Path, number: int) -> DataError:
    remedy = "write one JSON object a line"
    if number == 1 and line.lstrip().startswith(("[", "{")):
        remedy += " (a JSON array or an indented object is not JSON Lines)"
    try:
        _DECODER.decode(line)
    except json.JSONDecodeError as error:
        return DataError(f"not JSON: {error.msg} at column {error.colno}", remedy, path, number)
    raise AssertionError("it is JSON")


def _elements(text: str, first: int, path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array."""
    scanner = _Scanner(text, first, path)
    scanner.skip("[")
    if not scanner.skip("]"):
        while True:
            yield scanner.record("the array")
            if scanner.skip("]"):
                break
            if not scanner.skip(","):
                raise scanner.error("a comma or the end of the array is missing")
    if not scanner.at_end():
        raise scanner.error("there is content after the end of the array")


def _indented(text: str, first: int, path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Consecutive objects, each of any number of lines."""
    scanner = _Scanner(text, first, path)
    while not scanner.at_end():
        yield scanner.record("the file")


class _Scanner:
    """Scans a text with several JSON values."""

    def __init__(self, text: str, first: int, path: str | Path) -> None:
        self._text, self._path, self._at = text, path, 0
        self._line, self._counted = first, 0

    def skip(self, mark: str) -> bool:
        """Skip a token, if it comes next."""
        found = self._next().startswith(mark)
        self._at += found
        return found

    def at_end(self) -> bool:
        """Whether only whitespace remains."""
        return not self._next()

    def record(self, where: str) -> tuple[int, dict[str, Any]]:
        """The next object, and its line."""
        self._next()
        line, begin = self._line_now(), self._at
        try:
            value, self._at = _scan(self._text, begin)
        except json.JSONDecodeError as error:
            self._at = min(error.pos, len(self._text))
            raise self.error(f"not JSON: {error.msg} at column {error.colno}") from None
        except UnfitJSONError as error:
            raise DataError(error.what, error.remedy, self._path, line) from None
        value = _from_tuple(value)
        if not isinstance(value, dict):
            raise DataError(f"{where} holds something that is not an object", "write objects", self._path, line)
        return line, value

    def error(self, what: str) -> DataError:
        """An error at this position."""
        return DataError(what, "correct the file, or export it again", self._path, self._line_now())

    def _next(self) -> str:
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _line_now(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = max(self._counted, self._at)
        return self._line


def decode_json(text: str) -> Any:
    """Parse a JSON value strictly.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnfitJSONError: a duplicate key (of which Python would keep the last value), NaN or infinity, a lone surrogate, or
            nesting deeper than 100 levels.
    """
    begin = len(text) - len(text.lstrip(_JSON_SPACE))
    value, end = _scan(text, begin)
    if text[end:].strip(_JSON_SPACE):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def to_line(record: object, indent: int | None = None, ascii_only: bool = False) -> str:
    """Serialize a value as JSON with a line feed; reject values that JSON cannot represent."""
    try:
        return json.dumps(record, ensure_ascii=ascii_only, indent=indent, allow_nan=False) + "\n"
    except ValueError as error:
        what = f"a record holds what JSON cannot ({str(error).lower()})"
        raise DataError(what, "give finite numbers, or leave them out") from None
    except (TypeError, RecursionError) as error:
        raise DataError(f"a record cannot be written as JSON ({error})", "correct the field") from None


def _from_tuple(value: Any) -> Any:
    """Convert a spaCy training tuple, ``[text, {"entities": …}]``, to an object; return others unchanged."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return {"text": value[0], **value[1]}
    return value


def _scan(text: str, begin: int) -> tuple[Any, int]:
    """Parse the value that begins here, and return its end."""
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (json.JSONDecodeError, UnfitJSONError):
        raise
    except RecursionError:
        raise _TOO_DEEP from None
    except ValueError as error:  # an integer with thousands of digits
        raise UnfitJSONError(f"not JSON that can be read ({error})", "correct the line") from None
    if text.count("[", begin, end) + text.count("{", begin, end) > MAX_DEPTH and _is_deep(value):
        raise _TOO_DEEP
    escaped = text.find("\\ud", begin, end) >= 0 or text.find("\\uD", begin, end) >= 0
    if escaped and _HALF_A_PAIR.search(json.dumps(value, ensure_ascii=False)):
        raise UnfitJSONError("there is half of a surrogate pair", "write the whole character")
    return value, end


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnfitJSONError(f"the key {twice!r} occurs twice", "keep one of them")
    return record


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnfitJSONError(f"the number {text[:20]} is too large", "write a smaller one, or null")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise UnfitJSONError(f"{name} is not a number in JSON", "write null instead")


def _is_deep(record: object) -> bool:
    layer: list[Any] = [record]
    for _ in range(MAX_DEPTH + 1):
        layer = [value for value in layer if isinstance(value, dict | list)]
        layer = [item for value in layer for item in (value.values() if isinstance(value, dict) else value)]
    return bool(layer)


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct_keys, parse_float=_finite, parse_constant=_refuse_constant)
_TOO_DEEP = UnfitJSONError(f"lists and objects are nested more than {MAX_DEPTH} deep", "make the record flatter")
