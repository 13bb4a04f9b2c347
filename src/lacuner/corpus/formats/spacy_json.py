"""spaCy's JSON: the result of ``Doc.to_json``, and training tuples ``(text, {"entities": [(start, end, label)]})``.

Both are read from JSON Lines, or from a single JSON array. Offsets are in characters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.doc_bin import LabeledSpan
from lacuner.corpus.formats.format import CONTENTS, Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json, to_line
from lacuner.corpus.formats.kept_records import KEPT, kept_record, restored
from lacuner.corpus.formats.spacy import OVERLAPPING, REJECTED, encode
from lacuner.corpus.formats.span_keys import SPAN_KEYS, TAG_KEYS, TOKEN_FIELDS, find_span_key
from lacuner.corpus.formats.text_records import sentence_from_text_record
from lacuner.corpus.overlaps import without_overlaps
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

_USED = frozenset({"text", "tokens", *SPAN_KEYS, *TAG_KEYS, KEPT, TOKEN_FIELDS})
"""Names that are not available for other fields of a document."""
_REMEDY = 'write objects of Doc.to_json, or [text, {"entities": [[start, end, label], …]}]'


def is_doc(record: Mapping[str, Any]) -> bool:
    """Whether a record is from ``Doc.to_json``: its tokens are objects, and its spans, if any, are in groups."""
    tokens, spans = record.get("tokens"), record.get("spans")
    words = isinstance(tokens, list) and all(isinstance(token, Mapping) for token in tokens)
    return words and isinstance(record.get("text"), str) and isinstance(spans, Mapping | None) and "ents" in record


def read_spacy_json(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a file; an array is read into memory as a whole."""
    for number, value in _values(path):
        if _is_tuple(value):
            record = {"text": value[0], **value[1]}
            key = find_span_key(record, ("entities",), path, number)
            yield sentence_from_text_record(record, key, path, number, report, options.split)
        elif isinstance(value, dict) and isinstance(value.get("text"), str):
            yield sentence_of_doc(value, path, number, report, options)
        else:
            raise DataError("there is neither a document of spaCy nor a training tuple", _REMEDY, path, number)


def sentence_of_doc(
    record: Mapping[str, Any], path: str | Path, number: int, report: ReadingReport, options: ReadOptions
) -> Sentence:
    """The sentence of a record of ``Doc.to_json``; span groups are read as in ``.spacy`` files."""
    plain = _plain(record, path, number, report, options)

    def plain_of(sentence: Sentence) -> Sentence:
        return _plain(_doc(sentence), path, number, ReadingReport(), options)

    return restored(plain, record.get(KEPT), plain_of, path, number, report)


def write_spacy_json(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write one document per line, for ``Doc.from_json``."""
    for number, sentence in enumerate(sentences, options.first):
        if not all(sentence.tokens):
            raise DataError(f"sentence {number} has an empty word, which spaCy refuses", "remove it", options.name)
        record = _doc(sentence)
        kept = kept_record(sentence, _plain(record, options.name, number, ReadingReport(), ReadOptions()))
        file.write(to_line(record | ({} if kept is None else {KEPT: kept})))


def write_spacy_tuples(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write one training tuple per line, for ``Example.from_dict``."""
    for sentence in sentences:
        offsets = sentence.offsets()
        spans = [[offsets[entity.start][0], offsets[entity.end - 1][1], entity.label] for entity in sentence.entities]
        file.write(to_line([sentence.raw_text, {"entities": spans}]))


def _plain(
    record: Mapping[str, Any], path: str | Path, number: int, report: ReadingReport, options: ReadOptions
) -> Sentence:
    groups = record.get("spans")
    known = {key: value for key, value in record.items() if key not in ("spans", KEPT)}
    if not isinstance(groups, Mapping):
        key = find_span_key({**known, "spans": groups}, ("ents", "spans", "entities"), path, number)
        if groups is not None:
            known["spans"] = groups
        return sentence_from_text_record(known, key, path, number, report, options.split)
    for name, spans in groups.items():
        if not isinstance(spans, list) or not all(isinstance(span, Mapping) for span in spans):
            raise DataError(f'the group "{name}" of "spans" must be a list of spans', "correct it", path, number)
        if spans and name not in (OVERLAPPING, REJECTED):
            what = f'the group "{name}" of "spans" is not read; only "{OVERLAPPING}" and "{REJECTED}" are'
            report.note("annotation that is not read", what, f'write it under "{OVERLAPPING}"', path, number)
    ents = known.get("ents") or []
    find_span_key(known, ("ents",), path, number)
    there = {_key(ent) for ent in ents if isinstance(ent, Mapping)}
    more = [_without_blanks(span) for span in groups.get(OVERLAPPING, []) if _key(span) not in there]
    annotated = {_words_of(ent, record) for ent in (*ents, *more) if isinstance(ent, Mapping)}
    rejected = []
    for span in groups.get(REJECTED, []):
        if span.get("label"):
            what = f"the span at {span.get('start')} is rejected as {span['label']}, and may have another label"
            report.note("spans rejected with some labels only", what, "leave its label empty", path, number)
        elif _words_of(span, record) not in annotated:  # its label is known
            rejected.append({key: value for key, value in _without_blanks(span).items() if key != "label"})
    known |= {"ents": [*ents, *more], "non_entities": [*(known.get("non_entities") or []), *rejected]}
    return sentence_from_text_record(known, "ents", path, number, report, options.split)


def _doc(sentence: Sentence) -> dict[str, Any]:
    """A sentence in the form of ``Doc.to_json``, with its other fields among those of the document."""
    flat = without_overlaps(sentence.entities)
    content = encode(replace(sentence, complete=False), [], overlapping=len(flat) < len(sentence.entities))
    spaces = content.spaces if content.spaces is not None else (True,) * (len(content.words) - 1) + (False,)
    offsets, position = [], 0
    for word, space in zip(content.words, spaces, strict=False):
        offsets.append((position, position + len(word)))
        position += len(word) + space

    def show(span: LabeledSpan) -> dict[str, Any]:
        return {"start": offsets[span.start][0], "end": offsets[span.end - 1][1], "label": span.label}

    tokens = [{"id": index, "start": start, "end": end} for index, (start, end) in enumerate(offsets)]
    record: dict[str, Any] = {
        "text": "".join(word + " " * space for word, space in zip(content.words, spaces, strict=False)),
        "ents": [show(ent) for ent in content.ents],
        "tokens": tokens,
    }
    if content.groups:
        record["spans"] = {
            name: [show(span) | {"kb_id": span.kb_id} for span in spans] for name, spans in content.groups.items()
        }
    return record | {key: value for key, value in sentence.extra.items() if key not in _USED}


def _values(path: str | Path) -> Iterator[tuple[int, Any]]:
    """The values of a file, one per line, or of one array, which NER Annotator puts under ``annotations``."""
    lines = ((number, line) for number, line in read_lines(path) if line.strip())
    for number, line in lines:
        try:
            value = decode_json(line)
        except json.JSONDecodeError:
            value = None
        except UnfitJSONError as error:
            raise DataError(error.what, error.remedy, path, number) from None
        if _is_tuple(value) or (isinstance(value, dict) and "annotations" not in value):
            yield number, value
            for other, rest in lines:
                yield other, _decode(rest, path, other)
            return
        whole = _decode("\n".join(line for _, line in chain([(number, line)], lines)), path, number)
        items = whole.get("annotations") if isinstance(whole, dict) and "text" not in whole else whole
        items = [whole] if _is_tuple(whole) or isinstance(items, dict) else items
        if not isinstance(items, list):
            raise DataError("there is no list of documents or training tuples", _REMEDY, path, number)
        yield from ((index, item) for index, item in enumerate(items, 1) if item is not None)


def _decode(text: str, path: str | Path, number: int) -> Any:
    try:
        return decode_json(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}", _REMEDY, path, number) from None
    except UnfitJSONError as error:
        raise DataError(error.what, error.remedy, path, number) from None


def _is_tuple(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def _key(span: Mapping[str, Any]) -> tuple[str, str, str]:
    return repr(span.get("start")), repr(span.get("end")), repr(span.get("label"))


def _words_of(span: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[Any, Any]:
    """A span without spaces at its ends, because whitespace tokens are not words here."""
    start, end, text = span.get("start"), span.get("end"), record.get("text")
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(text, str):
        return start, end
    inside = text[max(start, 0) : max(end, 0)]
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _without_blanks(span: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in span.items() if value != "" or key == "label"}


FORMATS = [
    Format("spacy_json", read=read_spacy_json, write=write_spacy_json),
    Format(
        "spacy_tuples",
        read=read_spacy_json,
        write=write_spacy_tuples,
        cannot_hold=frozenset(CONTENTS),
    ),
]
