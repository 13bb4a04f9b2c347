"""JSON Lines: our own ``tokens`` + ``entities``, and ``text`` + character spans as spaCy, doccano and Prodigy write them."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.records import (
    entity_from_record,
    entity_to_record,
    sentence_from_record,
    sentence_to_record,
    span_from_record,
)
from lacuner.corpus.sentence import Entity, Sentence, Span
from lacuner.corpus.tokenize import Splitting, split_words
from lacuner.errors import DataError

SPAN_KEYS = ("entities", "spans", "ents", "label", "labels")
"""Where spans stand: ours and spaCy's, Prodigy's, Doc.to_json's, doccano's two."""
_NOT_IN_WORDS = (*SPAN_KEYS[1:], "ner_tags", "tags")
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


def read_jsonl(path: str | Path, report: ReadingReport, split: Splitting = "words") -> Iterator[Sentence]:
    """Sentences of a JSON Lines file, streamed; ``split`` says how raw text becomes words."""
    for number, record in read_records(path):
        if record.get("answer") in ("reject", "ignore"):
            what = f"the record's answer is {record['answer']!r}; it is left out"
            report.note("unaccepted records", what, "remove the record", path, number)
            continue
        if not isinstance(words_or_text(record, path, number), str):
            stray = next((key for key in _NOT_IN_WORDS if "entities" not in record and record.get(key)), None)
            if stray is not None:
                what = f'"{stray}" stands beside "tokens", which go with "entities" that count words'
                raise DataError(what, 'write "entities": [[start, end, label], …], or a column file', path, number)
            yield sentence_from_record(record, path, number, report)
        else:
            yield sentence_from_record(_with_tokens(record, path, number, report, split), path, number, report)


def words_or_text(record: Mapping[str, Any], path: str | Path, line: int) -> list[str] | str:
    """The words of a record, or the raw text if it has no list of words."""
    tokens, text = record.get("tokens"), record.get("text")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if isinstance(text, str):
        return text
    raise DataError('neither "tokens" (a list of words) nor "text" (a string) is there', "add one of them", path, line)


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
            what = "half of a surrogate pair stands where a character should"
            raise DataError(what, "write the whole character", path, number)
        if not isinstance(record, dict):
            raise DataError("the line holds no JSON object", "write one JSON object a line", path, number)
        yield number, record


def write_jsonl(sentences: Iterable[Sentence], file: TextIO) -> None:
    """Write one object a line, in our own form."""
    for sentence in sentences:
        file.write(json.dumps(sentence_to_record(sentence), ensure_ascii=False) + "\n")


def _with_tokens(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport, split: Splitting
) -> dict[str, Any]:
    """The record with words, and with its character spans turned into word spans."""
    text: str = record["text"]
    offsets = _given_offsets(record, path, line) or split_words(text, split)
    offsets = [(start, end) for start, end in offsets if text[start:end].strip()]
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]

    def words_of(span: Entity | Span) -> tuple[int, int] | None:
        if span.end > len(text):
            what = f"{span} ends behind the text's {len(text)} characters"
            raise DataError(what, "correct its offsets", path, line)
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= last:
            report.note("empty entities", f"{span} covers no word; it is left out", "remove it", path, line)
            return None
        stripped = text[span.start : span.end]
        begin = span.start + len(stripped) - len(stripped.lstrip())
        stop = span.end - len(stripped) + len(stripped.rstrip())
        if (starts[first], ends[last - 1]) != (begin, stop):
            what = f"{span} ends inside a word; it covers {text[starts[first] : ends[last - 1]]!r} now"
            report.note("entities moved to word borders", what, "let it begin and end at words", path, line)
        return first, last

    key = next((key for key in SPAN_KEYS if isinstance(record.get(key), list) and record[key]), "entities")
    entities, rejected = [], []
    for item in record.get(key) or []:
        entity = entity_from_record(item, path, line)
        if words := words_of(entity):
            entities.append(entity_to_record(replace(entity, start=words[0], end=words[1], text=None)))
    for item in record.get("non_entities") or []:
        span = span_from_record(item, path, line)
        if words := words_of(span):
            rejected.append({"start": words[0], "end": words[1], "source": span.source})
    tokens = [text[start:end] for start, end in offsets]
    return dict(record) | {"tokens": tokens, "entities": entities, "non_entities": rejected}


def _given_offsets(record: Mapping[str, Any], path: str | Path, line: int) -> list[tuple[int, int]]:
    """Where the words stand in the text, if the record has words."""
    try:
        borders = [token[key] for token in record.get("tokens") or [] for key in ("start", "end")]
        right = all(isinstance(border, int) for border in borders) and borders == sorted(borders)
    except (TypeError, KeyError):
        right, borders = False, []
    if not right or (borders and not 0 <= borders[0] <= borders[-1] <= len(record["text"])):
        what = '"tokens" must have start and end inside the text, in order'
        raise DataError(what, "correct the record", path, line)
    return list(zip(borders[::2], borders[1::2], strict=True))
