"""Answers of language models: the names in a text and their types, without offsets.

``{"text": …, "entities": …}``, with ``[{"name": "Ada", "type": "PER"}, …]``, ``{"PER": ["Ada", …]}``, ``{"Ada": "PER"}`` or
``[["Ada", "PER"], …]``; or the raw answer, a string under ``answer``, ``response`` or ``output``: such JSON, possibly in a
Markdown fence or surrounded by text, or the line formats of spaCy-LLM, ``PER: Ada, Bo`` and ``1. Ada | True | PER | why``.
Answers in no such format, and truncated ones, are counted, and their text stays unknown: of thousands of answers, a few
always are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import Format, ReadOptions
from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json, read_objects
from lacuner.corpus.formats.records import has_offsets
from lacuner.corpus.formats.surfaces import Alignment, Named, align, find_surface
from lacuner.corpus.formats.text_records import sentence_from_text_record
from lacuner.corpus.sentence import OUTSIDE, Sentence
from lacuner.errors import DataError

UNUSABLE = "answers that cannot be used"
"""Report category of unusable answers."""
ANSWER_KEYS = ("answer", "response", "output")
"""Keys of unparsed answers."""
_ENTITIES = "entities"
_SURFACES = ("text", "name", "surface", "mention", "word", "span", "value", "entity")
_LABELS = ("label", "type", "entity_type", "entity_group", "category", "class", "tag", "entity")
_WRAPPERS = (_ENTITIES, "ents", "named_entities", *ANSWER_KEYS, "results", "result")
_FENCE = re.compile(r"```(?:[ \t]*[\w-]*[ \t]*\n|json\b)?(.*?)```", re.DOTALL | re.IGNORECASE)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')
_OPENING = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder()
_REASONED = re.compile(r"(?:\d+[.)]\s*|[-*•]\s+)?(.+?)\s*\|\s*(true|false)\s*\|\s*([^|]*?)\s*(?:\|.*)?", re.IGNORECASE)
_LISTED = re.compile(r"(?:[-*•]\s+)?(\w[\w&/.+-]*(?: [\w&/.+-]+){0,2})\s*:\s*(.*)")
_NOTHING = frozenset({"", "-", "none", "n/a", "null", "[]", "no entities"})
_REMEDY = 'write JSON ({"PER": ["Ada"]}), in a fence or not, or lines such as "PER: Ada, Bo"'


def is_shape(record: Mapping[str, Any]) -> bool:
    """Whether a record names entities without offsets."""
    entities = record.get(_ENTITIES)
    if not isinstance(record.get("text"), str) and not _has_words(record):
        return False
    if isinstance(entities, Mapping):
        return any(entities.values()) and all(isinstance(each, str) or _are_strings(each) for each in entities.values())
    if not isinstance(entities, list) or not entities:
        return False
    return all(_is_pair(item) or (not _has_any_offsets(item) and _named(item) is not None) for item in entities)


def holds_answer(record: Mapping[str, Any]) -> str | None:
    """The key of an answer outside "entities": a string that is JSON, or has lines with names in the text."""
    for key in ANSWER_KEYS:
        value = record.get(key)
        if isinstance(value, str) and (value.lstrip().startswith(("[", "{", "```")) or _lists_names(value, record)):
            return key
        if isinstance(value, list) and value and all(_is_pair(item) or _named(item) is not None for item in value):
            return key
    return None


def _lists_names(answer: str, record: Mapping[str, Any]) -> bool:
    """Whether lines such as ``PER: Ada, Bo`` have a name in the text; any text might look like such lines."""
    text = record.get("text")
    if not isinstance(text, str):
        text = " ".join(record["tokens"]) if _has_words(record) else ""
    lines = list(filter(None, map(str.strip, answer.splitlines())))
    names = []
    for line in lines:
        if reasoned := _REASONED.fullmatch(line):
            names.append(reasoned[1])
        elif listed := _LISTED.fullmatch(line):
            names += [name.strip() for name in listed[2].split(",")]
        else:
            return bool(_embedded(answer))
    return any(name and find_surface(text, name) for name in names)


def read_answers(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Sentences of a file: one object per line, an array, or indented objects."""
    for line, record in read_objects(path):
        yield sentence_of_answer(record, path, line, report, options)


def sentence_of_answer(
    record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport, options: ReadOptions
) -> Sentence:
    """The sentence of a record; names missing from its text are counted."""
    return _AnswerReader(record, path, line, report).sentence(options)


class _UnusableAnswerError(Exception):
    """An unreadable answer."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class _AnswerReader:
    """Reads one record."""

    def __init__(self, record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport) -> None:
        self._record, self._path, self._line, self._report = record, path, line, report
        self._words = list(record["tokens"]) if _has_words(record) else None
        text = record.get("text")
        if not isinstance(text, str):
            if self._words is None:
                raise self._error(
                    'neither "text" (a string) nor "tokens" (a list of words) is there', "add one of them"
                )
            text = " ".join(self._words)
        self._text: str = text

    def sentence(self, options: ReadOptions) -> Sentence:
        """The text, annotated with the answer."""
        key, answer = self._answer()
        try:
            said = list(self._listed(self._parsed(answer) if isinstance(answer, str) else answer))
        except _UnusableAnswerError as error:
            what = f"{error.what}; nothing is known about its text"
            self._report.note(UNUSABLE, what, error.remedy, self._path, self._line)
            key, said = "", []  # the answer is passed through
        fields: dict[Named, dict[str, Any]] = {}
        spans: list[dict[str, Any]] = []
        listed = []
        for named, others in said:
            if self._is_at_offsets(named, others):
                spans.append({**others, "label": named.label})
                continue
            fields.setdefault(named, {name: others[name] for name in others if name not in ("start", "end")})
            listed.append(named)
        found = align(self._text, listed)
        self._report_losses(found)
        spans += [
            {**fields[one.named], "start": one.start, "end": one.end, "label": one.named.label} for one in found.placed
        ]
        known = {name: value for name, value in self._record.items() if name not in (key, _ENTITIES, "tokens", "text")}
        if not key and answer is self._record.get(_ENTITIES):
            known[ANSWER_KEYS[0]] = answer
        known |= {"text": self._text, _ENTITIES: spans}
        if self._words is not None:
            known["tokens"] = [{"start": start, "end": end} for start, end in self._offsets(self._words)]
        sentence = sentence_from_text_record(known, _ENTITIES, self._path, self._line, self._report, options.split)
        return sentence if "text" in self._record else replace(sentence, text=None, token_offsets=None)

    def _is_at_offsets(self, named: Named, fields: Mapping[str, Any]) -> bool:
        """Whether the name is at the offsets given by the answer, which models often get wrong."""
        if not has_offsets(fields) or fields["start"] < 0:
            return False
        return bool(named.surface) and self._text[fields["start"] : fields["end"]] == named.surface

    def _offsets(self, words: list[str]) -> list[tuple[int, int]]:
        try:
            return Sentence(tuple(words), text=self._text).offsets()
        except ValueError:
            raise self._error('"tokens" are not the words of "text"', "correct the record, or leave one out") from None

    def _answer(self) -> tuple[str, Any]:
        """The key and value of the answer."""
        keys = [key for key in (_ENTITIES, *ANSWER_KEYS) if self._record.get(key) is not None]
        if len(keys) != 1:
            what = f"there are answers under {' and '.join(keys)}" if keys else "there is no answer"
            others = [key for key in self._record if key not in ("text", "tokens")]
            if not keys and others:
                what += f" (other keys: {', '.join(others[:10])})"
            raise self._error(what, f"give one, under one of {', '.join((_ENTITIES, *ANSWER_KEYS))}")
        return keys[0], self._record[keys[0]]

    def _parsed(self, answer: str) -> Any:
        """Parse an answer as JSON, or else its lines as pairs."""
        fenced = _FENCE.findall(answer)
        if len(fenced) > 1:
            raise _UnusableAnswerError(f"the answer has {len(fenced)} blocks of code", "keep the intended one")
        content = (fenced[0] if fenced else answer).strip()
        found = _embedded(content)
        if len(found) > 1:
            raise _UnusableAnswerError(f"the answer has {len(found)} lists of names", "keep the intended one")
        if found or content.startswith(("[", "{")):
            return self._decoded(found[0] if found else content)
        return self._read_lines(content, answer)

    def _decoded(self, content: str) -> Any:
        without = _STRING_OR_COMMA.sub(lambda match: match[1] or "", content)
        if without != content:
            what = "there is a comma before the end of a list or an object; it is left out"
            self._report.note("repaired answers", what, "remove it", self._path, self._line)
        try:
            return decode_json(without)
        except json.JSONDecodeError as error:
            raise _UnusableAnswerError(
                f"the answer is not JSON: {error.msg} at its character {error.pos}", _REMEDY
            ) from None
        except UnfitJSONError as error:
            raise _UnusableAnswerError(f"the answer cannot be read: {error.what}", error.remedy) from None

    def _read_lines(self, content: str, answer: str) -> list[list[str]]:
        pairs = []
        for line in filter(None, map(str.strip, content.splitlines())):
            if reasoned := _REASONED.fullmatch(line):
                surface, is_entity, label = reasoned.groups()
                if is_entity.lower() == "true":
                    pairs.append([surface, label])
                else:
                    self._report.remark("names that answers call no entities are left out", self._path)
            elif listed := _LISTED.fullmatch(line):
                names = [name.strip() for name in listed[2].split(",")]
                pairs += [[name, listed[1]] for name in names if not self._is_nothing(name)]
            else:
                raise _UnusableAnswerError(
                    f"the answer is neither JSON nor a list of names: {answer.strip()[:60]!r}", _REMEDY
                )
        return pairs

    def _is_nothing(self, name: str) -> bool:
        return name.strip(".()").lower() in _NOTHING and not (name and find_surface(self._text, name))

    def _listed(self, answer: Any) -> Iterator[tuple[Named, dict[str, Any]]]:
        """The names in an answer, each with its other fields."""
        while isinstance(answer, Mapping):
            inner = [key for key in _WRAPPERS if isinstance(answer.get(key), list | dict)]
            if len(inner) != 1 or _named(answer) is not None:
                break
            answer = answer[inner[0]]
        if isinstance(answer, Mapping) and _named(answer) is None:
            answer = [pair for key, value in answer.items() for pair in self._of_key(key, value)]
        elif isinstance(answer, Mapping):
            answer = [answer]
        if not isinstance(answer, list):
            raise _UnusableAnswerError(f"the answer is not a list of names: {answer!r:.60}", _REMEDY)
        for item in answer:
            read = ((item[0], item[1]), {}) if _is_pair(item) else _named(item)
            if read is None:
                raise _UnusableAnswerError(
                    f"{item!r:.60} is not a name with its type", 'write {"name": "Ada", "type": "PER"}'
                )
            (surface, label), others = read
            if not label.strip() or label.strip() == OUTSIDE:
                raise _UnusableAnswerError(f"{surface!r:.60} has the type {label!r}", "name its type, or leave it out")
            yield Named(surface.strip(), label.strip()), dict(others)

    def _of_key(self, key: str, value: object) -> list[list[str]]:
        """Pairs of name and type; of two strings, the name is the one that occurs in the text."""
        if isinstance(value, list) and _are_strings(value):
            return [[name, key] for name in value]
        if value is None or value == "":
            return []
        if isinstance(value, str):
            is_name, is_value = bool(find_surface(self._text, key)), bool(find_surface(self._text, value))
            if is_name != is_value:
                return [[key, value] if is_name else [value, key]]
            which = "both are" if is_name else "neither is"
            what = f"it is unclear which of {key!r:.40} and {value!r:.40} is the name: {which} in the text"
            raise _UnusableAnswerError(what, 'write {"PER": ["Ada"]}')
        raise _UnusableAnswerError(f"{value!r:.60} is not a list of names", 'write {"PER": ["Ada"]}')

    def _report_losses(self, found: Alignment) -> None:
        for named in found.absent:
            what = f"{named.surface!r:.80} ({named.label}) is not in the text; it is left out"
            remedy = "correct the name, or remove it"
            self._report.note("names that are not in their text", what, remedy, self._path, self._line)
        for named in found.covered:
            what = f"{named.surface!r:.80} ({named.label}) is only there inside longer names; it is left out"
            self._report.note("names inside of longer ones", what, "remove it", self._path, self._line)

    def _error(self, what: str, remedy: str) -> DataError:
        return DataError(what, remedy, self._path, self._line)


def _embedded(content: str) -> list[str]:
    """All lists and objects with names embedded in an answer."""
    found, at = [], 0
    without = _STRING_OR_COMMA.sub(lambda match: match[1] or " " * len(match[0]), content)
    while (begin := _OPENING.search(without, at)) is not None:
        try:
            value, at = _DECODER.raw_decode(without, begin.start())
        except (ValueError, RecursionError):
            at = begin.end()
            continue
        if _holds_names(value):
            found.append(content[begin.start() : at])
    return found


def _holds_names(value: object) -> bool:
    """Whether part of an answer is certainly a list of names, unlike ``[1]`` in a sentence."""
    if isinstance(value, Mapping):
        return _named(value) is not None or any(
            isinstance(inner, str) or _are_strings(inner) or _holds_names(inner) for inner in value.values()
        )
    return isinstance(value, list) and bool(value) and all(_is_pair(item) or _named(item) is not None for item in value)


def _named(item: object) -> tuple[tuple[str, str], dict[str, Any]] | None:
    """Name and type of an object with both, and its other fields."""
    if not isinstance(item, Mapping):
        return None
    label = next((key for key in _LABELS if isinstance(item.get(key), str)), None)
    surface = next((key for key in _SURFACES if key != label and isinstance(item.get(key), str)), None)
    if label is None or surface is None:
        return None
    others = {key: value for key, value in item.items() if key not in (label, surface)}
    return (item[surface], item[label]), others


def _is_pair(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and _are_strings(item)


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _has_any_offsets(item: object) -> bool:
    return isinstance(item, Mapping) and any(type(value) is int for value in item.values())


def _has_words(record: Mapping[str, Any]) -> bool:
    tokens = record.get("tokens")
    return isinstance(tokens, list) and bool(tokens) and all(isinstance(token, str) and token for token in tokens)


FORMATS = [Format("answers", read=read_answers)]
