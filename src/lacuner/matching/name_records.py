"""Dictionaries as JSON objects: our own, and the patterns of spaCy's EntityRuler."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lacuner.corpus import OUTSIDE
from lacuner.corpus.files import ReadingReport, name_of
from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json, decode_records
from lacuner.errors import DataError
from lacuner.matching.entry import CASES, Case, Entry
from lacuner.matching.name_tables import NAME_COLUMNS, Lines

_LABEL_KEYS = ("label", "type")
_TOKEN_CASES: dict[str, Case] = {"LOWER": "ignore", "TEXT": "exact", "ORTH": "exact"}
"""Supported token attributes of patterns, and their case sensitivity."""
_REMEDY = 'write {"name": …, "label": …}'


def are_records(lines: Lines, path: str | Path) -> bool:
    """Whether the file contains JSON objects, by its name or first line."""
    if name_of(path).endswith((".jsonl", ".ndjson", ".json")):
        return True
    try:
        return lines[0][1].lstrip().startswith("{") and isinstance(decode_json(lines[0][1]), dict)
    except (json.JSONDecodeError, UnfitJSONError):
        return False


def read_name_records(
    lines: Lines, path: str | Path, report: ReadingReport, label: str | None = None, typed: bool = True
) -> Iterator[tuple[int, Entry]]:
    """Read names from JSON objects, one per line or in a list, with their line numbers.

    Args:
        lines: of the file.
        path: its name, for errors.
        report: counts skipped objects.
        label: of names that have none.
        typed: whether to read the objects' own labels.
    """
    for line, record in _records(lines, path):
        key = next((key for key in NAME_COLUMNS if key in record), None)
        if key is None:
            what = f"there is no name under {', '.join(NAME_COLUMNS[:5])}; it is left out"
            report.note("objects without a name", what, _REMEDY, path, line)
            continue
        surface, case = _surface(record[key]), record.get("case")
        if surface is None:
            what = f"{json.dumps(record[key], ensure_ascii=False)[:80]} is no name and no row of plain words; it is left out"
            report.note("patterns that are not plain words", what, "write the words as a text", path, line)
            continue
        name, own_case = surface
        given = next((record[each] for each in _LABEL_KEYS if record.get(each) is not None), label) if typed else label
        if not name or not isinstance(given, str) or not given.strip() or given.strip() == OUTSIDE:
            what = f"{name!r} has the label {given!r}; it is left out"
            report.note("names without a label", what, f"{_REMEDY}, or give the --label of all names", path, line)
            continue
        if case is not None and case not in CASES:
            what = f"{name!r} has the case {case!r}, which is neither exact nor ignore; it is left out"
            report.note("unknown cases", what, "write exact or ignore", path, line)
            continue
        report.unread.update(record.keys() - {key, "case", *_LABEL_KEYS})
        yield line, Entry(name, given.strip(), case or own_case)


def _surface(value: object) -> tuple[str, Case | None] | None:
    """The words of a pattern, and whether case matters; ``None`` if it matches on anything but words."""
    if isinstance(value, str):
        return " ".join(value.split()), None
    if not isinstance(value, list) or not value:
        return None
    words: list[str] = []
    cases: set[Case] = set()
    for token in value:
        if not isinstance(token, Mapping) or len(token) != 1:
            return None
        ((attribute, word),) = token.items()
        case = _TOKEN_CASES.get(str(attribute).upper())
        if case is None or not isinstance(word, str) or len(word.split()) != 1:
            return None
        words.append(word.strip())
        cases.add(case)
    return (" ".join(words), cases.pop()) if len(cases) == 1 else None


def _records(lines: Lines, path: str | Path) -> Iterable[tuple[int, dict[str, Any]]]:
    if not lines[0][1].lstrip().startswith("["):
        return decode_records(lines, path)
    try:
        items = decode_json("\n".join(line for _, line in lines))
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg}"
        raise DataError(what, "write a JSON list, or one object a line", path, _line_of(lines, error.lineno)) from None
    except UnfitJSONError as error:
        raise DataError(error.what, error.remedy, path) from None
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise DataError(f"item {number} of the list is no JSON object", _REMEDY, path)
    return [(lines[0][0], item) for item in items]


def _line_of(lines: Sequence[tuple[int, str]], number: int) -> int:
    return lines[min(number, len(lines)) - 1][0]
