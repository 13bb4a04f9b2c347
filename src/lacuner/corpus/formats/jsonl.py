"""JSON Lines: our own ``tokens`` + ``entities``, and ``text`` + character spans as spaCy, doccano and Prodigy write them."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats import doccano, ner_tags, prodigy, spacy_json
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_records, to_line
from lacuner.corpus.formats.records import sentence_from_record, sentence_to_record
from lacuner.corpus.formats.span_keys import (
    SPAN_KEYS,
    TAG_KEYS,
    find_span_key,
    holds_spans,
    holds_tags,
    looks_like_spans,
)
from lacuner.corpus.formats.text_records import sentence_from_text_record
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

_ANNOTATION = frozenset({"entities", "non_entities", "complete", "annotated_labels", "unknown_tokens"})


def read_jsonl(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """Sentences of a JSON Lines file, streamed. Each record tells by its keys which tool has written it."""
    options = options or ReadOptions()
    records = read_records(path)
    first = list(islice(records, 1))
    if first and ner_tags.is_tagged(first[0][1]):
        yield from ner_tags.sentences_of_rows(chain(first, records), {}, path, report)
        return
    for number, record in chain(first, records):
        if spacy_json.is_doc(record):
            yield spacy_json.sentence_of_doc(record, path, number, report, options)
            continue
        if prodigy.is_unaccepted(record, path, number, report):
            continue
        if not isinstance(words_or_text(record, path, number), str):
            stray = _stray_annotation(record)
            if stray is not None:
                what = f'"{stray}" is given with "tokens", which go with "entities" that count words'
                raise DataError(what, 'write "entities": [[start, end, label], …], or a column file', path, number)
            yield sentence_from_record(record, path, number, report)
            continue
        key = find_span_key(record, SPAN_KEYS, path, number)
        counted = doccano.character_of(record, path, number) if doccano.is_shape(key, record) else None
        kept = {name: value for name, value in record.items() if value != [] or name not in SPAN_KEYS}
        yield sentence_from_text_record(kept, key, path, number, report, options.split, counted)


def write_jsonl(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions | None = None) -> None:
    """Write one object a line, in our own form."""
    for sentence in sentences:
        file.write(to_line(sentence_to_record(sentence)))


def words_or_text(record: Mapping[str, Any], path: str | Path, line: int) -> list[str] | str:
    """The words of a record, or the raw text if it has no list of words."""
    tokens, text = record.get("tokens"), record.get("text")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if isinstance(text, str):
        return text
    raise DataError('neither "tokens" (a list of words) nor "text" (a string) is there', "add one of them", path, line)


def without_annotation(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what it says about entities; a label of the whole text, for example, stays."""
    return {key: value for key, value in record.items() if key not in _ANNOTATION and not _is_annotation(record, key)}


def _is_annotation(record: Mapping[str, Any], key: str) -> bool:
    if key in SPAN_KEYS:
        return record[key] == [] or holds_spans(record, key)
    return key in TAG_KEYS and holds_tags(record, key)


def _stray_annotation(record: Mapping[str, Any]) -> str | None:
    """A key with annotation that does not count words.

    Where nothing is said under "entities", that is whatever a span key holds; beside them, only what looks like spans.
    """
    if record.get("entities") is None:
        spans = [key for key in SPAN_KEYS[1:] if holds_spans(record, key)]
        return next(
            (key for key in (*spans, *TAG_KEYS) if record.get(key) and isinstance(record[key], list | dict)), None
        )
    spans = [key for key in SPAN_KEYS[1:] if looks_like_spans(record.get(key))]
    return next(iter((*spans, *(key for key in TAG_KEYS if holds_tags(record, key)))), None)


FORMATS = [Format("jsonl", (".jsonl", ".ndjson", ".json"), read_jsonl, write_jsonl)]
