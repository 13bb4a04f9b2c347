"""JSON Lines: our own ``tokens`` + ``entities``, and ``text`` + character spans as spaCy, doccano and Prodigy write them."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.records import entity_from_record, entity_to_record, sentence_from_record, sentence_to_record
from lacuner.corpus.sentence import Entity, Sentence
from lacuner.corpus.words import Splitting, split_words
from lacuner.errors import DataError

_SPAN_KEYS = (
    "entities",
    "spans",
    "ents",
    "label",
    "labels",
)  # ours and spaCy's, Prodigy's, Doc.to_json's, doccano's two


def read_jsonl(path: str | Path, report: ReadingReport, split: Splitting = "words") -> Iterator[Sentence]:
    """Sentences of a JSON Lines file, streamed; ``split`` says how raw text becomes words."""
    for number, record in read_records(path):
        if record.get("answer") in ("reject", "ignore"):
            what = f"the record's answer is {record['answer']!r}; it is left out"
            report.note("unaccepted records", what, "remove the record", path, number)
            continue
        tokens = record.get("tokens")
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            yield sentence_from_record(record, path, number, report)
        elif isinstance(record.get("text"), str):
            yield sentence_from_record(_with_tokens(record, path, number, report, split), path, number, report)
        else:
            what = 'neither "tokens" (a list of words) nor "text" (a string) is there'
            raise DataError(what, "add one of them", path, number)


def read_records(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, with their line numbers."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            remedy = "write one JSON object a line"
            if number == 1 and line.lstrip().startswith(("[", "{")):
                remedy += " (a JSON array or an indented object is not JSON Lines)"
            raise DataError(f"not JSON: {error.msg} at column {error.colno}", remedy, path, number) from None
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
    given = record.get("tokens")
    try:
        offsets = [(t["start"], t["end"]) for t in given] if given else split_words(text, split)
    except (TypeError, KeyError):
        raise DataError('"tokens" must have text, start and end', "correct the record", path, line) from None
    offsets = [(start, end) for start, end in offsets if text[start:end].strip()]
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    key = next((key for key in _SPAN_KEYS if isinstance(record.get(key), list)), "entities")
    entities = []
    for item in record.get(key) or []:
        entity = entity_from_record(item, path, line)
        if entity.end > len(text):
            what = f"{entity} ends behind the text's {len(text)} characters"
            raise DataError(what, "correct its offsets", path, line)
        first, last = bisect_right(ends, entity.start), bisect_left(starts, entity.end)
        if first >= last:
            report.note("empty entities", f"{entity} covers no word; it is left out", "remove it", path, line)
            continue
        stripped = text[entity.start : entity.end]
        begin = entity.start + len(stripped) - len(stripped.lstrip())
        stop = entity.end - len(stripped) + len(stripped.rstrip())
        if (starts[first], ends[last - 1]) != (begin, stop):
            what = f"{entity} ends inside a word; it covers {text[starts[first] : ends[last - 1]]!r} now"
            report.note("entities moved to word borders", what, "let it begin and end at words", path, line)
        entities.append(entity_to_record(Entity(first, last, entity.label, None, entity.score, entity.source)))
    return dict(record) | {"tokens": [text[a:b] for a, b in offsets], "entities": entities}
