"""Documents: assigning sentences to documents, and splitting documents into sentences without cutting spans."""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from lacuner.corpus.formats.conll import DOCUMENT_MARK
from lacuner.corpus.formats.span_keys import TOKEN_FIELDS
from lacuner.corpus.sentence import Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.tokenize import sentence_ends

S = TypeVar("S", Entity, Span)
DOCUMENT_FIELDS = ("document", "document_id", "doc_id", "doc", "docid", "id")
"""Fields that identify a sentence's document, in order of precedence; also in ``meta``."""
OFFSET = "offset"
"""Field of a sentence split from a document: the offset of its text there, in characters."""


def document_of(sentence: Sentence) -> tuple[str, str] | None:
    """The field that identifies a sentence's document, and its value."""
    meta = sentence.extra.get("meta")
    for fields in (sentence.extra, meta if isinstance(meta, Mapping) else {}):
        for name in DOCUMENT_FIELDS:
            value = fields.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool):
                return name, str(value)
    return None


def cut_into_sentences(document: Sentence) -> list[Sentence]:
    """Split a document with known text into sentences, with ``offset``, and ``document`` unless a field identifies it.

    Annotated and rejected spans are never cut: a sentence end inside one is ignored.

    Args:
        document: with annotation; a text of one sentence is returned unchanged. If no field identifies it, its ID is a hash
            of its text, so that it does not depend on where and with which others it is read.
    """
    if document.text is None:
        return [document]
    offsets = document.offsets()
    inside = words_inside_spans(document)
    ends = [word for word in sentence_ends(document.text, offsets) if word not in inside]
    if not ends:
        return [document]
    name: dict[str, Any] = {} if document_of(document) is not None else {"document": _digest(document.text)}
    before = document.extra.get(OFFSET)
    moved = before if isinstance(before, int) else 0
    sentences = []
    for begin, end in zip([0, *ends], [*ends, len(document)], strict=True):
        start, stop = offsets[begin][0], offsets[end - 1][1]
        extra = dict(document.extra)
        if begin > 0:
            extra.pop(DOCUMENT_MARK, None)
        fields = extra.get(TOKEN_FIELDS)
        if isinstance(fields, list) and len(fields) == len(document):
            extra[TOKEN_FIELDS] = fields[begin:end]
        sentences.append(
            replace(
                slice_sentence(document, begin, end),
                text=document.text[start:stop],
                token_offsets=tuple((first - start, last - start) for first, last in offsets[begin:end]),
                extra=extra | name | {OFFSET: moved + start},
            )
        )
    return sentences


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def slice_sentence(sentence: Sentence, begin: int, end: int) -> Sentence:
    """The words ``[begin, end)`` and the annotation of spans inside, without text and other fields."""
    return Sentence(
        tokens=sentence.tokens[begin:end],
        entities=_within(sentence.entities, begin, end),
        non_entities=_within(sentence.non_entities, begin, end),
        complete=sentence.complete,
        annotated_labels=sentence.annotated_labels,
        unknown_tokens=_words_within(sentence.unknown_tokens, begin, end),
        by_source=tuple(_slice_annotation(said, begin, end) for said in sentence.by_source),
    )


def _slice_annotation(said: SourceAnnotation, begin: int, end: int) -> SourceAnnotation:
    return replace(
        said,
        entities=_within(said.entities, begin, end),
        non_entities=_within(said.non_entities, begin, end),
        unknown_tokens=_words_within(said.unknown_tokens, begin, end),
    )


def _words_within(words: frozenset[int], begin: int, end: int) -> frozenset[int]:
    return frozenset(word - begin for word in range(begin, end) if word in words)


def words_inside_spans(sentence: Sentence) -> set[int]:
    """The words of annotated and rejected spans except their first: no cut may be before these."""
    inside: set[int] = set()
    reached = 0
    annotated = [span for said in sentence.statements() for span in (*said.entities, *said.non_entities)]
    for start, end in sorted((span.start, span.end) for span in annotated):
        inside.update(range(max(reached, start + 1), end))
        reached = max(reached, end)
    return inside


def _within(spans: Sequence[S], begin: int, end: int) -> tuple[S, ...]:
    """Spans inside ``[begin, end)``, with offsets relative to ``begin``; ``spans`` are ordered by start."""
    first, after = (bisect_left(spans, word, key=attrgetter("start")) for word in (begin, end))
    return tuple(
        replace(span, start=span.start - begin, end=span.end - begin) for span in spans[first:after] if span.end <= end
    )
