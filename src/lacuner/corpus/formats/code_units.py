"""Offsets in UTF-16 code units, as in JavaScript strings: most emoji count twice."""

from bisect import bisect_left
from itertools import accumulate

_LAST_SINGLE_UNIT = "\uffff"


def units_before(text: str) -> list[int] | None:
    """UTF-16 code units before each character, and in the whole text; ``None`` if every character is one unit."""
    if not text or max(text) <= _LAST_SINGLE_UNIT:
        return None
    return [0, *accumulate(1 + (character > _LAST_SINGLE_UNIT) for character in text)]


def character_at(units: list[int], offset: int) -> int | None:
    """The character at an offset in code units; ``None`` if that is inside a character, or after the text."""
    character = bisect_left(units, offset)
    return character if character < len(units) and units[character] == offset else None
