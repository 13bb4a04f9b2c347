"""Records of raw text with character spans, as written by annotation tools: alignment with words, and back."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.records import (
    SENTENCE_KEYS,
    build_sentence,
    entity_from_record,
    items_of,
    own_fields,
    sources_from_record,
    span_from_record,
    span_to_record,
)
from lacuner.corpus.formats.span_keys import TOKEN_FIELDS
from lacuner.corpus.sentence import Entity, Sentence, Span
from lacuner.corpus.tokenize import Splitting, cut_words, split_words
from lacuner.errors import DataError

_DERIVED_TOKEN_FIELDS = frozenset({"text", "start", "end", "id", "ws"})
_DERIVED_SPAN_FIELDS = frozenset({"token_start", "token_end"})


def sentence_from_text_record(
    record: Mapping[str, Any],
    span_key: str,
    path: str | Path,
    line: int,
    report: ReadingReport,
    split: Splitting,
    character_of: Callable[[int], int] | None = None,
) -> Sentence:
    """Convert a record with ``text`` and character spans under ``span_key`` to a sentence.

    Args:
        record: the JSON object. Its ``tokens``, if any, are objects with ``start`` and ``end``.
        span_key: where the entities are.
        path: for errors.
        line: for errors.
        report: counts spans that are moved or dropped.
        split: how the text is tokenized if the record has no tokens.
        character_of: converts offsets of entities to characters, if they are in other units.
    """
    text: str = record["text"]
    given = _given_tokens(record, path, line)
    kept = [(index, *token) for index, token in enumerate(given) if text[slice(*token[0])].strip()]
    offsets = [pair for _, pair, _ in kept] if given else split_words(text, split)
    words = _Words(text, offsets, path, line, report)
    entities = [entity_from_record(item, path, line) for item in items_of(record, span_key, path, line)]
    if character_of is not None:
        entities = [replace(each, start=character_of(each.start), end=character_of(each.end)) for each in entities]
    entities = words.entities(entities)
    rejected = words.spans(span_from_record(item, path, line) for item in items_of(record, "non_entities", path, line))
    by_source = tuple(
        replace(
            said,
            entities=tuple(dict.fromkeys(words.entities(said.entities))),
            non_entities=tuple(words.spans(said.non_entities)),
        )
        for said in sources_from_record(record, path, line)
    )
    extra = {key: value for key, value in record.items() if key not in SENTENCE_KEYS and key != span_key}
    if any(fields for _, _, fields in kept):
        extra[TOKEN_FIELDS] = [fields for _, _, fields in kept]
    if record.get("token_offsets") and not given:
        what = '"token_offsets" is given without "tokens"; it is left out'
        report.note("token offsets left out", what, "give the words, too", path, line)
    known = {key: record.get(key) for key in SENTENCE_KEYS} | {"token_offsets": offsets if given else None}
    known["entities"] = record.get(span_key)
    if len(kept) < len(given) and isinstance(known["unknown_tokens"], list):  # they count the spaces, too
        known["unknown_tokens"] = [new for new, (old, _, _) in enumerate(kept) if old in known["unknown_tokens"]]
    tokens = [text[start:end] for start, end in offsets]
    return build_sentence(known, tokens, entities, rejected, extra, path, line, report, by_source)


def rejected_in_characters(sentence: Sentence) -> list[dict[str, Any]]:
    """The rejected spans of a sentence, in character offsets."""
    offsets = sentence.offsets()
    return [
        span_to_record(replace(span, start=offsets[span.start][0], end=offsets[span.end - 1][1]))
        for span in sentence.non_entities
    ]


def annotation_in_characters(sentence: Sentence) -> dict[str, Any]:
    """Annotation besides entities, and non-default token offsets, for tools that preserve unknown fields."""
    known = own_fields(sentence)
    record: dict[str, Any] = {}
    record |= {key: known[key] for key in ("complete", "annotated_labels", "unknown_tokens") if key in known}
    if sentence.non_entities:
        record["non_entities"] = rejected_in_characters(sentence)
    if sentence.unknown_tokens or sentence.tokens != cut_words(sentence.raw_text):
        record["tokens"] = [{"start": start, "end": end} for start, end in sentence.offsets()]
    return record


def is_respelled(sentence: Sentence) -> bool:
    """Whether any word is spelled differently in the text, so that tokenizing the text cannot reproduce it."""
    if sentence.text is None or sentence.token_offsets is None:
        return False
    return any(
        sentence.text[slice(*pair)] != word for word, pair in zip(sentence.tokens, sentence.offsets(), strict=True)
    )


class _Words:
    """The words of a text, for converting character spans."""

    def __init__(
        self, text: str, offsets: list[tuple[int, int]], path: str | Path, line: int, report: ReadingReport
    ) -> None:
        self.text, self.path, self.line, self.report = text, path, line, report
        self.starts, self.ends = [start for start, _ in offsets], [end for _, end in offsets]

    def entities(self, entities: Iterable[Entity]) -> list[Entity]:
        """Convert entities from characters to words; those that cover no word are dropped."""
        found = []
        for entity in entities:
            if place := self.covering(entity):
                extra = {key: value for key, value in entity.extra.items() if key not in _DERIVED_SPAN_FIELDS}
                found.append(replace(entity, start=place[0], end=place[1], text=None, extra=extra))
        return found

    def spans(self, spans: Iterable[Span]) -> list[Span]:
        """The same for rejected spans."""
        placed = ((span, self.covering(span)) for span in spans)
        return [replace(span, start=place[0], end=place[1]) for span, place in placed if place]

    def covering(self, span: Entity | Span) -> tuple[int, int] | None:
        """First word, and one past the last; ``None`` if there is no word in the span."""
        text, starts, ends = self.text, self.starts, self.ends
        if span.end > len(text):
            what = f"{span} ends after the text's {len(text)} characters"
            raise DataError(what, "correct its offsets", self.path, self.line)
        first, after = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= after:
            what = f"{span} covers no word; it is left out"
            self.report.note("empty entities", what, "remove it", self.path, self.line)
            return None
        inside = text[span.start : span.end]
        begin = span.start + len(inside) - len(inside.lstrip())
        stop = span.end - len(inside) + len(inside.rstrip())
        if (starts[first], ends[after - 1]) != (begin, stop):
            what = f"{span} ends inside a word; it covers {text[starts[first] : ends[after - 1]]!r} now"
            remedy = "make it begin and end at word boundaries"
            self.report.note("entities moved to word borders", what, remedy, self.path, self.line)
        return first, after


def _given_tokens(
    record: Mapping[str, Any], path: str | Path, line: int
) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Offsets of the words, and their other fields, if the record has words."""
    tokens = record.get("tokens") or []
    try:
        borders = [token[key] for token in tokens for key in ("start", "end")]
        right = all(isinstance(border, int) for border in borders) and borders == sorted(borders)
    except (TypeError, KeyError):
        right, borders = False, []
    if not right or (borders and not 0 <= borders[0] <= borders[-1] <= len(record["text"])):
        what = '"tokens" must have start and end inside the text, in order'
        raise DataError(what, "correct the record", path, line)
    fields = [{key: token[key] for key in token if key not in _DERIVED_TOKEN_FIELDS} for token in tokens]
    return list(zip(zip(borders[::2], borders[1::2], strict=True), fields, strict=True))
