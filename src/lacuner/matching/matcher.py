"""Where names stand: Aho-Corasick over words, the leftmost match first, and of those the longest.

The search itself is done by ``ahocorasick-rs``. It knows characters only, so every word that stands in a name gets a character
of its own, and all others share one; then a match consists of whole words, and its place counts words. It is also faster than a
search through the letters: most words of a text stand in no name.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from lacuner.errors import ConfigError
from lacuner.matching.dictionary import Dictionary, Entry
from lacuner.matching.variants import Words, cut, spellings

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick

Ambiguous = Literal["drop", "first", "both-unknown"]
AMBIGUOUS: tuple[Ambiguous, ...] = get_args(Ambiguous)

_UNKNOWN, _BORDER = "\x00", "\x01"
"""A word that stands in no name, and what stands between sentences."""
_SURROGATES = range(0xD800, 0xE000)
_CHARACTERS = 0x110000 - len(_SURROGATES) - 2
"""Words that can have a character of their own."""
_REMEMBERED = 2_000_000
"""Words of texts that are remembered at most."""


class Match(NamedTuple):
    """A name that stands in a sentence, in words ``[start, end)``; without a label if it may have several."""

    start: int
    end: int
    label: str | None
    entry: int
    """Number of the name in the dictionary."""


class _Pattern(NamedTuple):
    """What words that are looked for mean, and how many there are."""

    size: int
    label: str | None
    entry: int


_new_match = tuple.__new__  # the constructor of a named tuple takes three times as long


class Matcher:
    """Finds the names of a dictionary.

    Args:
        dictionary: the names.
        ignore_case: upper and lower case do not matter, except for names that say ``exact`` themselves.
        ambiguous: what to do with a name that has several labels: forget it (``drop``), take the label that stands first
            (``first``), or find it and leave it without a label, so that no shorter name is found inside it (``both-unknown``).
        variants: find names with other punctuation, too: *Al Qaeda* for *Al-Qaeda*, *US* for *U.S.*
        characters: the words of the text are single characters.

    Attributes:
        ambiguous_entries: how many names have several labels.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        ignore_case: bool = False,
        ambiguous: Ambiguous = "drop",
        variants: bool = False,
        characters: bool = False,
    ) -> None:
        if ambiguous not in AMBIGUOUS:
            raise ConfigError(f"ambiguous={ambiguous!r}: choose {', '.join(AMBIGUOUS)}")
        self.dictionary = dictionary
        tables: dict[bool, dict[Words, list[int]]] = {False: {}, True: {}}  # by whether case is ignored
        for number, entry in enumerate(dictionary.entries):
            folds = entry.case == "ignore" or (ignore_case and entry.case is None)
            for words in _forms(entry, variants, characters):
                key = tuple(map(str.casefold, words)) if folds else words
                tables[folds].setdefault(key, []).append(number)
        used = {folds: table for folds, table in tables.items() if table}
        self._searches, self.ambiguous_entries = [], 0
        for folds, table in used.items():
            patterns, several = _resolved(table, dictionary, ambiguous)
            self._searches.append(_Search(patterns, folds, overlapping=len(used) > 1))
            self.ambiguous_entries += several

    def find(self, sentences: Sequence[Sequence[str]]) -> list[list[Match]]:
        """The matches of each sentence, which is given as words; none overlaps another.

        >>> matcher = Matcher(Dictionary.of([("New York", "LOC"), ("New York Times", "ORG"), ("York", "LOC")]))
        >>> [[(m.start, m.end, m.label) for m in found] for found in matcher.find([["The", "New", "York", "Times"], ["York"]])]
        [[(1, 4, 'ORG')], [(0, 1, 'LOC')]]
        """
        found: list[list[Match]] = [[] for _ in sentences]
        matches: Iterable[tuple[int, _Pattern]]
        if len(self._searches) > 1:
            matches = _leftmost_longest(match for search in self._searches for match in search.run(sentences))
        else:
            matches = self._searches[0].run(sentences) if self._searches else iter(())
        border, begin, number = -1, 0, -1  # of the sentence that a match stands in
        lengths, here = iter(map(len, sentences)), []
        for place, (size, label, entry) in matches:
            while border <= place:
                begin, number = border + 1, number + 1
                border, here = begin + next(lengths), found[number]
            start = place - begin
            here.append(_new_match(Match, (start, start + size, label, entry)))
        return found


class _Search:
    """One automaton: over the words as they are, or over folded ones."""

    def __init__(self, patterns: dict[Words, _Pattern], folds: bool, overlapping: bool) -> None:
        self._patterns = list(patterns.values())
        self._overlapping = overlapping
        self._alphabet = _Alphabet((word for words in patterns for word in words), folds)
        self._automaton = _build(list(map(self._alphabet.spell, patterns)), overlapping) if patterns else None

    def run(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, _Pattern]]:
        """Each match as the number of its first word, counting borders as words, and its pattern."""
        if self._automaton is None:
            return iter(())
        text = self._alphabet.border.join(map(self._alphabet.spell, sentences))
        matches = self._automaton.find_matches_as_indexes(text, overlapping=self._overlapping)
        size, patterns = self._alphabet.size, self._patterns
        return ((start // size, patterns[number]) for number, start, _ in matches)


class _Alphabet:
    """The character of each word.

    Args:
        words: those that need a character of their own, with repetitions, in their normal form.
        folds: whether upper and lower case are the same.

    Attributes:
        size: characters of a word; two, if there are more words than characters. No first one is ever a second one.
        border: what stands between sentences.
    """

    def __init__(self, words: Iterable[str], folds: bool) -> None:
        counts = Counter(words)
        self.size = 1 if len(counts) <= _CHARACTERS else 2
        self.border = _BORDER * self.size
        frequent = (word for word, _ in counts.most_common())  # short codes for frequent words
        own = dict(zip(frequent, map(self._code, count()), strict=False))
        self._codes = _Codes(own, folds, _UNKNOWN * self.size)

    def spell(self, words: Sequence[str]) -> str:
        """Words as a text of this alphabet."""
        return "".join(map(self._codes.__getitem__, words))

    def _code(self, number: int) -> str:
        if self.size == 1:
            return _character(number + 2)
        high, low = divmod(number, _CHARACTERS // 2)
        return _character(2 + high) + _character(2 + _CHARACTERS // 2 + low)


class _Codes(dict[str, str]):
    """The characters of words as they stand in texts; their normal form decides, and is found once."""

    def __init__(self, own: Mapping[str, str], folds: bool, unknown: str) -> None:
        self._own, self._folds, self._unknown = own, folds, unknown

    def __missing__(self, word: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        normal = word if word.isascii() else unicodedata.normalize("NFC", word)
        code = self._own.get(normal.casefold() if self._folds else normal, self._unknown)
        self[word] = code
        return code


def _character(number: int) -> str:
    """Every number is a character, except for the surrogates, which are left out."""
    return chr(number if number < _SURROGATES.start else number + len(_SURROGATES))


def _build(patterns: list[str], overlapping: bool) -> "AhoCorasick":
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ConfigError("annotate needs ahocorasick-rs; install it with: pip install 'lacuner[annotate]'") from error
    kind = MatchKind.Standard if overlapping else MatchKind.LeftmostLongest
    return AhoCorasick(patterns, matchkind=kind, store_patterns=False)


def _leftmost_longest(matches: Iterable[tuple[int, _Pattern]]) -> list[tuple[int, _Pattern]]:
    """Of matches that overlap, those that begin first, and of these the longest; names in exact case before others."""
    chosen, taken = [], 0
    for place, pattern in sorted(matches, key=lambda match: (match[0], -match[1].size)):
        if place >= taken:
            taken = place + pattern.size
            chosen.append((place, pattern))
    return chosen


def _forms(entry: Entry, variants: bool, characters: bool) -> set[Words]:
    surface = entry.surface if entry.surface.isascii() else unicodedata.normalize("NFC", entry.surface)
    forms = spellings(surface) if variants else {surface}
    return {words for form in forms for words in cut(form, characters) if words}


def _resolved(
    table: dict[Words, list[int]], dictionary: Dictionary, ambiguous: Ambiguous
) -> tuple[dict[Words, _Pattern], int]:
    """What the words of each name mean, now that it is known which names share them; and how many have several labels."""
    resolved, several = {}, 0
    for words, numbers in table.items():
        first = dictionary.entries[numbers[0]].label
        unclear = len(numbers) > 1 and any(dictionary.entries[number].label != first for number in numbers)
        several += unclear
        if not unclear or ambiguous != "drop":
            label = None if unclear and ambiguous == "both-unknown" else first
            resolved[words] = _Pattern(len(words), label, numbers[0])
    return resolved, several
