"""Documents: a raw text with character spans, and a JSON object for everything that these cannot represent."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.records import entity_to_record, own_fields
from lacuner.corpus.formats.span_keys import TOKEN_FIELDS
from lacuner.corpus.formats.tagged import check_extra
from lacuner.corpus.formats.text_records import rejected_in_characters, sentence_from_text_record
from lacuner.corpus.sentence import Entity, Sentence
from lacuner.corpus.tokenize import Splitting, cut_words
from lacuner.errors import DataError

FRAGMENTS = "fragments"
"""Field of a discontinuous entity: ``[start, end]`` of each fragment, in characters."""
_IN_SPANS = ("start", "end", "label", "text")


@dataclass(frozen=True)
class Mention:
    """An entity as in the file.

    Attributes:
        fragments: ``[start, end)`` of its fragments in the text, in characters, in order; most entities have one.
        label: its label.
        text: its text according to the file, if given.
        fields: its source, score, and other fields.
        line: for errors.
    """

    fragments: tuple[tuple[int, int], ...]
    label: str
    text: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    line: int = 1

    def fits(self, text: str) -> bool:
        """Whether the text has these words there, in the fragments or from the first to the last; spaces are ignored."""
        if self.text is None:
            return True
        pieces = "".join(text[start:end] for start, end in self.fragments)
        wanted = "".join(self.text.split())
        if "".join(pieces.split()) == wanted:
            return True
        return len(self.fragments) > 1 and "".join(text[slice(*self.span)].split()) == wanted

    @property
    def span(self) -> tuple[int, int]:
        """Start and end."""
        return self.fragments[0][0], max(end for _, end in self.fragments)


def document_sentence(
    text: str,
    mentions: Sequence[Mention],
    status: Mapping[str, Any],
    extra: Mapping[str, Any],
    path: str | Path,
    line: int,
    report: ReadingReport,
    split: Splitting,
) -> Sentence:
    """A document as one sentence.

    Args:
        text: the whole text.
        mentions: its entities. If most of their offsets are wrong, the document is rejected.
        status: result of :func:`status_of`.
        extra: fields to pass through; those of the status take precedence.
        path: for errors.
        line: for errors.
        report: counts entities that were moved, that are discontinuous, or whose words differ from the text.
        split: how the text is tokenized, unless the status has tokens.
    """
    _check_mentions(text, mentions, path, report)
    spans = [_span(mention, path, report) for mention in mentions]
    record = with_status({"text": text, "entities": spans}, status, extra, path, line)
    return sentence_from_text_record(record, "entities", path, line, report, split)


def with_status(
    record: Mapping[str, Any], status: Mapping[str, Any], extra: Mapping[str, Any], path: str | Path, line: int
) -> dict[str, Any]:
    """A record with text and entities, and the rest of its annotation."""
    known = ("non_entities", "complete", "annotated_labels", "unknown_tokens")
    more = {key: status[key] for key in known if status.get(key) is not None}
    if status.get("token_offsets"):
        more["tokens"] = _tokens(status["token_offsets"], path, line)
    others = dict(extra) | status.get("extra", {})
    check_extra(others, path, line)
    return {**record, **more, **others}


def status_of(sentence: Sentence, options: WriteOptions, known: Iterable[str] = ()) -> dict[str, Any]:
    """What a text with labeled spans cannot represent of a sentence; remaining losses are counted.

    Args:
        sentence: to be written.
        options: counts losses.
        known: fields that the format itself represents.
    """
    fields = own_fields(sentence)
    status = {
        key: fields[key] for key in ("complete", "annotated_labels", "unknown_tokens") if fields.get(key) is not None
    }
    if sentence.non_entities:
        status["non_entities"] = rejected_in_characters(sentence)
    text, usual = sentence.raw_text, cut_words(sentence.raw_text)
    if sentence.tokens != usual or sentence.token_offsets or sentence.unknown_tokens or TOKEN_FIELDS in sentence.extra:
        offsets = sentence.offsets()
        if any(text[slice(*pair)] != token for pair, token in zip(offsets, sentence.tokens, strict=True)):
            options.losses["how words are spelled that the text spells differently"] += 1
        if (usual and not sentence.tokens) or any(not text[slice(*pair)].strip() for pair in offsets):
            options.losses["where words begin and end"] += 1
        status["token_offsets"] = [list(pair) for pair in offsets]
    extra = {key: value for key, value in sentence.extra.items() if key not in known}
    return status | ({"extra": extra} if extra else {})


def fields_of(entity: Entity, known: Iterable[str] = ()) -> dict[str, Any]:
    """Source, score and other fields of an entity, without those that the format itself represents."""
    record = entity_to_record(entity)
    return {key: value for key, value in record.items() if key not in _IN_SPANS and key not in known}


def entity_ids(entities: Sequence[Entity], right: re.Pattern[str]) -> list[str]:
    """The original IDs of entities, with new ones for missing, malformed (not ``right``) and duplicate IDs."""
    ids: list[str | None] = []
    taken: set[str] = set()
    for entity in entities:
        given = entity.extra.get("id")
        kept = given if isinstance(given, str) and right.fullmatch(given) and given not in taken else None
        taken |= {kept} if kept is not None else set()
        ids.append(kept)
    free = (key for number in range(1, 2 * len(ids) + 1) if (key := f"T{number}") not in taken)
    return [next(free) if key is None else key for key in ids]


def fragments_of(sentence: Sentence, entity: Entity, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Fragments of an entity in the text; one, unless it was read with several that are still valid."""
    whole = offsets[entity.start][0], offsets[entity.end - 1][1]
    pieces = entity.extra.get(FRAGMENTS)
    if not isinstance(pieces, list) or len(pieces) < 2:
        return [whole]
    borders = [border for piece in pieces if isinstance(piece, list) for border in piece]
    right = len(borders) == 2 * len(pieces) and all(type(border) is int for border in borders)
    if not right or borders != sorted(set(borders)) or (borders[0], borders[-1]) != whole:
        return [whole]
    return list(zip(borders[::2], borders[1::2], strict=True))


def _check_mentions(text: str, mentions: Sequence[Mention], path: str | Path, report: ReadingReport) -> None:
    wrong = []
    for mention in mentions:
        start, end = mention.span
        if start < 0 or any(begin >= stop for begin, stop in mention.fragments):
            what = f"{mention.label} at {start}–{end} is no span"
            raise DataError(what, "make it begin before it ends", path, mention.line)
        if end > len(text):
            what = f"{mention.label} at {start}–{end} ends after the text's {len(text)} characters"
            raise DataError(what, "correct its offsets", path, mention.line)
        if not mention.fits(text):
            wrong.append(mention)
    if not wrong:
        return
    first = wrong[0]
    start, end = first.span
    what = f"{first.text!r} is annotated at {start}–{end}, where the text has {text[start:end][:60]!r}"
    if len(wrong) > 1 and 2 * len(wrong) > len(mentions):
        what += f", and so it is with {len(wrong)} of {len(mentions)} entities"
        remedy = "give the text that was annotated; offsets count characters, not bytes or UTF-16 code units"
        raise DataError(what, remedy, path, first.line)
    for mention in wrong:
        report.note("entities with other words than the text", what, "correct its offsets", path, mention.line)


def _span(mention: Mention, path: str | Path, report: ReadingReport) -> dict[str, Any]:
    fields = {key: value for key, value in mention.fields.items() if key not in _IN_SPANS}
    start, end = mention.span
    if len(mention.fragments) > 1:
        what = f"{mention.label} at {start}–{end} has {len(mention.fragments)} pieces; what is between them belongs to it now"
        report.note("discontinuous entities", what, "annotate consecutive words", path, mention.line)
        fields[FRAGMENTS] = [list(piece) for piece in mention.fragments]
    return {**fields, "start": start, "end": end, "label": mention.label}


def _tokens(offsets: object, path: str | Path, line: int) -> list[dict[str, Any]]:
    if not isinstance(offsets, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in offsets):
        raise DataError('"token_offsets" must be a list of pairs of whole numbers', "correct it", path, line)
    return [{"start": start, "end": end} for start, end in offsets]
