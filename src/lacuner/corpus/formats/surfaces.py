"""Alignment of listed names with a text, because language models return names without offsets."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lacuner.corpus.tokenize import is_unspaced

_ALIKE = ("-\u2010\u2011\u2012\u2013\u2014\u2212", "'\u2019\u2018\u02bc`\u00b4", '"\u201c\u201d\u201e\u00ab\u00bb')
"""Characters that models interchange: dashes, apostrophes, quotation marks."""
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Named:
    """A listed name and its label."""

    surface: str
    label: str


@dataclass(frozen=True)
class Placed:
    """An occurrence of a name: the characters ``[start, end)`` of the text."""

    start: int
    end: int
    named: Named


@dataclass
class Alignment:
    """Names aligned with a text.

    Attributes:
        placed: every selected occurrence, in order.
        absent: names that do not occur in the text.
        covered: names whose every occurrence overlaps a longer one.
    """

    placed: list[Placed] = field(default_factory=list)
    absent: list[Named] = field(default_factory=list)
    covered: list[Named] = field(default_factory=list)


def align(text: str, listed: Sequence[Named]) -> Alignment:
    """Find every occurrence of each name, at word boundaries.

    Whitespace of any length is equivalent, and so are variants of dashes, apostrophes and quotation marks. Case is matched
    exactly, unless the name does not occur so. Of overlapping occurrences, the longest is kept, then the first; one span may
    have several labels.
    """
    found = Alignment()
    occurrences: list[Placed] = []
    distinct = list(dict.fromkeys(listed))
    for named in distinct:
        places = find_surface(text, named.surface)
        occurrences += [Placed(start, end, named) for start, end in places]
        if not places:
            found.absent.append(named)
    taken: dict[int, tuple[int, int]] = {}
    for one in sorted(occurrences, key=lambda one: (one.start - one.end, one.start)):
        place = one.start, one.end
        if all(taken.get(index, place) == place for index in range(*place)):
            taken.update(dict.fromkeys(range(*place), place))
            found.placed.append(one)
    found.placed.sort(key=lambda one: (one.start, one.end, one.named.label))
    kept = {one.named for one in found.placed}
    found.covered = [named for named in distinct if named not in kept and named not in found.absent]
    return found


def find_surface(text: str, surface: str) -> list[tuple[int, int]]:
    """Non-overlapping occurrences of a name in a text, case-sensitive if there are any, otherwise ignoring case."""
    for ignore_case in (False, True):
        pattern = _pattern(surface.strip(), ignore_case)
        if pattern is not None and (places := list(_places(text, pattern))):
            return places
    return []


def _places(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    position = 0
    while match := pattern.search(text, position):
        start, end = match.span()
        inside = _goes_on(text, start) or _goes_on(text, end)
        position = start + 1 if inside else end
        if not inside:
            yield start, end


@lru_cache(maxsize=4096)
def _pattern(surface: str, ignore_case: bool) -> re.Pattern[str] | None:
    if not surface:
        return None
    words = ("".join(map(_character, word)) for word in _SPACE.split(surface))
    return re.compile(r"\s+".join(words), re.IGNORECASE if ignore_case else 0)


def _character(character: str) -> str:
    alike = next((signs for signs in _ALIKE if character in signs), None)
    return re.escape(character) if alike is None else f"[{re.escape(alike)}]"


def _goes_on(text: str, position: int) -> bool:
    """Whether a word continues here: two letters or digits of scripts with spaces, or a combining accent."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if unicodedata.category(after).startswith("M"):
        return True
    return all(each.isalnum() and not is_unspaced(each) for each in (before, after))
