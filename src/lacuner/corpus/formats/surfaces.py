"""Where the names that somebody lists are in a text: language models say what they have found, not where."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lacuner.corpus.tokenize import is_unspaced

_ALIKE = ("-\u2010\u2011\u2012\u2013\u2014\u2212", "'\u2019\u2018\u02bc`\u00b4", '"\u201c\u201d\u201e\u00ab\u00bb')
"""Signs that models write for each other: dashes, apostrophes, quotation marks."""
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Named:
    """A name and its label, as somebody has listed it."""

    surface: str
    label: str


@dataclass(frozen=True)
class Placed:
    """Where a name is: the characters ``[start, end)`` of the text."""

    start: int
    end: int
    named: Named


@dataclass
class Alignment:
    """Names in a text.

    Attributes:
        placed: every occurrence that is kept, in order.
        absent: names that are not in the text.
        covered: names whose every occurrence overlaps one that is longer.
    """

    placed: list[Placed] = field(default_factory=list)
    absent: list[Named] = field(default_factory=list)
    covered: list[Named] = field(default_factory=list)


def align(text: str, listed: Sequence[Named]) -> Alignment:
    """Every occurrence of each name, at the borders of words.

    White space of any length, and different dashes, apostrophes and quotation marks, are the same. Case has to be that of the
    text, unless the name does not occur so. Of occurrences that overlap, the longest stays, then the first; one place may
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
    """Where a name is in a text, in places that do not overlap; exactly so, or else in another case."""
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
    """Whether a word goes on here: two letters or digits, neither of a script without spaces, or an accent by itself."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if unicodedata.category(after).startswith("M"):
        return True
    return all(each.isalnum() and not is_unspaced(each) for each in (before, after))
