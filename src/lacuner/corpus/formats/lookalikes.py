"""Detection of files that are not column files: raw text, dictionaries, other formats, which are rejected, not misread."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from lacuner.corpus.formats.tag_schemes import NO_TAG, UNKNOWN_TAGS, label_of
from lacuner.corpus.sentence import OUTSIDE
from lacuner.errors import DataError

_OTHER_FORMATS = {
    "BioC XML": (re.compile(r"\s*<(?:\?xml|!DOCTYPE|collection)[\s>]"), "bioc"),
    "PubTator": (re.compile(r"[^|\t]+\|[at]\|"), "pubtator"),
    "brat standoff": (re.compile(r"T[0-9]+\t\S+ [0-9]+ [0-9]+"), "brat"),
    "CoNLL-U Plus": (re.compile(r"#\s*global\.columns\s*="), "conllu"),
    "JSON": (re.compile(r"\s*(?:\{\s*(?:\"|$)|\[\s*(?:[\[{\"]|$))"), "jsonl"),
}
_ATTRIBUTE = re.compile(r"[A-Za-z]\w*=\S")
_SENTENCE_END = re.compile(r"[.!?…。！？:;,][\"'”’)\]]*")
_UPPER = re.compile(r"[A-Z][A-Z0-9_.:/-]*")
_LOWER_TAG = re.compile(r"o|[biesmluw][-_].+")
_END_OF_TEXT = re.compile(r"\w[.!?…]+[\"'”’)\]]*$")
_FEW = 4
"""Fewer rows than this are ambiguous, if none is tagged ``O``."""


def refuse_lookalikes(rows: Sequence[Sequence[str]], separator: str, blocks: int, path: str | Path) -> None:
    """Reject rows without tags if they look like something else.

    Args:
        rows: the columns of all lines examined.
        separator: between the columns.
        blocks: number of sentences.
        path: for errors.
    """
    if not rows:
        return
    first = separator.join(rows[0])
    last = [row[-1] for row in rows]
    if _is_conllu(rows):
        _refuse_format("CoNLL-U", "conllu", path)
    tags = sum(map(_is_sure, last))
    if 2 * sum(any(map(_is_sure, row)) for row in rows) > len(rows):
        return  # there are tags, in some column
    if tags:
        if separator == " " and len({len(row) for row in rows}) > 1 and 2 * tags < len(rows):
            _refuse_text(first, path)
        return
    if all(map(_LOWER_TAG.fullmatch, last)):
        what = f"the tags are in lower case ({', '.join(sorted(set(last))[:3])})"
        raise DataError(what, "write O, and prefixes as in B-PER, in capital letters", path, 1)
    for name, (pattern, called) in _OTHER_FORMATS.items():
        if pattern.match(first):
            _refuse_format(name, called, path)
    if 2 * sum(len(row) == 1 for row in rows) > len(rows) and _is_text(row[0] for row in rows):
        _refuse_text(first, path)
    if all(value in UNKNOWN_TAGS or value == NO_TAG for value in last):
        return
    if separator == " " and (len({len(row) for row in rows}) > 1 or not _are_labels(last)):
        _refuse_text(first, path)
    if all(len(row) > 1 and row[-1].isdecimal() for row in rows) and len(rows) >= _FEW:
        what = f"the tags are numbers ({', '.join(sorted(set(last))[:3])}, …)"
        raise DataError(what, "write their names, such as B-PER and O", path, 1)
    _refuse_tables(rows, separator, path)
    spaced = any(" " in row[0].strip() for row in rows)
    if separator != " " and blocks == 1 and (spaced or len(rows) >= _FEW) and len({len(row) for row in rows}) == 1:
        what = f"no word is tagged O; this looks like a dictionary: {first[:60]!r}"
        remedy = "lacuner annotate TEXT --dictionary this file; in a corpus, mark labels as B-PER and I-PER"
        raise DataError(what, remedy, path, 1)


def refuse_texts(rows: Sequence[Sequence[str]], separator: str, path: str | Path) -> None:
    """Refuse rows whose first column would be taken for words, where tags are not needed, if they hold texts."""
    rows = [row for row in rows if not row[0].startswith("#")]
    if any(map(_is_sure, (row[-1] for row in rows))):
        return
    if separator != " ":
        _refuse_tables(rows, separator, path)
    elif 2 * sum(len(row) > 2 for row in rows) > len(rows) and (
        len({len(row) for row in rows}) > 1 or any(_END_OF_TEXT.search(row[-1]) for row in rows)
    ):
        what = f"this looks like raw text, not like words in columns: {' '.join(rows[0])[:60]!r}"
        raise DataError(what, "read it with --input-format text, or let its name end in .txt", path, 1)


def _refuse_tables(rows: Sequence[Sequence[str]], separator: str, path: str | Path) -> None:
    """Refuse rows of which most have a text where a tag would be: nothing tells which column holds the texts."""
    if separator != " " and 2 * sum(" " in row[-1].strip() for row in rows if len(row) > 1) >= len(rows):
        what = f"this looks like a table with texts, but no column is called text: {separator.join(rows[0])[:60]!r}"
        raise DataError(what, "let the first line name its columns, and call that with the texts text", path, 1)


def _is_sure(value: str) -> bool:
    return value == OUTSIDE or label_of(value) is not None


def _is_conllu(rows: Sequence[Sequence[str]]) -> bool:
    words = [row for row in rows if row[0].isdecimal()]
    return bool(words) and all(len(row) == 10 for row in words) and any(_ATTRIBUTE.match(row[-1]) for row in words)


def _is_text(lines: Iterable[str]) -> bool:
    """Whether single-column lines are more likely texts than words: long, or ending like sentences."""
    lines = list(lines)
    texts = sum(len(line) > 20 or (len(line) > 1 and line[-1] in "。！？") for line in lines)
    return 2 * texts > len(lines)


def _are_labels(values: Sequence[str]) -> bool:
    """Whether bare words may be labels: in capitals, or with few distinct values; and not ending sentences."""
    if any(_SENTENCE_END.search(value) for value in values):
        return False
    return all(_UPPER.fullmatch(value) for value in values) or 2 * len(set(values)) <= len(values)


def _refuse_text(first: str, path: str | Path) -> NoReturn:
    what = f"this looks like raw text, not like words with tags: {first[:60]!r}"
    remedy = "label it with a dictionary: lacuner annotate FILE --dictionary NAMES.tsv --out LABELED.conll"
    raise DataError(what, remedy, path, 1)


def _refuse_format(name: str, called: str, path: str | Path) -> NoReturn:
    raise DataError(f"this looks like {name}, not like words with tags", f"read it with --format {called}", path, 1)
