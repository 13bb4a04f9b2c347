"""Preserving what a foreign format cannot represent, as long as it is consistent with the format's own content.

A format that other tools read and change has its own fields for words and entities. Everything else about a sentence is
stored in one JSON string, as the difference between the sentence and what the format alone would give.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json, to_line
from lacuner.corpus.formats.records import SENTENCE_KEYS, sentence_from_record, sentence_to_record
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

KEPT = "lacuner"
"""Name of the field or column with the preserved data."""


def kept_record(sentence: Sentence, plain: Sentence) -> str | None:
    """The data needed to restore ``sentence`` from ``plain``, which the format returns; ``None`` if they are equal."""
    record, held = sentence_to_record(sentence), sentence_to_record(plain)
    fields = {key: value for key, value in record.items() if key not in held or held[key] != value}
    without = [key for key in held if key not in record]
    if not fields and not without:
        return None
    return to_line({"fields": fields} | ({"without": without} if without else {})).rstrip("\n")


def restored(
    plain: Sentence,
    kept: object,
    plain_of: Callable[[Sentence], Sentence],
    path: str | Path,
    number: int,
    report: ReadingReport,
) -> Sentence:
    """Restore the sentence whose representation in the format is ``plain``.

    If words or entities have been changed since it was written, the changes take precedence, and stored data about them is
    dropped.

    Args:
        plain: according to the format.
        kept: data of :func:`kept_record`; ``None`` if there is none.
        plain_of: converts a sentence to what the format would return.
        path: for errors.
        number: of the sentence, for errors.
        report: counts inconsistent data.
    """
    if kept is None:
        return plain
    fields, without = _parse(kept, path, number)
    record = {key: value for key, value in (sentence_to_record(plain) | fields).items() if key not in without}
    try:
        sentence = sentence_from_record(record, path, number)
        if plain_of(sentence) == plain:
            return sentence
    except DataError:
        pass
    what = f'words or entities are not those that "{KEPT}" was written for; what it says about them is left out'
    report.note("changed sentences", what, "remove it", path, number)
    extra = {key: value for key, value in fields.items() if key not in SENTENCE_KEYS}
    return replace(plain, extra={**plain.extra, **extra})


def is_json(value: object) -> bool:
    """Whether a value survives a round trip as a field of a record."""
    try:
        return bool(decode_json(to_line(value)) == value)
    except (DataError, UnfitJSONError, RecursionError):
        return False


def _parse(kept: object, path: str | Path, number: int) -> tuple[dict[str, Any], list[Any]]:
    try:
        value = decode_json(kept) if isinstance(kept, str) else kept
    except (json.JSONDecodeError, UnfitJSONError):
        value = None
    fields, without = (value.get("fields"), value.get("without", [])) if isinstance(value, dict) else (None, None)
    if not isinstance(fields, dict) or not isinstance(without, list) or "tokens" in without:
        raise DataError(f'"{KEPT}" is not what was written there', "remove it", path, number)
    return fields, without
