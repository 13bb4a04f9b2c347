"""Argilla 2: the records written by ``dataset.records.to_json`` and ``to_disk``, and read by ``records.from_json``.

A record has ``fields``, and ``suggestions`` and ``responses`` to questions; entities are the answer to a span question.
Responses have the source ``human``, suggestions ``model``.

We write a field ``text`` and suggestions for a span question ``entities``. What Argilla cannot represent is in an object
``lacuner`` of the record, which it ignores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.code_units import character_at, units_before
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_objects, write_array
from lacuner.corpus.formats.records import entity_to_record, has_offsets
from lacuner.corpus.formats.span_keys import ARGILLA_FIELDS
from lacuner.corpus.formats.text_records import annotation_in_characters, is_respelled, sentence_from_text_record
from lacuner.corpus.sentence import Entity, Sentence, Source
from lacuner.corpus.tokenize import split_words
from lacuner.errors import DataError

_OWN, _QUESTION = "lacuner", "entities"
_OWN_KEYS = ("tokens", "non_entities", "complete", "annotated_labels", "unknown_tokens")
_CHARACTERS = "characters"
"""Unit of offsets in responses that we wrote."""
_NAMED = ("vectors", "status", "_server_id")
_HELD_PARTS = {"text_field": str, "question": str, "response": Mapping, "suggestion": Mapping} | {
    "fields": Mapping, "suggestions": Mapping, "responses": Mapping, "record": Mapping,
}  # fmt: skip


def is_shape(record: Mapping[str, Any]) -> bool:
    """Whether this is an Argilla record, or a whole dataset of them."""
    if record.keys() & {"tokens", "entities"}:
        return False
    return _is_nested(record) or _is_flat(record) or _is_columns(record) or _is_index(record)


def read_argilla(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """Sentences of a file, or of the folder of a whole dataset."""
    file = Path(path) / "records.json" if Path(path).is_dir() else path
    for number, record in read_objects(file):
        yield from sentences_of_argilla(record, file, number, report, options or ReadOptions())


def sentences_of_argilla(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport, options: ReadOptions
) -> Iterator[Sentence]:
    """The sentence of a record, or those of a dataset that is one object."""
    rows: Iterable[Mapping[str, Any]] = [record]
    if _is_columns(record):
        length = max(len(column) for column in record.values())
        if any(len(column) != length for column in record.values()):
            raise DataError("the columns have different lengths", "export the dataset again", path, line)
        rows = [{key: record[key][row] for key in record} for row in range(length)]
    elif _is_index(record):
        rows = record.values()
    for row in rows:
        nested = _nested(row) if _is_flat(row) else row
        if not _is_nested(nested):
            what = '"fields" with "suggestions" or "responses" is not there'
            raise DataError(what, "export with records.to_json, or name another format", path, line)
        yield _Reader(nested, path, line, report).sentence(options)


def write_argilla(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write records to import. A sentence's ``id`` and ``metadata`` become those of its record."""
    # ASCII, because it is read in the system's encoding
    write_array((_record(sentence, options) for sentence in sentences), file, ascii_only=True)


class _Chosen(NamedTuple):
    """The selected response or suggestion."""

    kind: str
    content: Mapping[str, Any]


class _Reader:
    """Reads one record."""

    def __init__(self, record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport) -> None:
        self._record, self._path, self._line, self._report = record, path, line, report
        self._suggestions = self._answers("suggestions", _by_question(record.get("suggestions")))
        self._responses = self._answers("responses", record.get("responses") or {})
        own = record.get(_OWN)
        self._own: Mapping[str, Any] = own if isinstance(own, Mapping) else {}

    def sentence(self, options: ReadOptions) -> Sentence:
        """The sentence of the record."""
        question = self._question()
        chosen = self._choose(question)
        value = chosen.content.get("value") or []
        if not isinstance(value, list):
            raise self._error(f'the answer to "{question}" must be a list of spans', "correct the record")
        field = self._text_field()
        text: str = self._record["fields"][field]
        record: dict[str, Any] = {} if self._record.get("id") is None else {"id": self._record["id"]}
        if isinstance(self._record.get("metadata"), Mapping) and self._record["metadata"]:
            record["metadata"] = self._record["metadata"]
        held = self._held(field, question, chosen)
        if held:
            record[ARGILLA_FIELDS] = held
        if isinstance(self._own.get("fields"), Mapping):
            record |= self._own["fields"]
        record |= {key: self._own[key] for key in _OWN_KEYS if key in self._own}
        record |= {"text": text, "entities": self._entities(value, chosen)}
        from_page = chosen.kind == "response" and self._own.get("offsets") != _CHARACTERS
        convert = self._counting(text, value) if from_page else None
        return sentence_from_text_record(
            record, "entities", self._path, self._line, self._report, options.split, convert
        )

    def _answers(self, key: str, answers: object) -> Mapping[str, Any]:
        if not isinstance(answers, Mapping):
            raise self._error(f'"{key}" must be an object', "export with records.to_json")
        return {question: answer for question, answer in answers.items() if answer is not None}

    def _question(self) -> str:
        """The question that is answered with spans."""
        found = [name for name, answer in self._suggestions.items() if _holds_spans(answer)]
        found += [name for name, answers in self._responses.items() if any(map(_holds_spans, _listed(answers)))]
        found = list(dict.fromkeys(found))
        if len(found) > 1:
            what = f"there are spans as answers to two questions, {found[0]!r} and {found[1]!r}"
            raise self._error(what, "keep the intended one")
        return found[0] if found else _QUESTION

    def _choose(self, question: str) -> _Chosen:
        responses = _listed(self._responses.get(question))
        usable = []
        for response in responses:
            if not isinstance(response, Mapping):
                raise self._error(f'a response to "{question}" is not an object', "export with records.to_json")
            status = response.get("status") or "submitted"
            if status == "submitted" and response.get("value") is not None:
                usable.append(response)
            else:
                self._leave_out(f"{status} responses", f"a response is {status}", response)
        suggestion = self._suggestions.get(question) or {"agent": _OWN}
        if not isinstance(suggestion, Mapping):
            raise self._error(f'the suggestion for "{question}" is not an object', "export with records.to_json")
        if not usable:
            return _Chosen("suggestion", suggestion)
        for response in usable[1:]:
            self._leave_out("further annotations", "the record has another response", response)
        if suggestion.get("value"):
            self._leave_out("predictions beside annotations", "the record has a response", suggestion)
        return _Chosen("response", usable[0])

    def _leave_out(self, kind: str, why: str, answer: Mapping[str, Any]) -> None:
        what = f"{why}; the {len(_listed(answer.get('value')))} spans in it are left out"
        self._report.note(kind, what, "remove it", self._path, self._line)

    def _text_field(self) -> str:
        fields: Mapping[str, Any] = self._record["fields"]
        texts = [name for name, value in fields.items() if isinstance(value, str)]
        if "text" in texts:
            return "text"
        if len(texts) != 1:
            what = f"the record has {len(texts)} texts ({', '.join(texts)}), and nothing tells which is annotated"
            raise self._error(what if texts else "the record has no text", 'call the field "text"')
        return texts[0]

    def _entities(self, value: list[Any], chosen: _Chosen) -> list[Any]:
        """Spans with source and score, and all other fields if we wrote them."""
        scores, others = chosen.content.get("score"), self._own.get("entities")
        if not isinstance(scores, list) or len(scores) != len(value):
            scores = [None] * len(value) if isinstance(scores, list) or len(value) != 1 else [scores]
        if not isinstance(others, list) or len(others) != len(value):
            others = [{}] * len(value)
        source = _usual_source(chosen)
        return [
            {**item, "score": score, "source": source, **other}
            if isinstance(item, Mapping) and isinstance(other, Mapping)
            else item
            for item, score, other in zip(value, scores, others, strict=True)
        ]

    def _counting(self, text: str, value: list[Any]) -> Callable[[int], int] | None:
        """A converter of offsets to characters, if Argilla's page counted UTF-16 code units (issue 5729)."""
        units = units_before(text)
        pairs = [(item.get("start"), item.get("end")) for item in value if has_offsets(item)]
        numbers = [number for pair in pairs for number in pair]
        if units is None or all(0 <= number < len(units) and units[number] == number for number in numbers):
            return None
        words = split_words(text)
        starts, ends = {start for start, _ in words}, {end for _, end in words}
        if not all(character_at(units, start) in starts and character_at(units, end) in ends for start, end in pairs):
            return None
        if all(start in starts and end in ends for start, end in pairs):
            what = (
                "offsets after an emoji are read as UTF-16 code units, as on Argilla's page, but may count characters"
            )
            self._report.note("offsets that may count otherwise", what, "check them", self._path, self._line)
        else:
            self._report.remark("offsets of responses after emoji are read as UTF-16 code units", self._path)
        return {unit: character for character, unit in enumerate(units)}.__getitem__

    def _held(self, field: str, question: str, chosen: _Chosen) -> dict[str, Any]:
        record = self._record
        others = {name: answer for name, answer in self._suggestions.items() if name != question}
        responses = {name: answers for name, answers in self._responses.items() if name != question}
        self._report.unread.update(f"answers to {name}" for name in {**others, **responses})
        ours = {"score", "agent"} if chosen.kind == "suggestion" and _is_ours(chosen.content) else {"score"}
        parts: dict[str, Any] = {
            "text_field": None if field == "text" else field,
            "question": None if question == _QUESTION else question,
            chosen.kind: {
                key: content
                for key, content in chosen.content.items()
                if key != "value" and key not in ours and content is not None
            },
            "fields": {name: content for name, content in record["fields"].items() if name != field},
            "suggestions": others,
            "responses": responses,
            "record": {key: record[key] for key in record if key in _NAMED and record[key]},
        }
        unknown = record.keys() - {"id", "fields", "metadata", "suggestions", "responses", _OWN, *_NAMED}
        parts["record"] |= {key: record[key] for key in sorted(unknown)}
        return {name: part for name, part in parts.items() if part}

    def _error(self, what: str, remedy: str) -> DataError:
        return DataError(what, remedy, self._path, self._line)


def _usual_source(chosen: _Chosen) -> str | None:
    """The default source of entities."""
    if chosen.kind == "response":
        return Source.HUMAN
    return None if _is_ours(chosen.content) else Source.MODEL


def _is_ours(suggestion: Mapping[str, Any]) -> bool:
    return str(suggestion.get("agent")).startswith(_OWN)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _holds_spans(answer: object) -> bool:
    value = answer.get("value") if isinstance(answer, Mapping) else None
    return any(isinstance(item, Mapping) and {"start", "end", "label"} <= item.keys() for item in _listed(value))


def _by_question(suggestions: object) -> object:
    """Suggestions by question, converted from a list if sent by the server."""
    named = [isinstance(item, Mapping) and isinstance(item.get("question_name"), str) for item in _listed(suggestions)]
    if isinstance(suggestions, list) and all(named):
        return {item["question_name"]: item for item in suggestions}
    return suggestions or {}


def _is_nested(record: Mapping[str, Any]) -> bool:
    answers = {"suggestions", "responses", "_server_id"}
    return isinstance(record.get("fields"), Mapping) and bool(record.keys() & answers) and "text" not in record


def _is_flat(record: Mapping[str, Any]) -> bool:
    return any(key.endswith((".suggestion", ".responses")) for key in record)


def _is_columns(record: Mapping[str, Any]) -> bool:
    """Whether this is ``records.to_dict()``: a list for each part."""
    return (
        isinstance(record.get("fields"), list)
        and bool(record.keys() & {"suggestions", "responses"})
        and all(isinstance(column, list) for column in record.values())
    )


def _is_index(record: Mapping[str, Any]) -> bool:
    """Whether this is ``records.to_dict(orient="index")``: records by their ids."""
    return bool(record) and all(isinstance(row, Mapping) and _is_nested(row) for row in record.values())


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Restore a record flattened by ``flatten=True``; a text becomes a field, whatever else it was."""
    record: dict[str, Any] = {"fields": {}, "metadata": {}, "suggestions": {}, "responses": {}}
    for key, value in flat.items():
        question, dot, part = key.partition(".")
        if key in ("id", *_NAMED, _OWN):
            record[key] = value
        elif dot and part == "suggestion":
            names = {"value": key, "score": f"{key}.score", "agent": f"{key}.agent"}
            if value is not None:
                record["suggestions"][question] = {name: flat.get(source) for name, source in names.items()}
        elif dot and part == "responses":
            users, states = _listed(flat.get(f"{key}.users")), _listed(flat.get(f"{key}.status"))
            record["responses"][question] = [
                {"value": answer}
                | ({"user_id": users[index]} if index < len(users) else {})
                | ({"status": states[index]} if index < len(states) else {})
                for index, answer in enumerate(_listed(value))
            ]
        elif not (dot and part.startswith(("suggestion.", "responses."))):
            record["fields" if isinstance(value, str) else "metadata"][key] = value
    return record


def _record(sentence: Sentence, options: WriteOptions) -> dict[str, Any]:
    extra = dict(sentence.extra)
    held: Mapping[str, Any] = extra.pop(ARGILLA_FIELDS) if _is_held(extra.get(ARGILLA_FIELDS)) else {}
    if is_respelled(sentence):
        options.losses["words that the text spells otherwise"] += 1
    metadata = extra.pop("metadata") if isinstance(extra.get("metadata"), Mapping) and extra["metadata"] else {}
    given = {key: str(extra["id"]) for key in ("id",) if isinstance(extra.get("id"), str | int)}
    if given and extra["id"] == given["id"]:
        del extra["id"]
    from_people = all(entity.source == Source.HUMAN for entity in sentence.entities)
    answered = from_people and "user_id" in held.get("response", {}) and not options.suggestions
    if held.get("response") and not answered and not options.suggestions:
        extra[ARGILLA_FIELDS] = held
    question = held.get("question", _QUESTION)
    content = _response(sentence, held) if answered else _suggestion(sentence, held, options)
    answer = {question: [content] if answered else content}
    record: dict[str, Any] = {
        **held.get("record", {}),
        **given,
        "fields": {held.get("text_field", "text"): sentence.raw_text, **held.get("fields", {})},
        "metadata": dict(metadata),
        "suggestions": {**held.get("suggestions", {}), **({} if answered else answer)},
    }
    responses = {**held.get("responses", {}), **(answer if answered else {})}
    if responses:
        record["responses"] = responses
    own = annotation_in_characters(sentence)
    if extra:
        own["fields"] = extra
    usual = _usual_source(_Chosen("response" if answered else "suggestion", content))
    others = [_other_fields(entity, usual, "score" in content) for entity in sentence.entities]
    if any(others):
        own["entities"] = others
    if answered and units_before(sentence.raw_text) is not None:
        own["offsets"] = _CHARACTERS
    return record | ({_OWN: own} if own else {})


def _is_held(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(part, _HELD_PARTS.get(key, ())) for key, part in value.items())


def _other_fields(entity: Entity, usual: str | None, scored: bool) -> dict[str, Any]:
    """Fields of an entity that an Argilla span cannot represent."""
    known = {
        "start",
        "end",
        "label",
        "text",
        *(["score"] if scored else []),
        *(["source"] if entity.source == usual else []),
    }
    fields = {key: value for key, value in entity_to_record(entity).items() if key not in known}
    return fields if entity.source is not None or usual is None else fields | {"source": None}


def _spans(sentence: Sentence) -> list[dict[str, Any]]:
    offsets = sentence.offsets()
    return [
        {"start": offsets[entity.start][0], "end": offsets[entity.end - 1][1], "label": entity.label}
        for entity in sentence.entities
    ]


def _response(sentence: Sentence, held: Mapping[str, Any]) -> dict[str, Any]:
    return {**held["response"], "value": _spans(sentence)}


def _suggestion(sentence: Sentence, held: Mapping[str, Any], options: WriteOptions) -> dict[str, Any]:
    """Spans, with scores only if all of them have one, as Argilla requires."""
    content = {} if options.suggestions else dict(held.get("suggestion", {}))
    if "agent" not in content:
        content["agent"] = options.agent
    scores = [round(entity.score, 6) for entity in sentence.entities if entity.score is not None]
    content.pop("score", None)
    if scores and len(scores) == len(sentence.entities):
        content["score"] = scores
    return {"value": _spans(sentence), **content}


FORMATS = [
    Format(
        "argilla",
        read=read_argilla,
        write=write_argilla,
        cannot_hold=frozenset({"by_source"}),
        line_based=False,
        folder_files=(".argilla/settings.json",),
    )
]
