"""Prodigy: ``{"text": …, "tokens": [{…}, …], "spans": [{…}, …], "answer": …}``, one object per line."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_records, to_line
from lacuner.corpus.formats.records import entity_to_record, has_offsets, own_fields
from lacuner.corpus.formats.span_keys import TOKEN_FIELDS, find_span_key
from lacuner.corpus.formats.text_records import rejected_in_characters, sentence_from_text_record
from lacuner.corpus.sentence import Sentence, Source
from lacuner.errors import DataError

SPAN_KEYS = ("spans",)
_ONE_BY_ONE = "ner"
"""The view that asks about single spans; in others, people mark spans themselves."""


def with_answer(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport
) -> Mapping[str, Any] | None:
    """Apply an annotator's answer to a record; ``None``, with a count, if nothing useful remains.

    A single rejected span is known to be no entity. Other rejections say nothing about single spans, and ignored records
    nothing at all.
    """
    answer, spans = record.get("answer"), record.get("spans")
    if answer not in ("reject", "ignore"):
        return record
    asked = record.get("_view_id", _ONE_BY_ONE) == _ONE_BY_ONE and isinstance(record.get("text"), str)
    if answer == "reject" and asked and isinstance(spans, list) and len(spans) == 1 and has_offsets(spans[0]):
        known = {"suggested_by" if key == "source" else key: value for key, value in spans[0].items()}
        rejected = {key: value for key, value in known.items() if key not in ("text", "token_start", "token_end")}
        kept = {key: value for key, value in record.items() if key not in ("answer", "spans")}
        report.remark("spans that were rejected one by one are read as no entities", path)
        return kept | {"non_entities": [*(kept.get("non_entities") or []), rejected | {"source": Source.HUMAN}]}
    what = f"the record's answer is {answer!r}; it is left out"
    report.note("unaccepted records", what, "remove the record", path, line)
    return None


def read_prodigy(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a file written by ``prodigy db-out``."""
    for number, record in read_records(path):
        answered = with_answer(record, path, number, report)
        if answered is None:
            continue
        if not isinstance(answered.get("text"), str):
            raise DataError('"text" (a string) is not there', "export with prodigy db-out", path, number)
        key = find_span_key(answered, SPAN_KEYS, path, number)
        yield sentence_from_text_record(answered, key, path, number, report, options.split)


def write_prodigy(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write a file for ``prodigy db-in`` and ``ner.manual``; the best score is shown with the text."""
    for index, sentence in enumerate(sentences):
        extra = dict(sentence.extra)
        record: dict[str, Any] = {"text": sentence.raw_text, "tokens": _tokens(sentence, extra)}
        record["spans"] = _spans(sentence)
        known = own_fields(sentence)
        record |= {key: known[key] for key in ("complete", "annotated_labels", "unknown_tokens") if key in known}
        if sentence.non_entities:
            record["non_entities"] = rejected_in_characters(sentence)
        if "spans" in extra:
            del extra["spans"]
            options.losses["the field 'spans', which Prodigy has a use for"] += 1
        meta, score = extra.get("meta"), options.score_of(index, sentence)
        if score is not None and isinstance(meta, Mapping | None):
            extra["meta"] = {**(meta or {}), "score": score}
        file.write(to_line(record | extra))


def _tokens(sentence: Sentence, extra: dict[str, Any]) -> list[dict[str, Any]]:
    """The words as objects, with their original fields."""
    others = extra.get(TOKEN_FIELDS)
    if isinstance(others, list) and len(others) == len(sentence) and all(isinstance(item, Mapping) for item in others):
        del extra[TOKEN_FIELDS]
    else:
        others = [{}] * len(sentence)
    return [
        {**other, "text": token, "start": start, "end": end, "id": index}
        for index, (token, (start, end), other) in enumerate(
            zip(sentence.tokens, sentence.offsets(), others, strict=True)
        )
    ]


def _spans(sentence: Sentence) -> list[dict[str, Any]]:
    offsets = sentence.offsets()
    return [
        entity_to_record(entity)
        | {"start": offsets[entity.start][0], "end": offsets[entity.end - 1][1]}
        | {"token_start": entity.start, "token_end": entity.end - 1}
        for entity in sentence.entities
    ]


FORMATS = [Format("prodigy", read=read_prodigy, write=write_prodigy, cannot_hold=frozenset({"by_source"}))]
