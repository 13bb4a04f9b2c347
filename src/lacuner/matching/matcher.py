"""Where names stand: Aho-Corasick over words, the leftmost match first, and of those the longest.

The search itself is done by ``ahocorasick-rs``, which knows characters only. So every word of names and of texts is put between
two marks: then a match begins where a word does and ends where one does, and neighbours do not share a mark. Many sentences
become one text, and nothing is done for a word by itself.
"""

import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from lacuner.errors import ConfigError
from lacuner.matching.dictionary import Dictionary, Entry
from lacuner.matching.variants import Words, cut, spellings

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick

Ambiguous = Literal["drop", "first", "both-unknown"]
AMBIGUOUS: tuple[Ambiguous, ...] = get_args(Ambiguous)

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
_Found = tuple[Numbers, Numbers, Numbers, np.ndarray[tuple[int], np.dtype[np.object_]]]
"""Of each match: the number of its first word, how many words it has, its name's number and label."""
_Meaning = tuple[int, str | None]
"""The number of a name in the dictionary, and its label, unless it may have several."""
_BEGIN, _END, _BORDER = "\x01", "\x02", "\n"
"""What stands before and behind a word, and between sentences."""
_BETWEEN = _END + _BEGIN
_NO_MARKS = str.maketrans(_BEGIN + _END, "\x00\x00")


class Match(NamedTuple):
    """A name that stands in a sentence, in words ``[start, end)``; without a label if it may have several."""

    start: int
    end: int
    label: str | None
    entry: int
    """Number of the name in the dictionary."""


_new_match = partial(tuple.__new__, Match)  # the constructor of a named tuple takes three times as long


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
        self._settings = ignore_case, ambiguous, variants, characters
        tables: dict[bool, dict[Words, list[int]]] = {False: {}, True: {}}  # by whether case is ignored
        for number, entry in enumerate(dictionary.entries):
            folds = entry.case == "ignore" or (ignore_case and entry.case is None)
            for words in _forms(entry, variants, characters):
                key = tuple(map(str.casefold, words)) if folds else words
                tables[folds].setdefault(key, []).append(number)
        resolved = {folds: _resolved(table, dictionary, ambiguous) for folds, table in tables.items()}
        self.ambiguous_entries = sum(several for _, several in resolved.values())
        used = {folds: patterns for folds, (patterns, _) in resolved.items() if patterns}
        self._searches = [_Search(patterns, folds, overlapping=len(used) > 1) for folds, patterns in used.items()]

    def __reduce__(self) -> tuple[type["Matcher"], tuple[object, ...]]:
        return type(self), (self.dictionary, *self._settings)  # an automaton cannot be sent to another process

    def find(self, sentences: Sequence[Sequence[str]]) -> list[list[Match]]:
        """The matches of each sentence, which is given as words; none overlaps another.

        >>> matcher = Matcher(Dictionary.of([("New York", "LOC"), ("New York Times", "ORG"), ("York", "LOC")]))
        >>> [[(m.start, m.end, m.label) for m in found] for found in matcher.find([["The", "New", "York", "Times"], ["York"]])]
        [[(1, 4, 'ORG')], [(0, 1, 'LOC')]]
        """
        if not sentences or not self._searches:
            return [[] for _ in sentences]
        text = _Text(sentences)
        if len(self._searches) == 1:
            places, sizes, entries, labels = self._searches[0].run(text)
        else:
            places, sizes, entries, labels = _leftmost_longest([search.run(text) for search in self._searches])
        bounds = np.searchsorted(places, text.first_words)  # where the matches of each sentence begin
        starts = places - np.repeat(text.first_words[:-1], np.diff(bounds))
        fields = starts.tolist(), (starts + sizes).tolist(), labels.tolist(), entries.tolist()
        matches = list(map(_new_match, zip(*fields, strict=True)))
        return [matches[begin:end] for begin, end in pairwise(bounds.tolist())]


class _Text:
    """Sentences as one text, in which every word stands between marks.

    Attributes:
        first_words: the number of each sentence's first word, and that of the word that would follow the last sentence; a
            sentence without words counts as a word.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self.first_words = np.array([0, *accumulate(len(words) or 1 for words in sentences)])
        self._text = _normal(_marked(sentences))
        self._begins = _places(self._text, _BEGIN)
        if not len(self._begins) == len(_places(self._text, _END)) == self.first_words[-1]:  # words have marks in them
            self._text = _normal(_marked([[word.translate(_NO_MARKS) for word in words] for words in sentences]))
            self._begins = _places(self._text, _BEGIN)

    def search(self, automaton: "AhoCorasick", folds: bool, overlapping: bool) -> tuple[Numbers, Numbers]:
        """The number of each match's first word, and of its pattern."""
        text = self._text.casefold() if folds else self._text
        begins = self._begins if len(text) == len(self._text) else _places(text, _BEGIN)  # folded, no letter vanishes
        matches = automaton.find_matches_as_indexes(text, overlapping=overlapping)
        starts = np.fromiter((start for _, start, _ in matches), dtype=np.int64, count=len(matches))
        numbers = np.fromiter((number for number, _, _ in matches), dtype=np.int64, count=len(matches))
        return np.searchsorted(begins, starts), numbers


class _Search:
    """One automaton: over the words as they are, or over folded ones."""

    def __init__(self, patterns: dict[Words, _Meaning], folds: bool, overlapping: bool) -> None:
        self._sizes = np.array([len(words) for words in patterns])
        self._entries = np.array([entry for entry, _ in patterns.values()])
        self._labels = np.array([label for _, label in patterns.values()], dtype=object)
        self._folds = folds
        self._overlapping = overlapping
        cleaned = ([[word.translate(_NO_MARKS) for word in words]] for words in patterns)
        self._automaton = _build([_marked(words) for words in cleaned], overlapping)

    def run(self, text: _Text) -> _Found:
        """All that stands in a text."""
        places, numbers = text.search(self._automaton, self._folds, self._overlapping)
        return places, self._sizes[numbers], self._entries[numbers], self._labels[numbers]


def _marked(sentences: Sequence[Sequence[str]]) -> str:
    return f"{_BEGIN}{f'{_END}{_BORDER}{_BEGIN}'.join(map(_BETWEEN.join, sentences))}{_END}"


def _normal(text: str) -> str:
    """Composed accents only, and no halves of characters, which JSON may hold."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))


def _places(text: str, mark: str) -> Numbers:
    """Where a mark stands."""
    encoding, number = ("ascii", np.uint8) if text.isascii() else ("utf-32-le", np.uint32)
    return np.flatnonzero(np.frombuffer(text.encode(encoding), dtype=number) == ord(mark))


def _build(patterns: list[str], overlapping: bool) -> "AhoCorasick":
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ConfigError("annotate needs ahocorasick-rs; install it with: pip install 'lacuner[annotate]'") from error
    kind = MatchKind.Standard if overlapping else MatchKind.LeftmostLongest
    return AhoCorasick(patterns, matchkind=kind, store_patterns=False)


def _leftmost_longest(found: Sequence[_Found]) -> _Found:
    """Of matches that overlap, those that begin first, and of these the longest; of equal ones the first."""
    places, sizes, entries, labels = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((-sizes, places))
    chosen, taken = [], 0
    for number, begin, end in zip(
        order.tolist(), places[order].tolist(), (places + sizes)[order].tolist(), strict=True
    ):
        if begin >= taken:
            taken = end
            chosen.append(number)
    return places[chosen], sizes[chosen], entries[chosen], labels[chosen]


def _forms(entry: Entry, variants: bool, characters: bool) -> set[Words]:
    surface = _normal(entry.surface)
    forms = spellings(surface) if variants else {surface}
    return {words for form in forms for words in cut(form, characters) if words}


def _resolved(
    table: dict[Words, list[int]], dictionary: Dictionary, ambiguous: Ambiguous
) -> tuple[dict[Words, _Meaning], int]:
    """What the words of each name mean, now that it is known which names share them; and how many have several labels."""
    resolved: dict[Words, _Meaning] = {}
    several = 0
    for words, numbers in table.items():
        first = dictionary.entries[numbers[0]].label
        unclear = len(numbers) > 1 and any(dictionary.entries[number].label != first for number in numbers)
        several += unclear
        if not unclear or ambiguous != "drop":
            label = None if unclear and ambiguous == "both-unknown" else first
            resolved[words] = numbers[0], label
    return resolved, several
