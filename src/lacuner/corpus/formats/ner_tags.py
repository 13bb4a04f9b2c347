"""Rows of ``tokens`` and ``ner_tags``, as in Hugging Face datasets; as JSON Lines, one row per line.

Tags are names, or numbers with names in the features of the dataset. What tags cannot represent is stored in a separate
field, which other tools can ignore.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_records, to_line
from lacuner.corpus.formats.kept_records import KEPT, is_json, kept_record, restored
from lacuner.corpus.formats.records import SENTENCE_KEYS, sentence_from_record
from lacuner.corpus.formats.span_keys import SPAN_KEYS, looks_like_spans
from lacuner.corpus.formats.tag_schemes import Scheme, TagError, decode_tags, detect_scheme, encode_tags
from lacuner.corpus.overlaps import without_overlaps
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

WORD_COLUMNS, TAG_COLUMNS = ("tokens", "words"), ("ner_tags", "tags", "ner")
"""Columns of words and tags, in order of precedence."""
UNKNOWN_NUMBER = -100
"""The number of an unknown word, which losses ignore."""
RESERVED = frozenset({*WORD_COLUMNS, *TAG_COLUMNS, *SENTENCE_KEYS, KEPT, ""})
"""Column names that are not available for other fields."""
_UNKNOWN_NUMBERS = (UNKNOWN_NUMBER, -1)
_UNKNOWN_TAG = "?"
_LOOK_AHEAD = 10_000

Row = Mapping[str, Any]


def is_tagged(row: Row) -> bool:
    """Whether a record has words with tags, and no spans."""
    words, tags = row.get("tokens"), row.get("ner_tags")
    if not isinstance(words, list) or not isinstance(tags, list) or "entities" in row:
        return False
    return all(isinstance(tag, str | int) for tag in tags) and not any(
        looks_like_spans(row.get(key)) for key in SPAN_KEYS
    )


def read_ner_tags(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a JSON Lines file."""
    return sentences_of_rows(read_records(path), {}, path, report)


def write_ner_tags(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write rows with names of tags."""
    for number, sentence in enumerate(sentences, options.first):
        row = row_of(sentence, options.name or "output", number)
        file.write(to_line({key: value for key, value in row.items() if value is not None}))


def sentences_of_rows(
    rows: Iterable[tuple[int, Row]],
    names: Mapping[str, Sequence[str]],
    path: str | Path,
    report: ReadingReport,
    scheme: Scheme | None = None,
) -> Iterator[Sentence]:
    """Yield sentences of numbered rows; the tagging scheme is detected from the first 10,000, unless given.

    Args:
        rows: the rows.
        names: of integer tags, by column.
        path: for errors.
        report: counts broken tags.
        scheme: the tagging scheme.
    """
    rows = iter(rows)
    ahead = list(islice(rows, _LOOK_AHEAD if scheme is None else 1))
    if not ahead:
        return
    columns = _columns(ahead[0][1], path)
    scheme = scheme or scheme_of_rows(ahead, names, path)
    for number, row in chain(ahead, rows):
        words, tags = _tags(row, columns, names, path, number)
        extra = _extra(row, columns, path, number, report)
        plain = _decode(words, tags, scheme, row.get("text"), extra, path, number, report)
        yield restored(plain, row.get(KEPT), _plain, path, number, report)


def scheme_of_rows(rows: Iterable[tuple[int, Row]], names: Mapping[str, Sequence[str]], path: str | Path) -> Scheme:
    """Detect the tagging scheme from the first 10,000 rows."""
    ahead = list(islice(rows, _LOOK_AHEAD))
    columns = _columns(ahead[0][1], path)
    return detect_scheme(_tags(row, columns, names, path, number)[1] for number, row in ahead)


def row_of(sentence: Sentence, path: str | Path, number: int, columns: Container[str] | None = None) -> dict[str, Any]:
    """A sentence as a row with names of tags, its other fields, and any additional data to preserve.

    Args:
        sentence: the sentence.
        path: for errors.
        number: of the row, for errors.
        columns: the fields that can be columns; all by default.
    """
    if not all(sentence.tokens):
        raise DataError("a word is empty", "remove it", path, number)
    fields = {
        key: value
        for key, value in sentence.extra.items()
        if key not in RESERVED and value is not None and (columns is None or key in columns)
    }
    try:
        plain = replace(_plain(sentence), extra=fields)
    except DataError as error:
        raise DataError(error.what, "write JSON Lines (.jsonl) instead", path, number) from None
    row = {"tokens": list(sentence.tokens), "ner_tags": _encode(sentence), "text": plain.text}
    return row | fields | {KEPT: kept_record(sentence, plain)}


def _plain(sentence: Sentence) -> Sentence:
    """The sentence according to words and tags alone."""
    words, tags = list(sentence.tokens), _encode(sentence)
    return _decode(words, tags, "bio2", sentence.text, {}, "", 1, ReadingReport())


def _encode(sentence: Sentence) -> list[str]:
    flat = without_overlaps(sentence.entities)
    unknown: set[int] = set()
    if sentence.complete:  # otherwise O means nothing
        unknown = {index for entity in sentence.entities for index in range(entity.start, entity.end)}
        unknown |= sentence.unknown_tokens
    return encode_tags(flat, len(sentence), "bio2", unknown)


def _decode(
    words: list[str],
    tags: Sequence[str],
    scheme: Scheme,
    text: object,
    extra: Mapping[str, Any],
    path: str | Path,
    number: int,
    report: ReadingReport,
) -> Sentence:
    remedy = f"correct the tag (they read as {scheme.upper()})"
    try:
        entities, repairs, unknown = decode_tags(tags, scheme)
    except TagError as error:
        raise DataError(str(error), remedy, path, number) from None
    for repair in repairs:
        report.note("repaired tags", repair.what, remedy, path, number)
    record: dict[str, Any] = {"tokens": words, "entities": [[e.start, e.end, e.label] for e in entities], "text": text}
    if unknown:  # explicit unknown tags imply that O is meant
        record |= {"unknown_tokens": sorted(unknown), "complete": True}
    return sentence_from_record(record | dict(extra), path, number, report)


def _columns(row: Row, path: str | Path) -> tuple[str, str]:
    words, tags = (next((key for key in keys if key in row), None) for keys in (WORD_COLUMNS, TAG_COLUMNS))
    if words is None or tags is None:
        what = f"there are no columns with words and their tags, only: {', '.join(map(str, row))[:100]}"
        raise DataError(what, 'call them "tokens" and "ner_tags"', path)
    return words, tags


def _tags(
    row: Row, columns: tuple[str, str], names: Mapping[str, Sequence[str]], path: str | Path, number: int
) -> tuple[list[str], list[str]]:
    """The words of a row, and the names of their tags."""
    (word_key, tag_key), words, tags = columns, row.get(columns[0]), row.get(columns[1])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise DataError(f'"{word_key}" must be a list of words', "correct the row", path, number)
    if not isinstance(tags, list) or len(tags) != len(words):
        raise DataError(f'"{tag_key}" must be a list with a tag for each word', "correct the row", path, number)
    if all(isinstance(tag, str) for tag in tags):
        return words, tags
    known = names.get(tag_key)
    if known is None and all(type(tag) is int for tag in tags):
        what = f'"{tag_key}" are numbers, and nothing says which tags they stand for'
        remedy = "write names (B-PER, …), or in Python: Corpus.from_dataset(dataset, names=[…])"
        raise DataError(what, remedy, path, number)
    return words, [_name(tag, known or (), path, number) for tag in tags]


def _name(tag: object, names: Sequence[str], path: str | Path, number: int) -> str:
    if type(tag) is int and tag in _UNKNOWN_NUMBERS:
        return _UNKNOWN_TAG
    if type(tag) is not int or not 0 <= tag < len(names):
        what = f"the tag {str(tag)[:40]!r} is not one of the {len(names)} that have names"
        raise DataError(what, "correct the tag, or the names", path, number)
    return names[tag]


def _extra(row: Row, columns: tuple[str, str], path: str | Path, number: int, report: ReadingReport) -> dict[str, Any]:
    """Other columns; empty ones count as absent."""
    extra = {}
    for key, value in row.items():
        if key in (*columns, KEPT, "text") or value is None:
            continue
        if key in SENTENCE_KEYS or not is_json(value):
            what = f"the column {key!r} cannot be a field of a record; it is left out"
            report.note("fields left out", what, "give it another name, or remove it", path, number)
        else:
            extra[key] = value
    return extra


FORMATS = [Format("ner_tags", read=read_ner_tags, write=write_ner_tags)]
