"""Streaming of XML elements. Entities are not expanded, and nothing outside the file is accessed."""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from lacuner.corpus.files import open_binary
from lacuner.errors import DataError

LINE = "lacuner-line"
"""Attribute with each element's line number."""
MAX_DEPTH = 50
_CHUNK = 1 << 16
_NO_ENTITIES = "write the characters themselves"


def read_elements(path: str | Path, root: str, name: str) -> Iterator[Element]:
    """Yield the elements ``name`` inside the outermost element, which must be ``root``; others are skipped.

    A file may name its document type, which is ignored. Entity declarations and references are rejected, because their
    content can be outside the file, or exceed any memory.
    """
    parser = _Parser(path, root, name)
    with open_binary(path) as file:
        while chunk := file.read(_CHUNK):
            yield from parser.feed(chunk)
    yield from parser.feed(b"", last=True)


class _Parser:
    """Builds elements one by one, using expat directly, because ElementTree would expand entities."""

    def __init__(self, path: str | Path, root: str, name: str) -> None:
        self._path, self._root, self._name = path, root, name
        self._builder: TreeBuilder | None = None
        self._done: list[Element] = []
        self._depth = 0
        self._empty = True
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._data
        self._expat.EntityDeclHandler = self._refuse_entity
        self._expat.SkippedEntityHandler = self._refuse_entity

    def feed(self, chunk: bytes, last: bool = False) -> list[Element]:
        """The elements completed by this chunk."""
        self._empty = self._empty and not chunk.strip()
        if self._empty:
            return []
        try:
            self._expat.Parse(chunk, last)
        except expat.ExpatError as error:
            what = f"not XML: {expat.ErrorString(error.code)}"
            raise DataError(what, "correct or export the file again", self._path, error.lineno) from None
        except (LookupError, ValueError) as error:
            what = f"its encoding cannot be read ({error})"
            raise DataError(what, "convert it to UTF-8", self._path) from None
        done, self._done = self._done, []
        return done

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and tag != self._root:
            what = f"the outermost element is <{tag[:40]}>, not <{self._root}>"
            raise DataError(what, "export it in a format that can be read", self._path, self._line)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"elements are nested more than {MAX_DEPTH} deep"
            raise DataError(what, "export the file again", self._path, self._line)
        if self._builder is None and self._depth == 2 and tag == self._name:
            self._builder = TreeBuilder()
        if self._builder is not None:
            self._builder.start(tag, {**attributes, LINE: str(self._line)})

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if self._builder is None:
            return
        element = self._builder.end(tag)
        if self._depth == 1:
            self._builder = None
            self._done.append(element)

    def _data(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)

    def _refuse_entity(self, name: str, *_: object) -> NoReturn:
        raise DataError(f"there is an entity {name[:40]!r}", _NO_ENTITIES, self._path, self._line)

    @property
    def _line(self) -> int:
        return self._expat.CurrentLineNumber
