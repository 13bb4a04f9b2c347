"""spaCy ``DocBin`` files: words, entities and span groups, read without creating ``Doc`` objects.

The file is zlib-compressed MessagePack. Nothing in it can be executed; but spaCy's compiled code trusts the numbers in it, so
they are validated here, and a damaged file is rejected with an error.
"""

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lacuner.corpus.files import open_binary
from lacuner.corpus.sentence import NO_FIELDS
from lacuner.errors import DataError

INSIDE, OUTSIDE_WORD, BEGIN = 1, 2, 3
"""Values of ``Token.ent_iob``; 0 is a missing value."""
_SPAN = struct.Struct(">QQQllll")
"""A span of a group: id, kb_id, label, words [start, end), characters [start, end)."""
_OURS = ("ORTH", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID")
_OTHERS = ("TAG", "POS", "MORPH", "LEMMA", "HEAD", "DEP")
_FLOATS = ("<f4", "<f8", ">f4", ">f8")


class LabeledSpan(NamedTuple):
    """Words ``[start, end)`` of a document."""

    start: int
    end: int
    label: str
    kb_id: str = ""
    id: str = ""
    score: float | None = None


@dataclass(frozen=True)
class DocContent:
    """The parts of a ``Doc`` that are read and written.

    Attributes:
        words: spaCy's tokens; some are whitespace.
        spaces: whether a space follows each of them; ``None`` if unknown.
        ents: entities.
        outside: words known to be in no entity; all others are unknown.
        groups: spans of ``doc.spans``.
        user_data: any other data.
        cats: categories of the text.
        broken: words that continue an entity that never began.
    """

    words: tuple[str, ...]
    spaces: tuple[bool, ...] | None = None
    ents: tuple[LabeledSpan, ...] = ()
    outside: frozenset[int] = frozenset()
    groups: Mapping[str, tuple[LabeledSpan, ...]] = field(default_factory=dict)
    user_data: Mapping[Any, Any] = NO_FIELDS
    cats: Mapping[str, Any] = NO_FIELDS
    broken: tuple[int, ...] = ()


class DocFile:
    """The documents of a file, all in memory.

    Attributes:
        labels: of all entities and spans.
        others: unread attributes of words in the file (``TAG``, ``LEMMA``, …).
    """

    def __init__(self, path: str | Path) -> None:
        try:
            with open_binary(path) as file:
                content = file.read()
            self._load(zlib.decompress(content))
        except (zlib.error, *_DAMAGE) as error:
            raise _refusal(error, path) from None
        self._path = path

    def __iter__(self) -> Iterator[DocContent]:
        for index in range(len(self._borders) - 1):
            try:
                yield self._content(index)
            except _DAMAGE as error:
                raise _refusal(error, self._path, index + 1) from None

    def _load(self, content: bytes) -> None:
        import numpy as np
        from spacy import attrs as spacy_attrs

        message = _unpack(content)
        names = {number: name for name, number in spacy_attrs.IDS.items()}
        attributes = [names[number] for number in _listed(message["attrs"], int)]
        rows = np.frombuffer(message["tokens"], dtype="<u8").reshape(-1, len(attributes))
        lengths = np.frombuffer(message["lengths"], dtype="<i4")
        _require(bool((lengths >= 0).all()) and int(lengths.sum(dtype=np.int64)) == len(rows), "lengths do not fit")
        self._columns = {name: rows[:, column] for column, name in enumerate(attributes) if name in _OURS}
        _require("ORTH" in self._columns, "there are no words")
        self._spaces = np.frombuffer(message["spaces"], dtype=np.uint8)
        _require(len(self._spaces) == len(rows), "spaces do not fit")
        self._borders = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        count = len(lengths)
        self._strings = _strings(_listed(message["strings"], str))
        self._groups = _listed(message.get("span_groups") or [b""] * count, bytes, count)
        self._cats = _listed(message.get("cats") or [{}] * count, dict, count)
        self._flags = _listed(message.get("flags") or [{}] * count, dict, count)
        self._user_data = _listed(message.get("user_data") or [None] * count, bytes | None, count)
        self.others = [
            name for column, name in enumerate(attributes) if name in _OTHERS and bool(rows[:, column].any())
        ]
        self.labels = {self._strings[label] for label in set(self._column("ENT_TYPE", 0, len(rows)))}
        for packed in set(self._groups):
            self.labels |= {span.label for spans in self._spans(packed).values() for span in spans}
        self.labels.discard("")

    def _content(self, index: int) -> DocContent:
        begin, end = self._borders[index], self._borders[index + 1]
        words = tuple(self._strings[word] for word in self._column("ORTH", begin, end))
        _require(all(words), "a word is empty")
        ents, outside, broken = self._entities(begin, end)
        groups = self._spans(self._groups[index])
        spans = [span for group in groups.values() for span in group]
        _require(all(0 <= span.start < span.end <= len(words) for span in spans), "a span is outside of its text")
        packed = self._user_data[index]
        user_data = {} if packed is None else _unpack(packed, lists=False)
        _require(isinstance(user_data, dict), "user data is no mapping")
        unknown_spaces = bool(self._flags[index].get("has_unknown_spaces"))
        spaces = None if unknown_spaces else tuple(map(bool, self._spaces[begin:end].tolist()))
        return DocContent(words, spaces, ents, outside, groups, user_data, self._cats[index], broken)

    def _entities(self, begin: int, end: int) -> tuple[tuple[LabeledSpan, ...], frozenset[int], tuple[int, ...]]:
        columns = [self._column(f"ENT_{name}", begin, end) for name in ("IOB", "TYPE", "KB_ID", "ID")]
        ents: list[LabeledSpan] = []
        broken = []
        outside = frozenset(
            index
            for index, (iob, label) in enumerate(zip(columns[0], columns[1], strict=True))
            if iob == OUTSIDE_WORD or (iob == BEGIN and not label)  # blocked: never an entity
        )
        for index, (iob, label, kb_id, span_id) in enumerate(zip(*columns, strict=True)):
            _require(0 <= iob <= BEGIN, "ENT_IOB is none of 0, 1, 2 and 3")
            if iob not in (INSIDE, BEGIN) or index in outside:
                continue
            name = self._strings[label]
            if iob == INSIDE and ents and ents[-1].end == index and ents[-1].label == name:
                ents[-1] = ents[-1]._replace(end=index + 1)
                continue
            if iob == INSIDE:
                broken.append(index)
            _require(bool(name), "an entity has no label")
            ents.append(LabeledSpan(index, index + 1, name, self._strings[kb_id], self._strings[span_id]))
        return tuple(ents), outside, tuple(broken)

    def _column(self, name: str, begin: int, end: int) -> list[int]:
        """An attribute of words; zero if the file lacks it."""
        column = self._columns.get(name)
        return [0] * (end - begin) if column is None else [*column[begin:end].tolist()]

    def _spans(self, packed: bytes) -> dict[str, tuple[LabeledSpan, ...]]:
        """The span groups of a document, which older versions of spaCy wrote as a list."""
        message = _unpack(packed) if packed else []
        pairs = dict.fromkeys(message) if isinstance(message, list) else dict(message)
        groups: dict[str, tuple[LabeledSpan, ...]] = {}
        for content, keys in pairs.items():
            group = _unpack(content)
            items = [_SPAN.unpack(item) for item in _listed(group["spans"], bytes)]
            spans = tuple(
                LabeledSpan(start, end, self._strings[label], self._strings[kb_id], self._strings[span_id], score)
                for (span_id, kb_id, label, start, end, _, _), score in zip(
                    items, _scores(group["attrs"], len(items)), strict=True
                )
            )
            groups |= dict.fromkeys(_listed([group["name"]] if keys is None else keys, str), spans)
        return groups


def pack_docs(contents: Sequence[DocContent]) -> bytes:
    """Serialize documents, using spaCy itself."""
    from spacy.tokens import Doc, DocBin, Span, SpanGroup
    from spacy.vocab import Vocab

    vocab = Vocab()
    packed = DocBin(attrs=[name for name in _OURS if name.startswith("ENT")], store_user_data=True)
    for content in contents:
        doc = Doc(vocab, words=list(content.words), spaces=None if content.spaces is None else list(content.spaces))

        def spans_of(spans: Sequence[LabeledSpan], doc: Any = doc) -> list[Any]:
            return [
                Span(doc, span.start, span.end, label=span.label, kb_id=span.kb_id, span_id=span.id) for span in spans
            ]

        outside = [doc[index : index + 1] for index in sorted(content.outside)]
        doc.set_ents(spans_of(content.ents), outside=outside, default="missing")
        for name, spans in content.groups.items():
            scores = [span.score for span in spans]
            attrs = {} if None in scores or not scores else {"scores": scores}
            doc.spans[name] = SpanGroup(doc, name=name, attrs=attrs, spans=spans_of(spans))
        doc.user_data.update(content.user_data)
        doc.cats = dict(content.cats)
        packed.add(doc)
    return bytes(packed.to_bytes())


def _unpack(content: bytes, lists: bool = True) -> Any:
    """Unpack a message. The hook replaces those that would build arrays from untrusted descriptions."""
    from srsly import msgpack

    return msgpack.unpackb(content, raw=False, use_list=lists, object_pairs_hook=dict)


def _strings(strings: Sequence[str]) -> Mapping[int, str]:
    from spacy.strings import get_string_id
    from spacy.symbols import NAMES

    symbols = {number: name for number, name in enumerate(NAMES) if name}
    return symbols | {int(get_string_id(string)): string for string in strings} | {0: ""}


def _scores(attrs: Mapping[str, Any], count: int) -> Sequence[float | None]:
    """The scores of a group, as a list or as the array written by spaCy's span categorizer."""
    scores = attrs.get("scores")
    if isinstance(scores, dict) and scores.get(b"type") in _FLOATS:
        import numpy as np

        scores = np.frombuffer(scores[b"data"], dtype=scores[b"type"]).tolist()
    if isinstance(scores, list) and len(scores) == count and all(math.isfinite(float(score)) for score in scores):
        return [float(score) for score in scores]
    return [None] * count


def _listed(value: Any, kind: Any, count: int | None = None) -> list[Any]:
    _require(isinstance(value, list) and all(isinstance(item, kind) for item in value), "a list is missing")
    _require(count is None or len(value) == count, "lists have different lengths")
    return list(value)


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)


def _refusal(error: Exception, path: str | Path, number: int | None = None) -> DataError:
    what = f"{error} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0] if str(error) else "?"
    remedy = "write it again with DocBin.to_disk of spaCy 3"
    return DataError(f"the file is damaged, or no DocBin of spaCy ({what[:80]})", remedy, path, number)


_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, struct.error)
