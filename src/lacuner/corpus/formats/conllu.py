"""CoNLL-U and CoNLL-U Plus: ten columns, or those named by ``# global.columns``, with named-entity tags.

Tags are in MISC (``NER=B-PER``, ``NE=…``, ``name=…``), in a column with such a name, or in an eleventh one. Words are lines
with integer IDs. Other columns, comments, and lines numbered ``1-2`` or ``1.1`` are passed through.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.columns import Block, is_tag
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.span_keys import TOKEN_FIELDS
from lacuner.corpus.formats.tag_schemes import NO_TAG, UNKNOWN_TAGS, detect_scheme, label_of
from lacuner.corpus.formats.tagged import STATUS_LINE, WRITE_JSONL, status_of_tagged, tagged_sentence, tags_of
from lacuner.corpus.sentence import OUTSIDE, Sentence
from lacuner.errors import DataError

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
OTHERS = "conllu"
"""Field of a sentence with its comments, and the lines between its words."""
_LOOK_AHEAD = 10_000
_MISC_KEYS = ("ner", "ne", "name")
_NAMED = re.compile(r"(?:.*:)?(?:ner|ne|iob|bio|named[_-]?entity|entity)(?:[_-]?tags?)?(?::.*)?", re.IGNORECASE)
_GLOBAL = re.compile(r"#\s*global\.columns\s*=\s*(.*)")
_SENT_ID, _TEXT = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*"), re.compile(r"#\s*text\s*=\s*(.*?)\s*")
_RANGE, _EMPTY = re.compile(r"([0-9]{1,9})-([0-9]{1,9})"), re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
_NO_SPACE, _SPACES = "SpaceAfter=No", re.compile(r"\s*")


@dataclass
class _Lines:
    """The lines of a sentence, split into cells; those between words with the number of preceding words."""

    comments: list[tuple[int, str]] = field(default_factory=list)
    words: list[tuple[int, list[str]]] = field(default_factory=list)
    between: list[tuple[int, int, list[str]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Layout:
    """The names of the columns, and the column or the key in MISC that contains the tags."""

    names: tuple[str, ...]
    column: int | None = None
    key: str | None = None

    @property
    def misc(self) -> int | None:
        return self.names.index("MISC") if "MISC" in self.names else None

    @property
    def tagged(self) -> bool:
        return self.column is not None or self.key is not None

    def tag_of(self, cells: Sequence[str]) -> str:
        if self.column is not None:
            return cells[self.column]
        values = [value for key, value in _attributes(cells[self.misc or 0]) if key.lower() == self.key]
        return values[0] if values else OUTSIDE


def read_conllu(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """Yield sentences of a file; the position of tags is detected from the first 10,000."""
    names: list[str] = []
    sentences = _sentences(path, report, names)
    ahead = [lines for _, lines in zip(range(_LOOK_AHEAD), sentences, strict=False)]
    layout = _layout(ahead, tuple(names), options is None or options.tagged, path)
    blocks = ((lines, _block(lines, layout, path, report)) for lines in chain(ahead, sentences))
    seen = [next(blocks) for _ in ahead]
    scheme = detect_scheme(block.tags for _, block in seen) if layout.tagged else None
    for lines, block in chain(seen, blocks):
        yield tagged_sentence(block, scheme, path, report, _fields(lines, layout, path, report))


def write_conllu(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write ten columns with the tags in MISC."""
    for number, sentence in enumerate(sentences, options.first):
        where = f"{options.name or 'output'}: sentence {number}"
        tags = tags_of(sentence, options.scheme, where)
        for what, values, wrong in (("word", sentence.tokens, r"[\t\n\r]"), ("tag", tags, r"[\t\n\r|]")):
            for value in dict.fromkeys(values):
                if not value or re.search(wrong, value) or (what == "tag" and value != value.strip()):
                    raise DataError(f"{where}: the {what} {value!r} does not fit into a column", WRITE_JSONL)
        file.write("".join(_lines_of(sentence, tags)) + "\n")


def _sentences(path: str | Path, report: ReadingReport, names: list[str]) -> Iterator[_Lines]:
    lines = _Lines()
    for number, line in read_lines(path):
        if not line.strip():
            if lines.words:
                yield lines
            else:
                _note_alone(lines, path, report)
            lines = _Lines()
        elif line.startswith("#"):
            if lines.words or lines.between:
                raise DataError("a comment is inside a sentence", "put it before the sentence", path, number)
            if number == 1 and (found := _GLOBAL.fullmatch(line)):
                names += found[1].split()
            else:
                lines.comments.append((number, line))
        else:
            _add_row(lines, number, line.split("\t"), path)
    if lines.words:
        yield lines
    else:
        _note_alone(lines, path, report)


def _note_alone(lines: _Lines, path: str | Path, report: ReadingReport) -> None:
    """Report comments, or lines that are not words, outside of sentences."""
    for number, _ in lines.comments:
        what = "a comment is followed by no sentence; it is left out"
        report.note("comments without a sentence", what, "put it right before its sentence", path, number)
    for number, _, cells in lines.between:
        what = f"the line {cells[0]} belongs to no words; it is left out"
        report.note("lines that are no words", what, "remove it", path, number)


def _add_row(lines: _Lines, number: int, cells: list[str], path: str | Path) -> None:
    expected = str(len(lines.words) + 1)
    if _RANGE.fullmatch(cells[0]) or _EMPTY.fullmatch(cells[0]):
        lines.between.append((number, len(lines.words), cells))
    elif cells[0] != expected:
        what = f"the first column is {cells[0][:20]!r} instead of {expected}"
        raise DataError(what, "number the words of every sentence from 1 on, with tabs between columns", path, number)
    else:
        lines.words.append((number, cells))


def _layout(ahead: Sequence[_Lines], names: tuple[str, ...], tagged: bool, path: str | Path) -> _Layout:
    """Detect where the tags are."""
    rows = [cells for lines in ahead for _, cells in lines.words]
    if not rows:
        return _Layout(names or COLUMNS)
    if not names:
        width = len(rows[0])
        if width not in (len(COLUMNS), len(COLUMNS) + 1):
            what = f"there are {width} columns, but CoNLL-U has {len(COLUMNS)}"
            raise DataError(what, "name them in a first line # global.columns, or read it as conll", path)
        names = (*COLUMNS, "NER")[:width]
    for name in ("ID", "FORM"):
        if names.count(name) != 1 or (name == "ID" and names[0] != name):
            raise DataError(f"# global.columns has no column {name}", "begin it with ID and FORM", path, 1)
    rows = [cells for cells in rows if len(cells) == len(names)]
    named = [index for index, name in enumerate(names) if _NAMED.fullmatch(name)]
    layout = _Layout(names)
    keys = _tag_keys([cells[layout.misc] for cells in rows]) if layout.misc is not None else []
    misc = {cells[layout.misc] for cells in rows} if layout.misc is not None else set()
    if len(named) + len(keys) > 1:
        shown = [names[index] for index in named] + [f"{key}=… in MISC" for key in keys]
        raise DataError(f"there are two places with tags: {' and '.join(shown[:2])}", "keep the intended ones", path)
    if named:
        return _Layout(names, named[0])
    if keys:
        return _Layout(names, key=keys[0])
    if any(label_of(value) for value in misc) and not any("=" in value for value in misc):
        return _Layout(names, layout.misc)
    if tagged:
        what = "there are no tags of named entities: neither NER=B-PER in MISC, nor a column for them"
        if any(value.startswith("Entity=") or "|Entity=" in value for value in misc):
            what += " (Entity=… is coreference, which is not read)"
        raise DataError(what, "add them, or name their column NER in a first line # global.columns", path)
    return layout


def _tag_keys(values: Iterable[str]) -> list[str]:
    """Keys of MISC whose values are all tags."""
    found: dict[str, set[str]] = {}
    for cell in dict.fromkeys(values):
        for key, value in _attributes(cell):
            if key.lower() in _MISC_KEYS:
                found.setdefault(key.lower(), set()).add(value)
    return [key for key in _MISC_KEYS if key in found and all(map(is_tag, found[key]))]


def _attributes(misc: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (item.partition("=") for item in misc.split("|"))]


def _block(lines: _Lines, layout: _Layout, path: str | Path, report: ReadingReport) -> Block:
    block = Block([(number, "\t".join(cells)) for number, cells in lines.words])
    for number, comment in lines.comments:
        if comment.startswith(STATUS_LINE):
            if block.status is not None:
                raise DataError("there are two lines '# lacuner:'", "keep one of them", path, number)
            block.status = number, comment.removeprefix(STATUS_LINE)
    every = [(number, cells) for number, _, cells in lines.between]
    for number, cells in [*lines.words, *every]:
        if len(cells) != len(layout.names):
            what = f"{len(cells)} columns instead of {len(layout.names)}: {' '.join(cells)[:60]!r}"
            raise DataError(what, "give every line the same columns, with tabs between them", path, number)
    for number, cells in every:
        tag = layout.tag_of(cells) if layout.tagged else OUTSIDE
        if tag not in (OUTSIDE, NO_TAG, *UNKNOWN_TAGS):
            what = f"{cells[0]} is not the number of one word; its tag {tag!r} is left out"
            report.note("lines that are no words", what, "give the tag to the words", path, number)
    form = layout.names.index("FORM")
    for number, cells in lines.words:
        if not cells[form]:
            raise DataError("the word is empty", "give it at least one character", path, number)
        tag = layout.tag_of(cells) if layout.tagged else OUTSIDE
        if not tag:
            raise DataError(f"the tag of {cells[form]!r} is empty", "write O, a tag such as B-PER, or ?", path, number)
        block.columns.append([cells[form], tag])
    return block


def _fields(lines: _Lines, layout: _Layout, path: str | Path, report: ReadingReport) -> dict[str, Any]:
    """Fields of a sentence besides words and tags."""
    fields: dict[str, Any] = {}
    comments, form = [], layout.names.index("FORM")
    offsets: list[tuple[int, int]] = []
    for _, comment in lines.comments:
        if (found := _SENT_ID.fullmatch(comment)) and "id" not in fields and found[1]:
            fields["id"] = found[1]
        elif (found := _TEXT.fullmatch(comment)) and not offsets:
            ranges = [(before, cells[0], cells[form]) for _, before, cells in lines.between]
            offsets = _offsets(found[1], [cells[form] for _, cells in lines.words], ranges)
            if offsets:
                fields |= {"text": found[1], "token_offsets": offsets}
            else:
                report.remark("some texts do not have the words as they are; they are handed on as comments", path)
                comments.append(comment)
        elif not comment.startswith(STATUS_LINE):
            comments.append(comment)
    others: dict[str, Any] = {"comments": comments} if comments else {}
    if lines.between:
        others["lines"] = [[before, cells] for _, before, cells in lines.between]
    fields |= {OTHERS: others} if others else {}
    inside = _inside_ranges([(before, cells[0], "") for _, before, cells in lines.between])
    tokens = [
        _token_fields(cells, layout, _is_derived(index, offsets, inside))
        for index, (_, cells) in enumerate(lines.words)
    ]
    return fields | ({TOKEN_FIELDS: tokens} if any(tokens) else {})


def _token_fields(cells: Sequence[str], layout: _Layout, space_known: bool | None) -> dict[str, str]:
    """The other columns of a word, without spacing information that is redundant with the text."""
    fields = {}
    for index, (name, cell) in enumerate(zip(layout.names, cells, strict=True)):
        value = cell
        if index == layout.misc and index != layout.column:
            items = [item for item in cell.split("|") if item.partition("=")[0].lower() != layout.key]
            if space_known is (_NO_SPACE in items) and space_known:
                items.remove(_NO_SPACE)
            value = "|".join(items)
        if name not in ("ID", "FORM") and index != layout.column and value not in (NO_TAG, ""):
            fields[name] = value
    return fields


def _is_derived(index: int, offsets: Sequence[tuple[int, int]], inside: frozenset[int]) -> bool | None:
    """Whether the text has no space after a word; ``None`` if that is unknown."""
    if index + 1 >= len(offsets) or index in inside:
        return None
    return offsets[index][1] == offsets[index + 1][0]


def _inside_ranges(between: Iterable[tuple[int, str, str]]) -> frozenset[int]:
    """Words inside multiword tokens, which have no following space of their own."""
    inside: set[int] = set()
    for before, key, _ in between:
        if (found := _RANGE.fullmatch(key)) and int(found[2]) - int(found[1]) < 100:
            inside.update(range(before, before + int(found[2]) - int(found[1]) + 1))
    return frozenset(inside)


def _offsets(text: str, words: Sequence[str], between: Iterable[tuple[int, str, str]]) -> list[tuple[int, int]]:
    """Offsets of the words in the text, which must consist of them and spaces only; empty otherwise.

    Words of a multiword token are located if they are its parts (do + n't), but not otherwise (de + le, du).
    """
    joined: dict[int, tuple[int, str]] = {}
    continued: set[int] = set()
    for before, key, form in between:
        if found := _RANGE.fullmatch(key):
            count = min(int(found[2]), len(words)) - int(found[1]) + 1
            joined[before] = count, form
            continued.update(range(before + 1, before + count))
    offsets: list[tuple[int, int]] = []
    position = 0
    for index, word in enumerate(words):
        count, form = joined.get(index, (1, word))
        if count > 1 and "".join(words[index : index + count]) != form:
            return []
        if index not in continued and (spaces := _SPACES.match(text, position)):
            position = spaces.end()
        if not text.startswith(word, position):
            return []
        offsets.append((position, position + len(word)))
        position += len(word)
    return offsets if not text[position:].strip() else []


def _lines_of(sentence: Sentence, tags: Sequence[str]) -> Iterator[str]:
    status = status_of_tagged(sentence)
    extra = status.pop("extra", {})
    comments, between = [], []
    if _are_others(extra.get(OTHERS), sentence):
        others = extra.pop(OTHERS)
        comments, between = others.get("comments", []), others.get("lines", [])
    tokens: list[dict[str, str]] = [{}] * len(sentence)
    if _are_token_fields(extra.get(TOKEN_FIELDS), len(sentence)):
        tokens = extra.pop(TOKEN_FIELDS)
    yield from (f"{comment}\n" for comment in comments)
    if _is_sent_id(extra.get("id")):
        yield f"# sent_id = {extra.pop('id')}\n"
    ranges = [(before, cells[0], cells[1]) for before, cells in between]
    offsets = _shown_offsets(sentence, ranges)
    if offsets:
        yield f"# text = {sentence.text}\n"
        status.pop("text", None)
        status.pop("token_offsets", None)
    status |= {"extra": extra} if extra else {}
    if status:
        yield STATUS_LINE + to_line(status)
    inside, rows = _inside_ranges(ranges), defaultdict(list)
    for before, cells in between:
        rows[before].append("\t".join(cells) + "\n")
    for index, (token, tag, fields) in enumerate(zip(sentence.tokens, tags, tokens, strict=True)):
        yield from rows[index]
        misc = [f"NER={tag}"] + [_NO_SPACE] * bool(_is_derived(index, offsets, inside))
        misc += [fields["MISC"]] if "MISC" in fields else []
        others = [fields.get(name, NO_TAG) for name in COLUMNS[2:-1]]
        yield "\t".join([str(index + 1), token, *others, "|".join(misc)]) + "\n"
    yield from rows[len(sentence)]


def _shown_offsets(sentence: Sentence, ranges: Iterable[tuple[int, str, str]]) -> list[tuple[int, int]]:
    """Offsets of the words, if a comment can represent the text, and the words can be located there again."""
    text = sentence.text
    if text is None or text != text.strip() or re.search(r"[\n\r]", text):
        return []
    offsets = sentence.offsets()
    return offsets if _offsets(text, sentence.tokens, ranges) == offsets else []


def _is_sent_id(value: object) -> bool:
    return isinstance(value, str) and value != "" and value == value.strip() and not re.search(r"[\n\r]", value)


def _are_others(others: object, sentence: Sentence) -> bool:
    """Whether these are comments and lines that can be written before and between the words of a sentence."""
    if not isinstance(others, Mapping) or not others or not others.keys() <= {"comments", "lines"}:
        return False
    comments, lines = others.get("comments", []), others.get("lines", [])
    if not isinstance(comments, list) or not isinstance(lines, list):
        return False
    for comment in comments:
        if not isinstance(comment, str) or not comment.startswith("#") or re.search(r"[\n\r]", comment):
            return False
        if _SENT_ID.fullmatch(comment) or _GLOBAL.fullmatch(comment) or comment.startswith(STATUS_LINE):
            return False
        if _TEXT.fullmatch(comment) and sentence.text is not None:
            return False
    before = 0
    for line in lines:
        if not isinstance(line, list) or len(line) != 2 or type(line[0]) is not int or not isinstance(line[1], list):
            return False
        if not before <= line[0] <= len(sentence) or len(line[1]) != len(COLUMNS):
            return False
        if not all(isinstance(cell, str) and not re.search(r"[\t\n\r]", cell) for cell in line[1]):
            return False
        if not _RANGE.fullmatch(line[1][0]) and not _EMPTY.fullmatch(line[1][0]):
            return False
        before = line[0]
    return True


def _are_token_fields(tokens: object, count: int) -> bool:
    """Whether these are columns of every word that can be written again."""
    if not isinstance(tokens, list) or len(tokens) != count or not any(tokens):
        return False
    for fields in tokens:
        if not isinstance(fields, Mapping) or not fields.keys() <= set(COLUMNS[2:]):
            return False
        for value in fields.values():
            if not isinstance(value, str) or value in ("", NO_TAG) or re.search(r"[\t\n\r]", value):
                return False
        items = fields.get("MISC", "x").split("|")
        if "" in items or any(item.partition("=")[0].lower() in _MISC_KEYS for item in items):
            return False
    return True


FORMATS = [Format("conllu", (".conllu", ".conllup"), read_conllu, write_conllu)]
