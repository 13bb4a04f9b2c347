"""Marks: labeled character spans to draw in a text, and the layout of nested and crossing ones."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lacuner.corpus.sentence import OUTSIDE, Entity, Sentence


@dataclass(frozen=True, slots=True)
class Mark:
    """Characters ``[start, end)`` of a text to be drawn with a label.

    Attributes:
        start: the first character.
        end: one past the last character.
        label: its label; ``O`` is shown as *no entity*.
        score: its probability, if known.
        source: its source, if known.
        suggested: whether it is highlighted, as the one to be reviewed.
    """

    start: int
    end: int
    label: str
    score: float | None = None
    source: str | None = None
    suggested: bool = False

    @property
    def name(self) -> str:
        """The label in words."""
        return "no entity" if self.label == OUTSIDE else self.label


class Opening(NamedTuple):
    """A mark begins here, or continues after the end of another one that it crosses."""

    mark: Mark
    first: bool


class Closing(NamedTuple):
    """A mark ends here, or is interrupted by the end of another one that it crosses."""

    mark: Mark
    last: bool


def marks_of(entities: Iterable[Entity], offsets: Sequence[tuple[int, int]] | None = None) -> list[Mark]:
    """Convert entities to marks. ``offsets`` are those of the words, if the entities count words."""
    if offsets is None:
        return [Mark(each.start, each.end, each.label, each.score, each.source) for each in entities]
    return [
        Mark(offsets[each.start][0], offsets[each.end - 1][1], each.label, each.score, each.source) for each in entities
    ]


def marks_of_sentence(sentence: Sentence) -> list[Mark]:
    """Marks of the annotation of a sentence in :attr:`Sentence.raw_text`, including rejected spans."""
    offsets = sentence.offsets()
    rejected = [
        Mark(offsets[span.start][0], offsets[span.end - 1][1], OUTSIDE, source=span.source)
        for span in sentence.non_entities
    ]
    return marks_of(sentence.entities, offsets) + rejected


def lay_out(text: str, marks: Iterable[Mark]) -> Iterator[str | Opening | Closing]:
    """Yield the text in pieces, with properly nested marks; a mark that crosses the end of another is split in two."""
    within: list[Mark] = []  # from outermost to innermost
    position = 0
    for mark in (*sorted(marks, key=lambda mark: (mark.start, -mark.end)), None):
        begin = sys.maxsize if mark is None else mark.start
        while within and (end := min(each.end for each in within)) <= begin:
            yield from _piece(text, position, end)
            position = max(position, end)
            yield from _close(within, end)
        yield from _piece(text, position, begin)
        position = max(position, begin)
        if mark is not None:
            within.append(mark)
            yield Opening(mark, True)


def _piece(text: str, start: int, end: int) -> Iterator[str]:
    if start < min(end, len(text)):
        yield text[start:end]


def _close(within: list[Mark], end: int) -> Iterator[Opening | Closing]:
    """Close the marks that end here, interrupting inner marks that end later."""
    outermost = next(depth for depth, mark in enumerate(within) if mark.end <= end)
    concerned = within[outermost:]
    yield from (Closing(mark, mark.end <= end) for mark in reversed(concerned))
    within[outermost:] = [mark for mark in concerned if mark.end > end]
    yield from (Opening(mark, False) for mark in within[outermost:])


_UNPRINTABLE = re.compile(
    "\r\n|[\0-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\r"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)


def printable(text: str) -> str:
    """Replace control characters by symbols (``␛``), and characters that cannot be encoded by ``�``."""
    return _UNPRINTABLE.sub(_picture, text) if _UNPRINTABLE.search(text) else text


def _picture(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\r\n":
        return "\n"
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
