"""doccano: ``{"text": …, "label": [[start, end, label], …]}``, one object a line.

doccano stores the offsets that its page in the browser counts, and neither import nor export changes them: UTF-16 code
units, in which most emoji count twice (doccano issue 2290). A project that was created with "Count grapheme clusters as one
character" counts differently; its exports cannot be told from others, so such a project should not be used.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.code_units import character_at, units_before
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_records, to_line
from lacuner.corpus.formats.records import own_fields
from lacuner.corpus.formats.span_keys import find_span_key
from lacuner.corpus.formats.text_records import rejected_in_characters, sentence_from_text_record
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

SPAN_KEYS = ("label", "labels")
"""Keys of doccano's spans; with relations, they are objects under ``entities``."""


def is_shape(key: str, record: Mapping[str, Any]) -> bool:
    """Whether the spans under ``key`` were written by doccano."""
    items = record.get(key) or ()
    if key == "entities" and (isinstance(record.get("cats"), list) or "Comments" in record):
        return True
    return key in SPAN_KEYS or any(isinstance(item, Mapping) and "start_offset" in item for item in items)


def character_of(record: Mapping[str, Any], path: str | Path, line: int) -> Callable[[int], int] | None:
    """A converter of offsets in UTF-16 code units to characters; ``None`` if they are the same in this text."""
    text = record["text"]
    units = units_before(text)
    if units is None:
        return None

    def convert(offset: int) -> int:
        if offset > units[-1]:
            what = f"an entity ends at {offset}, after the text's {units[-1]} UTF-16 code units"
            raise DataError(what, "correct its offsets", path, line)
        character = character_at(units, offset)
        if character is None:
            inside = text[bisect_left(units, offset) - 1]
            what = f"offset {offset} is inside {inside!r}, as doccano counts it (in UTF-16 code units)"
            raise DataError(what, 'if the offsets count characters, write them under "entities"', path, line)
        return character

    return convert


def refuse_numbers(record: Mapping[str, Any], path: str | Path, line: int) -> None:
    """Reject exports of old versions that have numbers for labels."""
    items = record.get("annotations")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and "start_offset" in item and type(item.get("label")) is int:
            what = '"annotations" has numbers for labels, and only doccano knows their names'
            raise DataError(what, "export as JSONL with text labels", path, line)


def read_doccano(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of an exported file."""
    for number, record in read_records(path):
        if not isinstance(record.get("text"), str):
            raise DataError('"text" (a string) is not there', "export as JSONL from doccano", path, number)
        if record.get("tokens"):
            what = '"tokens" is given, which doccano does not know'
            raise DataError(what, "read it as jsonl", path, number)
        refuse_numbers(record, path, number)
        key = find_span_key(record, (*SPAN_KEYS, "entities"), path, number)
        counted = character_of(record, path, number)
        yield sentence_from_text_record(record, key, path, number, report, options.split, counted)


def write_doccano(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write a file for import; unknown fields become metadata in doccano, and are exported again."""
    for sentence in sentences:
        text, offsets = sentence.raw_text, sentence.offsets()
        units = units_before(text) or range(len(text) + 1)
        spans = [[units[offsets[e.start][0]], units[offsets[e.end - 1][1]], e.label] for e in sentence.entities]
        record: dict[str, Any] = {"text": text, "label": spans}
        known = own_fields(sentence)
        record |= {key: known[key] for key in ("complete", "annotated_labels") if key in known}
        if sentence.non_entities:
            record["non_entities"] = rejected_in_characters(sentence)
        clash = sentence.extra.keys() & {*SPAN_KEYS}
        options.losses.update(f"the field {key!r}, which doccano has a use for" for key in clash)
        file.write(to_line(record | {key: value for key, value in sentence.extra.items() if key not in clash}))


FORMATS = [
    Format(
        "doccano",
        read=read_doccano,
        write=write_doccano,
        cannot_hold=frozenset({"tokens", "unknown_tokens", "by_source", "source", "score", "entity_extra"}),
    )
]
