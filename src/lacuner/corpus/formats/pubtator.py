"""PubTator: lines ``ID|t|title`` and ``ID|a|abstract``, then a tab-separated line for each entity, and a blank line.

Offsets are in characters of title, one separating character, and abstract. Tab-separated lines without offsets are relations;
they are passed through in the field ``relations``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.documents import Mention, document_sentence
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

IDENTIFIER = "identifier"
"""Field of an entity with its concept ID in a knowledge base."""
COLUMNS = "columns"
"""Field of an entity with the rest of its line after the identifier."""
_RELATIONS = "relations"
_SECTION = re.compile(r"([^|\t]+)\|([at])\|(.*)")
_ID = re.compile(r"[^|\t\n\r]+")
_NUMBER = re.compile(r"[0-9]{1,12}")
_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_FORM = "write ID|t|title, ID|a|abstract, and ID, start, end, text, label with tabs between"


@dataclass
class _Document:
    id: str
    line: int
    title: str
    abstract: str | None = None
    mentions: list[Mention] = field(default_factory=list)
    relations: list[list[str]] = field(default_factory=list)


def read_pubtator(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield the documents of a file, each as one sentence."""
    for document in _documents(path, report):
        text = document.title if document.abstract is None else f"{document.title}\n{document.abstract}"
        extra: dict[str, Any] = {"id": document.id}
        if document.relations:
            extra[_RELATIONS] = document.relations
        yield document_sentence(text, document.mentions, {}, extra, path, document.line, report, options.split)


def write_pubtator(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write one document per sentence; its title is the text before the first line break."""
    for number, sentence in enumerate(sentences, options.first):
        text, offsets = sentence.raw_text, sentence.offsets()
        given, losses = sentence.extra.get("id"), set()
        right = isinstance(given, str | int) and _ID.fullmatch(str(given)) and str(given) == str(given).strip()
        key = str(given) if right else str(number)
        title, between, abstract = text.partition("\n")
        if given is not None and not right:
            losses.add(f"the id {given!r}"[:60])
        if _BREAKS.search(title + abstract) or (between and not abstract):
            losses.add("line breaks and tabs of the text")
        lines = [f"{key}|t|{_BREAKS.sub(' ', title)}", f"{key}|a|{_BREAKS.sub(' ', abstract)}"]
        for entity in sentence.entities:
            start, end = offsets[entity.start][0], offsets[entity.end - 1][1]
            others = [entity.extra.get(IDENTIFIER, "")]
            more = entity.extra.get(COLUMNS, [])
            others += more if isinstance(more, list) else [more]
            cells = [_BREAKS.sub(" ", text[start:end]), entity.label, *others]
            if not all(isinstance(cell, str) and not _BREAKS.search(cell) for cell in cells):
                losses.add("labels or identifiers with line breaks and tabs")
                cells = [_BREAKS.sub(" ", str(cell)) for cell in cells]
            losses |= {f"the field {name!r} of entities" for name in entity.extra if name not in (IDENTIFIER, COLUMNS)}
            lines.append("\t".join([key, str(start), str(end), *cells]))
        lines += _relation_lines(key, sentence.extra.get(_RELATIONS), losses)
        losses |= {f"the field {name!r}" for name in sentence.extra if name not in ("id", _RELATIONS)}
        options.losses.update(losses)
        file.write("\n".join(lines) + "\n\n")


def _documents(path: str | Path, report: ReadingReport) -> Iterator[_Document]:
    document: _Document | None = None
    for number, line in read_lines(path):
        section = _SECTION.fullmatch(line)
        if section and section[2] == "t":
            if document is not None:
                yield document
            document = _Document(section[1], number, section[3])
        elif not line.strip():
            continue
        elif document is None:
            raise DataError(f"no line ID|t|title comes before {line[:60]!r}", _FORM, path, number)
        elif section:
            if section[1] != document.id or document.abstract is not None or document.mentions:
                what = f"this abstract does not follow its title: {line[:60]!r}"
                raise DataError(what, "write ID|a|abstract right after ID|t|title", path, number)
            document.abstract = section[3] or None
        else:
            _add_line(document, line, path, number, report)
    if document is not None:
        yield document


def _add_line(document: _Document, line: str, path: str | Path, number: int, report: ReadingReport) -> None:
    cells = line.split("\t")
    if len(cells) < 4:
        raise DataError(f"not a line of PubTator: {line[:60]!r}", _FORM, path, number)
    if cells[0] != document.id:
        what = f"the line is about {cells[0]!r}, but stands below {document.id!r}"
        raise DataError(what, "move it below its document", path, number)
    if not _NUMBER.fullmatch(cells[1]):
        report.remark("relations are kept but not interpreted", path)
        document.relations.append(cells[1:])
        return
    if len(cells) < 5 or not _NUMBER.fullmatch(cells[2]) or not cells[4]:
        what = f"not an entity of PubTator: {line[:60]!r}"
        raise DataError(what, "write ID, start, end, text, label and identifier with tabs between", path, number)
    fields: dict[str, Any] = {IDENTIFIER: cells[5]} if len(cells) > 5 and (cells[5] or len(cells) > 6) else {}
    if len(cells) > 6:
        fields[COLUMNS] = cells[6:]
    document.mentions.append(Mention(((int(cells[1]), int(cells[2])),), cells[4], cells[3], fields, number))


def _relation_lines(key: str, relations: object, losses: set[str]) -> list[str]:
    if relations is None:
        return []
    right = (
        relations
        and isinstance(relations, list)
        and all(
            isinstance(cells, list)
            and len(cells) > 2
            and all(isinstance(cell, str) and not _BREAKS.search(cell) for cell in cells)
            and not _NUMBER.fullmatch(cells[0])
            for cells in relations
        )
    )
    if not right:
        losses.add(f"the field {_RELATIONS!r}")
        return []
    return ["\t".join([key, *cells]) for cells in relations] if isinstance(relations, list) else []


FORMATS = [
    Format(
        "pubtator",
        (".pubtator", ".pubtator.txt"),
        read_pubtator,
        write_pubtator,
        cannot_hold=frozenset(
            {"tokens", "non_entities", "complete", "annotated_labels", "unknown_tokens", "by_source", "source", "score"}
        ),
    )
]
