"""BioC XML: a collection of documents, whose passages (or their sentences) have an offset, a text and annotations.

A document is one sentence, with its passages joined at their offsets. The label of an annotation is its ``infon`` with the
key ``type``. What BioC cannot represent is in an ``infon`` with the key ``lacuner``, as JSON.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.documents import (
    FRAGMENTS,
    Mention,
    document_sentence,
    entity_ids,
    fields_of,
    fragments_of,
    status_of,
)
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.tagged import parse_object, parse_status
from lacuner.corpus.formats.xml_elements import LINE, read_elements
from lacuner.corpus.sentence import Entity, Sentence
from lacuner.errors import DataError

INFONS, PASSAGES, RELATIONS = "infons", "passages", "relations"
"""Fields for other content of documents, passages and annotations, which is passed through."""
_TYPE, _OWN = "type", "lacuner"
_LONGEST_GAP = 1000
"""Maximum number of characters between two passages; greater offsets are in another unit."""
_NUMBER = re.compile(r"[0-9]{1,12}")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ID = re.compile("[^\x00-\x1f\ud800-\udfff\ufffe\uffff]+")
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>\n'
_HEAD += "<source>lacuner</source>\n<date></date>\n<key></key>\n"


@dataclass(frozen=True)
class _Piece:
    """A passage, or a sentence of one, with its position in our text and in the file."""

    element: Element
    start: int
    text: str
    offset: int
    passage: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def read_bioc(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield the documents of a collection."""
    report.remark("source, date and key of the collection are not read", path)
    for document in read_elements(path, "collection", "document"):
        yield _document(document, path, report, options)


def write_bioc(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write a collection; a document has its original passages, or one."""
    file.write(_HEAD)
    for number, sentence in enumerate(sentences, options.first):
        if _NOT_IN_XML.search(sentence.raw_text):
            what = f"{options.name or 'output'}: sentence {number} has a character that XML cannot hold"
            raise DataError(what, "write JSON Lines (.jsonl) instead")
        file.write("".join(_document_lines(number, sentence, options)))
    file.write("</collection>\n")


def _document(document: Element, path: str | Path, report: ReadingReport, options: ReadOptions) -> Sentence:
    text, pieces = _put_together(document, path, report)
    shifts = {piece.passage: piece.start - piece.offset for piece in reversed(pieces)}
    whole, mentions = {piece.element for piece in pieces}, []
    for piece in pieces:
        for annotation in piece.element.iter("annotation"):
            mentions += _mention(annotation, piece.start - piece.offset, path, report)
    for number, passage in enumerate(document.findall("passage")):
        for annotation in passage.findall("annotation") if passage not in whole else ():
            mentions += _mention(annotation, shifts[number], path, report)
    for annotation in document.findall("annotation"):
        mentions += _mention(annotation, shifts.get(0, 0), path, report)
    infons = _infons(document)
    line = _line(document)
    status = parse_status(infons.pop(_OWN), path, line, "the infon") if _OWN in infons else {}
    name = (document.findtext("id") or "").strip()
    extra: dict[str, Any] = {"id": name} if name else {}
    extra |= {INFONS: infons} if infons else {}
    relations = [_relation(element) for element in document.iter("relation")]
    extra |= {RELATIONS: relations} if relations else {}
    passages = _passages(document, pieces)
    if passages != [{"start": 0, "end": len(text), "offset": 0}]:
        extra[PASSAGES] = passages
    return document_sentence(text, mentions, status, extra, path, line, report, options.split)


def _put_together(document: Element, path: str | Path, report: ReadingReport) -> tuple[str, list[_Piece]]:
    """The text of a document, and the positions of its passages."""
    texts: list[str] = []
    pieces: list[_Piece] = []
    length = 0
    for number, passage in enumerate(document.findall("passage")):
        parts = passage.findall("sentence") if passage.findtext("text") is None else []
        if parts:
            report.remark("sentences of passages are read as passages", path)
        for element in parts or [passage]:
            content, offset = element.findtext("text") or "", _offset(element, path)
            gap = offset - (pieces[-1].offset + len(pieces[-1].text) if pieces else 0)
            touches = pieces and pieces[-1].text and content  # no word continues in the next passage
            if not bool(touches) <= gap <= _LONGEST_GAP:
                report.remark("offsets of passages do not match their texts; offsets are recomputed", path)
                gap = 1 if pieces else 0
            texts += ["\n" * gap, content]
            pieces.append(_Piece(element, length + gap, content, offset, number))
            length += gap + len(content)
    return "".join(texts), pieces


def _mention(annotation: Element, shift: int, path: str | Path, report: ReadingReport) -> list[Mention]:
    """The entity of an annotation; none, with a count, if it has no label or no location."""
    line, infons = _line(annotation), _infons(annotation)
    name = annotation.get("id") or "without id"
    label = infons.pop(_TYPE, "")
    locations = annotation.findall("location")
    if not label or not locations:
        what = f"the annotation {name} has no {'location' if label else 'infon with the key type'}; it is left out"
        report.note("annotations without label or location", what, "give it one, or remove it", path, line)
        return []
    fragments = []
    for location in locations:
        offset, length = location.get("offset", ""), location.get("length", "")
        if not _NUMBER.fullmatch(offset) or not _NUMBER.fullmatch(length):
            what = f"the location of the annotation {name} has no offset and length"
            raise DataError(what, "give it whole numbers", path, line)
        fragments.append((int(offset) + shift, int(offset) + int(length) + shift))
    fields = parse_object(infons.pop(_OWN), path, line, "the infon") if _OWN in infons else {}
    others = ({"id": annotation.attrib["id"]} if annotation.get("id") else {}) | ({INFONS: infons} if infons else {})
    return [Mention(tuple(sorted(fragments)), label, annotation.findtext("text"), {**others, **fields}, line)]


def _passages(document: Element, pieces: Sequence[_Piece]) -> list[dict[str, Any]]:
    around, passages = [_infons(passage) for passage in document.findall("passage")], []
    for piece in pieces:
        passage: dict[str, Any] = {"start": piece.start, "end": piece.end, "offset": piece.offset}
        infons = around[piece.passage] | _infons(piece.element)
        passages.append(passage | ({INFONS: infons} if infons else {}))
    return passages


def _relation(relation: Element) -> dict[str, Any]:
    nodes = [{"refid": node.get("refid", ""), "role": node.get("role", "")} for node in relation.findall("node")]
    return {"id": relation.get("id", ""), INFONS: _infons(relation), "nodes": nodes}


def _infons(element: Element) -> dict[str, str]:
    return {infon.get("key", ""): infon.text or "" for infon in element.findall("infon")}


def _offset(element: Element, path: str | Path) -> int:
    offset = (element.findtext("offset") or "").strip()
    if not _NUMBER.fullmatch(offset):
        what = f"a {element.tag} has the offset {offset[:20]!r}"
        raise DataError(what, "give it a whole number", path, _line(element))
    return int(offset)


def _line(element: Element) -> int:
    return int(element.get(LINE, 1))


def _document_lines(number: int, sentence: Sentence, options: WriteOptions) -> Iterator[str]:
    text, offsets = sentence.raw_text, sentence.offsets()
    passages, known = _fitting_passages(sentence, offsets), ["id"]
    given = sentence.extra.get("id")
    key = given if isinstance(given, str) and given and given == given.strip() and _fits(given) else str(number)
    infons, relations = sentence.extra.get(INFONS), sentence.extra.get(RELATIONS)
    known += [INFONS] if infons and _are_infons(infons) else []
    known += [RELATIONS] if relations and _are_relations(relations) else []
    known += [PASSAGES] if passages is not None else []
    status = status_of(sentence, options, known)
    if given is not None and key != given:
        status.setdefault("extra", {})["id"] = given
    yield f"<document>\n<id>{_escape(key)}</id>\n"
    yield from _infon_lines(infons if INFONS in known else None, status)
    ids = entity_ids(sentence.entities, _ID)
    shown = passages or [{"start": 0, "end": len(text), "offset": 0}]
    inside = _by_passage(sentence.entities, offsets, shown)
    for which, passage in enumerate(shown):
        start, end = passage["start"], passage["end"]
        yield "<passage>\n"
        yield from _infon_lines(passage.get(INFONS), {})
        yield f"<offset>{passage['offset']}</offset>\n<text>{_escape(text[start:end])}</text>\n"
        for index in inside[which]:
            pieces = fragments_of(sentence, sentence.entities[index], offsets)
            yield from _annotation_lines(ids[index], sentence.entities[index], text, pieces, passage["offset"] - start)
        yield "</passage>\n"
    for relation in relations if RELATIONS in known and isinstance(relations, list) else ():
        yield f"<relation id={_quote(relation['id'])}>\n"
        yield from _infon_lines(relation[INFONS], {})
        yield from (f"<node refid={_quote(n['refid'])} role={_quote(n['role'])}/>\n" for n in relation["nodes"])
        yield "</relation>\n"
    yield "</document>\n"


def _annotation_lines(
    name: str, entity: Entity, text: str, pieces: Sequence[tuple[int, int]], shift: int
) -> Iterator[str]:
    infons = entity.extra.get(INFONS)
    known = ["id"] * (entity.extra.get("id") == name) + [FRAGMENTS] * (len(pieces) > 1)
    known += [INFONS] * bool(infons and _are_infons(infons) and _TYPE not in infons)
    yield f"<annotation id={_quote(name)}>\n"
    yield from _infon_lines({_TYPE: entity.label}, {})
    yield from _infon_lines(infons if INFONS in known else None, fields_of(entity, known))
    yield from (f'<location offset="{start + shift}" length="{end - start}"/>\n' for start, end in pieces)
    shown = " ".join(text[start:end] for start, end in pieces)
    yield f"<text>{_escape(shown)}</text>\n</annotation>\n"


def _infon_lines(infons: Mapping[str, str] | None, own: Mapping[str, Any]) -> Iterator[str]:
    for key, value in (infons or {}).items():
        yield f"<infon key={_quote(key)}>{_escape(value)}</infon>\n"
    if own:
        yield f'<infon key="{_OWN}">{_escape(to_line(own, ascii_only=True).rstrip())}</infon>\n'


def _fitting_passages(sentence: Sentence, offsets: Sequence[tuple[int, int]]) -> list[dict[str, Any]] | None:
    """The original passages of a document, if they still cover its words without cutting an entity."""
    passages = sentence.extra.get(PASSAGES)
    if not isinstance(passages, list) or not passages or not all(map(_is_passage, passages)):
        return None
    borders = [passage[key] for passage in passages for key in ("start", "end")]
    if borders != sorted(borders) or borders[-1] != len(sentence.raw_text):
        return None
    gaps = [borders[0], *(after["start"] - before["end"] for before, after in pairwise(passages))]
    outside = [sentence.raw_text[a:b] for a, b in zip([0, *borders[1::2]], borders[::2], strict=False)]
    if set("".join(outside)) - {"\n"} or max(gaps) > _LONGEST_GAP:
        return None
    inside = _by_passage(sentence.entities, offsets, passages)
    if sum(map(len, inside.values())) < len(sentence.entities):
        return None
    return passages


def _by_passage(
    entities: Sequence[Entity], offsets: Sequence[tuple[int, int]], passages: Sequence[Mapping[str, Any]]
) -> dict[int, list[int]]:
    """The entities inside each passage."""
    inside: dict[int, list[int]] = {number: [] for number in range(len(passages))}
    starts = [passage["start"] for passage in passages]
    for index, entity in enumerate(entities):
        start, end = offsets[entity.start][0], offsets[entity.end - 1][1]
        number = bisect_right(starts, start) - 1
        if number >= 0 and end <= passages[number]["end"]:
            inside[number].append(index)
    return inside


def _is_passage(passage: object) -> bool:
    if not isinstance(passage, Mapping) or not passage.keys() <= {"start", "end", "offset", INFONS}:
        return False
    right = all(type(passage.get(key)) is int and 0 <= passage[key] < 10**12 for key in ("start", "end", "offset"))
    return right and _are_infons(passage.get(INFONS, {}))


def _are_infons(infons: object) -> bool:
    return isinstance(infons, Mapping) and all(
        isinstance(text, str) and key != _OWN and _fits(text) for key, value in infons.items() for text in (key, value)
    )


def _are_relations(relations: object) -> bool:
    return isinstance(relations, list) and all(
        isinstance(relation, Mapping)
        and relation.keys() == {"id", INFONS, "nodes"}
        and isinstance(relation["id"], str)
        and _fits(relation["id"])
        and _are_infons(relation[INFONS])
        and isinstance(relation["nodes"], list)
        and all(_are_infons(node) and node.keys() == {"refid", "role"} for node in relation["nodes"])
        for relation in relations
    )


def _fits(text: str) -> bool:
    return _NOT_IN_XML.search(text) is None


def _escape(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


def _quote(text: str) -> str:
    return quoteattr(text, {"\r": "&#13;"})


FORMATS = [
    Format("bioc", (".xml", ".bioc"), read_bioc, write_bioc, cannot_hold=frozenset({"by_source"}), line_based=False)
]
