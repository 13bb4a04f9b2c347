"""What a foreign format cannot hold, kept beside it, and believed only as long as it fits what the format says.

A format that others read and change has fields of its own for words and entities. Whatever else we know about a sentence is
kept in one string of JSON, as the difference between the sentence and what the format alone would give back.
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
"""Name of the field or column that holds it."""


def kept_record(sentence: Sentence, plain: Sentence) -> str | None:
    """What has to be kept so that ``plain``, which the format gives back, becomes ``sentence``; ``None`` if it is."""
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
    """The sentence of which the format holds ``plain``.

    If somebody has changed words or entities since it was written, these count, and what was kept about others is left out.

    Args:
        plain: what the format says.
        kept: what was kept beside it, as :func:`kept_record` has written it; ``None`` if there is nothing.
        plain_of: what the format would say of a sentence.
        path: for errors.
        number: of the sentence, for errors.
        report: counts what no longer fits.
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
    """Whether a value can be a field of a record, and come back as it was."""
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
