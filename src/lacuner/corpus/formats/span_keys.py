"""Detection of the key with a record's spans, and of other keys that may contain annotation."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.tag_schemes import UNKNOWN_TAGS, label_of
from lacuner.corpus.sentence import OUTSIDE
from lacuner.errors import DataError

SPAN_KEYS = ("entities", "spans", "ents", "label", "labels")
"""Keys of spans: ours and spaCy's, Prodigy's, Doc.to_json's, doccano's."""
TAG_KEYS = ("ner_tags", "tags")
"""Keys used by other tools for a tag per word, which are not read."""
TOKEN_FIELDS = "token_fields"
"""Key of unknown fields of single tokens, which are passed through, as one object per word."""
LABEL_STUDIO_FIELDS, ARGILLA_FIELDS = "label_studio", "argilla"
"""Keys of these tools' record parts that a sentence cannot represent, which are passed through."""
_CATEGORY_KEYS = ("label", "labels")
"""Keys that may also contain the category of the whole text, as a string or a list of strings."""
_RELATIONS = "relations"
"""Prodigy repeats related spans here."""
LABEL_NAMES = ("type", "entity_group", "entity_type", "entity", "class", "category", "tag")
"""Names of the label field in other tools."""
_STARTS = ("start", "start_offset", "begin", "start_char", "startOffset")
_ENDS = ("end", "end_offset", "stop", "end_char", "endOffset")
_LABELS = ("label", "labels", *LABEL_NAMES)
_LIKE_ANNOTATION = re.compile(r"annotation|entit|span|mention|label|tag|\bner\b", re.IGNORECASE)
_DEPTH = 5
"""Maximum depth to search for spans: Label Studio has lists of annotations with lists of results."""


def find_span_key(record: Mapping[str, Any], keys: Collection[str], path: str | Path, line: int) -> str:
    """The only key with spans of a text, or the first of ``keys`` if there are no spans.

    Args:
        record: the JSON object.
        keys: where the format has them.
        path: for errors.
        line: for errors.
    """
    filled = [key for key in SPAN_KEYS if holds_spans(record, key)]
    for key in filled:
        if not isinstance(record[key], list):
            raise DataError(f'"{key}" must be a list', "write [[start, end, label], …]", path, line)
    if len(filled) > 1:
        what = f'there are spans under two keys, "{filled[0]}" and "{filled[1]}"'
        raise DataError(what, "keep the intended ones", path, line)
    if filled and filled[0] not in keys:
        what = f'there are spans under "{filled[0]}", where this format has none'
        raise DataError(what, "read it as jsonl", path, line)
    tags = next((key for key in TAG_KEYS if holds_tags(record, key)), None)
    if tags is not None:
        what = f'"{tags}" is given with "text", but not the words that it belongs to'
        raise DataError(what, 'give them as "tokens", and "entities" that count words', path, line)
    return filled[0] if filled else next(iter(keys))


def holds_spans(record: Mapping[str, Any], key: str) -> bool:
    """Whether a span key contains anything that should be spans, unlike empty spaCy groups and categories."""
    value = record.get(key)
    if isinstance(value, Mapping) and not any(value.values()):
        return False
    if key in _CATEGORY_KEYS:
        if not isinstance(value, list):
            return looks_like_spans(value)
        return not all(isinstance(item, str) for item in value)
    return value is not None and value != []


def holds_tags(record: Mapping[str, Any], key: str) -> bool:
    """Whether a key used by other tools for tags contains one per word."""
    value = record.get(key)
    return looks_like_tags(value) or (key == "ner_tags" and isinstance(value, list) and value != [])


def looks_like_spans(value: object, depth: int = _DEPTH) -> bool:
    """Whether lists and objects contain something with a start, an end and a label."""
    if isinstance(value, Mapping):
        if _is_span(value):
            return True
        inner: Collection[object] = value.values()
    elif isinstance(value, list):
        if _is_triple(value):
            return True
        inner = [item for item in value if isinstance(item, list | dict)]
    else:
        return False
    return depth > 0 and any(looks_like_spans(item, depth - 1) for item in inner)


def looks_like_tags(value: object) -> bool:
    """Whether this is a list of tags such as ``O`` and ``B-PER``."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        return False
    is_tag = [item == OUTSIDE or label_of(item) is not None for item in value]
    return any(is_tag) and all(tag or item in UNKNOWN_TAGS for tag, item in zip(is_tag, value, strict=True))


def note_unread(extra: Mapping[str, Any], text: str | None, path: str | Path, line: int, report: ReadingReport) -> None:
    """Count the unread fields that are passed through; warn about those that look like annotation or words.

    Args:
        extra: the fields.
        text: the tokenized text, unless the record had words.
        path: for the report.
        line: for the report.
        report: counts.
    """
    for key, value in extra.items():
        if key in (TOKEN_FIELDS, LABEL_STUDIO_FIELDS, ARGILLA_FIELDS):
            continue
        report.unread[key] += 1
        if key == _RELATIONS or not isinstance(value, list | dict) or not value:
            continue
        if looks_like_tags(value) or looks_like_spans(value):
            what = f'"{key}" looks like annotation, but is not read'
            report.note("annotation that is not read", what, 'write it under "entities", or remove it', path, line)
        elif text is not None and (key == "words" or _are_words(value, text)):
            what = f'"{key}" looks like the words of the text, but is not read'
            report.note("words that are not read", what, 'write them under "tokens", or remove them', path, line)


def note_unread_keys(report: ReadingReport, path: str | Path, line: int) -> None:
    """Warn about a file without entities if an unread key may contain them."""
    known = (*SPAN_KEYS, *TAG_KEYS)  # if unread, they contain something else
    if report.counts["annotation that is not read"]:
        return
    if any(_LIKE_ANNOTATION.search(key) for key in report.unread if key not in known):
        keys = ", ".join(key for key, _ in report.unread.most_common(10))
        what = f"no entity was read; keys that are not read: {keys}"
        report.note("files without entities", what, 'write spans under "entities"', path, line)


def _is_span(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(any(key in value for key in keys) for keys in (_STARTS, _ENDS, _LABELS))


def _is_triple(value: list[Any]) -> bool:
    return len(value) == 3 and sorted(type(item).__name__ for item in value) == ["int", "int", "str"]


def _are_words(value: object, text: str) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, str) for item in value) and "".join("".join(value).split()) == "".join(text.split())
