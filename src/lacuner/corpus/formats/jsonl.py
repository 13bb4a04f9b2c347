"""JSON Lines: our own ``tokens`` + ``entities``, and ``text`` + character spans as written by spaCy, doccano and Prodigy.

Records of other tools, and an array of records, are recognized by their shape.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, Unit
from lacuner.corpus.formats import answers, argilla, doccano, gliner, label_studio, ner_tags, prodigy, spacy_json
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import decode_records, is_one_a_line, read_objects, to_line
from lacuner.corpus.formats.records import sentence_from_record, sentence_to_record
from lacuner.corpus.formats.span_keys import (
    SPAN_KEYS,
    TAG_KEYS,
    find_span_key,
    holds_spans,
    holds_tags,
    looks_like_spans,
    note_unread_keys,
)
from lacuner.corpus.formats.text_records import sentence_from_text_record
from lacuner.corpus.ranges import lines_of
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

_SHOWN_KEYS = 10
_ANNOTATION = frozenset({"entities", "non_entities", "complete", "annotated_labels", "unknown_tokens", "by_source"})


def read_jsonl(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """Yield sentences of a JSON Lines file. The tool that wrote a record is recognized by its keys."""
    options = options or ReadOptions()
    tools, found, line = OtherTools(path, report, options), False, 0
    whole = options.range is None
    records = read_objects(path) if whole else decode_records(lines_of(path, options.range), path)
    first = list(islice(records, 1))
    if whole and first and ner_tags.is_tagged(first[0][1]):
        yield from ner_tags.sentences_of_rows(chain(first, records), {}, path, report)
        return
    for line, record in chain(first, records):
        sentences = tools.read(record, line)
        if sentences is None:
            sentences = _sentences(record, path, line, report, options)
        for sentence in sentences:
            found = found or bool(sentence.entities) or sentence.complete
            yield sentence
    tools.conclude()
    if not found and whole:
        note_unread_keys(report, path, line)


def unit_of_records(path: str | Path) -> Unit:
    """Lines; arrays of records, and tags whose scheme must be detected over all of them, are read as a whole."""
    if not is_one_a_line(path):
        return "file"
    first = next(read_objects(path), None)
    return "file" if first is not None and ner_tags.is_tagged(first[1]) else "line"


def _sentences(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport, options: ReadOptions
) -> Iterator[Sentence]:
    """The sentence of a record; none if it was not accepted."""
    answered = prodigy.with_answer(record, path, line, report)
    if answered is None:
        return
    record = answered
    doccano.refuse_numbers(record, path, line)
    if not isinstance(words_or_text(record, path, line), str):
        stray = _stray_annotation(record)
        if stray is not None:
            what = f'"{stray}" is given with "tokens", which go with "entities" that count words'
            raise DataError(what, 'write "entities": [[start, end, label], …], or a column file', path, line)
        yield sentence_from_record(record, path, line, report)
        return
    key = find_span_key(record, SPAN_KEYS, path, line)
    answer = answers.holds_answer(record)
    if answer is not None and not record.get(key):
        what = f'"{answer}" looks like the answer of a language model, but is not read'
        remedy = f"read it with {report.format_option} answers"
        report.note("annotation that is not read", what, remedy, path, line, is_remedy_shown=True)
    counted = doccano.character_of(record, path, line) if doccano.is_shape(key, record) else None
    kept = {name: value for name, value in record.items() if value != [] or name not in SPAN_KEYS}
    yield sentence_from_text_record(kept, key, path, line, report, options.split, counted)


class OtherTools:
    """Reads records with the shape of another tool's.

    Args:
        path: for errors.
        report: counts what is skipped.
        options: how to read.
    """

    def __init__(self, path: str | Path, report: ReadingReport, options: ReadOptions) -> None:
        self._path, self._report, self._options = path, report, options
        self._tasks = label_studio.TaskReader(path, report, options)
        self._count = 0
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, int] = {}

    def read(self, record: Mapping[str, Any], line: int) -> Iterable[Sentence] | None:
        """The sentences of such a record; ``None`` if no tool recognizes it."""
        self._count += 1
        if spacy_json.is_doc(record):
            name = "spacy_json"
            sentences = iter([spacy_json.sentence_of_doc(record, self._path, line, self._report, self._options)])
        elif gliner.is_shape(record):
            name, sentences = "gliner", iter([gliner.sentence_of_gliner(record, self._path, line, self._report)])
        elif label_studio.is_shape(record):
            name, sentences = "label_studio", self._tasks.read(record, line)
        elif argilla.is_shape(record):
            name = "argilla"
            sentences = argilla.sentences_of_argilla(record, self._path, line, self._report, self._options)
        elif answers.is_shape(record):
            name = "answers"
            sentences = iter([answers.sentence_of_answer(record, self._path, line, self._report, self._options)])
        else:
            return None
        self._counts[name] += 1
        self._lines.setdefault(name, line)
        return sentences

    def conclude(self) -> None:
        """Report which other tools' records were read.

        If only some records of a file have the shape of a tool, the others may be unrecognized records of the same tool,
        whose annotation would be lost.
        """
        for name, own in self._counts.items():
            if own == self._count:
                self._report.remark(f"its records are those of {name}, and read so", self._path)
                continue
            what = f"{own:,} of {self._count:,} records are those of {name}, and read so; "
            what += "the others are read as what they look like"
            option = self._report.format_option
            remedy = f"put them into files of their own, or read all of them with {option} {name}"
            self._report.note("mixed records", what, remedy, self._path, self._lines[name], is_remedy_shown=True)


def write_jsonl(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions | None = None) -> None:
    """Write one object per line, in our own format."""
    for sentence in sentences:
        file.write(to_line(sentence_to_record(sentence)))


def words_or_text(record: Mapping[str, Any], path: str | Path, line: int) -> list[str] | str:
    """The words of a record, or the raw text if it has no list of words."""
    tokens, text = record.get("tokens"), record.get("text")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if isinstance(text, str):
        return text
    if isinstance(tokens, list):
        raise DataError('"tokens" must be a list of strings', "correct the record", path, line)
    what = 'neither "tokens" (a list of words) nor "text" (a string) is there'
    if record:
        what += f"; keys that are not read: {', '.join(list(record)[:_SHOWN_KEYS])}"
    raise DataError(what, "add one of them", path, line)


def without_annotation(record: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the entity annotation from a record; a label of the whole text, for example, is kept."""
    return {key: value for key, value in record.items() if key not in _ANNOTATION and not _is_annotation(record, key)}


def _is_annotation(record: Mapping[str, Any], key: str) -> bool:
    if key in SPAN_KEYS:
        return record[key] == [] or holds_spans(record, key)
    return key in TAG_KEYS and holds_tags(record, key)


def _stray_annotation(record: Mapping[str, Any]) -> str | None:
    """A key with annotation that is not in word offsets.

    Without "entities", that is any filled span key; besides them, only what looks like spans.
    """
    if record.get("entities") is None:
        spans = [key for key in SPAN_KEYS[1:] if holds_spans(record, key)]
        return next(
            (key for key in (*spans, *TAG_KEYS) if record.get(key) and isinstance(record[key], list | dict)), None
        )
    spans = [key for key in SPAN_KEYS[1:] if looks_like_spans(record.get(key))]
    return next(iter((*spans, *(key for key in TAG_KEYS if holds_tags(record, key)))), None)


FORMATS = [Format("jsonl", (".jsonl", ".ndjson", ".json"), read_jsonl, write_jsonl, unit=unit_of_records)]
