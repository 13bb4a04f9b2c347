"""brat standoff: a folder with a text ``NAME.txt`` and its annotation ``NAME.ann`` for every document.

Lines ``T1<TAB>PER 0 3<TAB>Ada`` are entities. Other lines (relations, events, attributes, …) are passed through in the field
``brat``. What brat cannot represent is in notes of the type ``Lacuner``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lacuner.corpus.files import ReadingReport, read_lines, read_text
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
from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

LINES = "brat"
"""Field of a sentence with the annotation lines that are not entities."""
_KINDS = {
    "R": "relations", "E": "events", "A": "attributes", "M": "attributes",
    "N": "normalizations", "*": "equivalences", "#": "notes",
}  # fmt: skip
_NOTE, _DOCUMENT = "Lacuner", "document"
_ENTITY = re.compile(r"(T[^\s]+)\t([^\s]+) ([0-9]{1,12} [0-9]{1,12}(?:;[0-9]{1,12} [0-9]{1,12})*)(?:\t(.*))?")
_ID = re.compile(r"T[0-9]{1,9}")
_OTHER = re.compile(r"(?:[REAMN#][^\s]+|\*)\t[^\n\r]+")
_OWN_NOTE = re.compile(rf"#[^\s]+\t{_NOTE} ([^\s]+)\t(.*)")
_NAME = re.compile(r"\w[\w.,+=@ -]{0,99}")
_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_FORM = "write ID, tab, label, start, end, tab, text: T1<TAB>PER 0 3<TAB>Ada"


def read_brat(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield the documents of a folder and its subfolders, sorted by name, or that of one ``.ann`` file."""
    root = Path(path)
    annotated = _files(root, ".ann") if root.is_dir() else [root]
    if not annotated:
        raise DataError("there is no .ann file in it", "give a folder with .txt and .ann files", path)
    for file in annotated:
        name = (file.relative_to(root) if root.is_dir() else Path(file.name)).as_posix().removesuffix(".ann")
        yield _document(file, name, report, options)
    texts = _files(root, ".txt") if root.is_dir() else []
    for text in sorted({file.with_suffix("") for file in texts} - {file.with_suffix("") for file in annotated}):
        what = "there is no .ann file for this text; it is left out"
        report.note("texts without annotation", what, "create an empty .ann file if it is to be read", f"{text}.txt", 1)


def write_brat(sentences: Iterable[Sentence], folder: Path, options: WriteOptions) -> None:
    """Write two files per document, named after its ``id``, or numbered."""
    if options.name.lower().endswith((".ann", ".txt")):
        raise DataError("brat has a folder with two files a document", "give the name of a folder", options.name)
    taken: set[str] = set()
    for number, sentence in enumerate(sentences, options.first):
        given = sentence.extra.get("id")
        name = _file_name(given, number, taken)
        status = status_of(sentence, options, known=[LINES, "id"])
        if given is not None and name != given:
            status.setdefault("extra", {})["id"] = given
        lines = _annotation(sentence, status, options)
        text = sentence.raw_text
        # The second of two byte order marks is part of the text.
        (folder / f"{name}.txt").write_bytes(text.encode() if text[:1] != "\ufeff" else b"\xef\xbb\xbf" + text.encode())
        (folder / f"{name}.ann").write_bytes("".join(line + "\n" for line in lines).encode())


def _document(file: Path, name: str, report: ReadingReport, options: ReadOptions) -> Sentence:
    text_file = file.with_suffix(".txt")
    if not text_file.is_file():
        raise DataError(f"there is no {text_file.name} with the text", "put it beside the .ann file", file)
    mentions: dict[str, Mention] = {}
    others, notes = [], {}
    for number, line in read_lines(file):
        if not line.strip():
            continue
        if entity := _ENTITY.fullmatch(line):
            key = f"{entity[1]}\n{number}" if entity[1] in mentions else entity[1]
            if key != entity[1]:
                what = f"there are two annotations with the ID {entity[1]}"
                report.note("IDs that are there twice", what, "give one of them another ID", file, number)
            pieces = [(int(start), int(end)) for start, end in map(str.split, entity[3].split(";"))]
            mentions[key] = Mention(tuple(sorted(pieces)), entity[2], entity[4], {"id": entity[1]}, number)
        elif note := _OWN_NOTE.fullmatch(line):
            parse = parse_status if note[1] == _DOCUMENT else parse_object
            notes[note[1]] = number, parse(note[2], file, number, "the note")
        elif _OTHER.fullmatch(line):
            report.remark(f"{_KINDS[line[0]]} ({line[0]}) are kept but not interpreted", file.parent)
            others.append(line)
        else:
            raise DataError(f"not a line of brat standoff: {line[:60]!r}", _FORM, file, number)
    _, status = notes.pop(_DOCUMENT, (0, {}))
    for key, (number, fields) in notes.items():
        if key not in mentions:
            what = f"a note is about {key}, which is not there; it is left out"
            report.note("notes about nothing", what, "remove it", file, number)
        else:
            mentions[key] = _with_note(mentions[key], fields)
    extra: dict[str, Any] = {"id": name} | ({LINES: others} if others else {})
    found = list(mentions.values())
    text = _annotated_text(text_file, found, report)
    return document_sentence(text, found, status, extra, file, 1, report, options.split)


def _with_note(mention: Mention, note: dict[str, Any]) -> Mention:
    label = note.get("label")
    if not isinstance(label, str) or _type_name(label) != mention.label:
        label = mention.label
    fields = {key: value for key, value in note.items() if key != "label"}
    return replace(mention, label=label, fields={**mention.fields, **fields})


def _annotated_text(file: Path, mentions: Sequence[Mention], report: ReadingReport) -> str:
    """The text that the offsets refer to.

    Programs differ in whether they count a byte order mark, and the carriage return of Windows line ends; the variant that
    matches the annotated words is used.
    """
    content = read_text(file)
    plain = content.removeprefix("\ufeff")
    texts = dict.fromkeys([plain, content, plain.replace("\r\n", "\n"), content.replace("\r\n", "\n")])
    if len(texts) == 1:
        return plain
    chosen = min(texts, key=lambda text: sum(not mention.fits(text) for mention in mentions))
    if chosen != plain:
        report.remark("offsets count a byte order mark, or line ends on Windows as one character", file.parent)
    return chosen


def _annotation(sentence: Sentence, status: dict[str, Any], options: WriteOptions) -> list[str]:
    offsets, text = sentence.offsets(), sentence.raw_text
    ids = entity_ids(sentence.entities, _ID)
    lines, notes = [], []
    for key, entity in zip(ids, sentence.entities, strict=True):
        pieces = fragments_of(sentence, entity, offsets)
        shown = " ".join(_BREAKS.sub(" ", text[start:end]) for start, end in pieces)
        label = _type_name(entity.label)
        lines.append(f"{key}\t{label} {';'.join(f'{start} {end}' for start, end in pieces)}\t{shown}")
        known = [FRAGMENTS] * (len(pieces) > 1) + ["id"] * (entity.extra.get("id") == key)
        if note := ({"label": entity.label} if label != entity.label else {}) | fields_of(entity, known):
            notes.append((key, note))
    given = sentence.extra.get(LINES)
    if given and isinstance(given, list) and all(isinstance(line, str) and _is_kept(line) for line in given):
        kept = _that_refer_to(given, ids)
        if len(kept) < len(given):
            options.losses["relations, attributes and notes of what is not there"] += 1
        lines += kept
    elif LINES in sentence.extra:
        status.setdefault("extra", {})[LINES] = given
    if status:
        notes.append((_DOCUMENT, status))
    first = 1 + max((int(line[1:].split("\t")[0]) for line in lines if re.match(r"#[0-9]{1,9}\t", line)), default=0)
    return lines + [
        f"#{number}\t{_NOTE} {key}\t{to_line(note).rstrip()}" for number, (key, note) in enumerate(notes, first)
    ]


def _that_refer_to(lines: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The lines that refer to entities with these IDs, directly or through other such lines."""
    kept = list(lines)
    while True:
        known = {*ids, *(line.split("\t")[0] for line in kept)}
        fitting = [line for line in kept if known.issuperset(_references(line))]
        if len(fitting) == len(kept):
            return kept
        kept = fitting


def _references(line: str) -> list[str]:
    words = line.split("\t")[1].split()
    if line[0] == "E":
        return [word.rpartition(":")[2] for word in words]
    if line[0] in "R*":
        return [word.rpartition(":")[2] for word in words[1:]]
    return words[1:2]


def _is_kept(line: str) -> bool:
    return _OTHER.fullmatch(line) is not None and _OWN_NOTE.fullmatch(line) is None


def _type_name(label: str) -> str:
    return re.sub(r"\s", "_", label) or "_"


def _file_name(given: object, number: int, taken: set[str]) -> str:
    """A file name that is not taken, ignoring case."""
    name = given if isinstance(given, str) and _NAME.fullmatch(given) and given == given.strip() else f"{number:06}"
    while name.casefold() in taken or name.casefold().endswith((".txt", ".ann")):
        name = f"{name}_{number}"
    taken.add(name.casefold())
    return name


def _files(root: Path, ending: str) -> list[Path]:
    return sorted(file for file in root.rglob(f"*{ending}") if not file.name.startswith(".") and file.is_file())


FORMATS = [
    Format(
        "brat",
        (".ann",),
        read_brat,
        cannot_hold=frozenset({"by_source"}),
        write_folder=write_brat,
        folder_files=("*.ann",),
    )
]
