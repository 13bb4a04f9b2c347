"""Where names stand: Aho-Corasick over words, the leftmost match first, and of those the longest.

The search itself is done by ``ahocorasick-rs``. It knows characters only, so words are fenced: each is written with a sign
before and a sign behind it, which no word contains, in the names as in the text. What is found then consists of whole words,
and two names that stand side by side do not share a sign.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from lacuner.errors import ConfigError
from lacuner.matching.dictionary import Dictionary, Entry
from lacuner.matching.variants import Words, cut, spellings

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick

Ambiguous = Literal["drop", "first", "both-unknown"]
AMBIGUOUS: tuple[Ambiguous, ...] = get_args(Ambiguous)

_FENCE = "\x1f"
_BETWEEN = _FENCE + _FENCE


class Match(NamedTuple):
    """A name that stands in a sentence, in words ``[start, end)``; without a label if it may have several."""

    start: int
    end: int
    label: str | None
    entry: int
    """Number of the name in the dictionary."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Words to look for, and what they mean; ``entries`` are numbers of the dictionary."""

    size: int
    label: str | None
    entry: int


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
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for number, entry in enumerate(dictionary.entries):
            folds = entry.case == "ignore" or (ignore_case and entry.case is None)
            for words in _forms(entry, variants, characters):
                text = _fenced(words)
                text = text.casefold() if folds else text
                (folded if folds else exact).setdefault(text, []).append(number)
                sizes[text] = len(words)
        several = [table for table in (exact, folded) if table]
        self._searches = [
            _Search(_resolved(table, sizes, dictionary, ambiguous), table is folded, len(several) > 1)
            for table in several
        ]
        labels = (
            {dictionary.entries[number].label for number in numbers} for table in several for numbers in table.values()
        )
        self.ambiguous_entries = sum(len(found) > 1 for found in labels)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[list[Match]]:
        """The matches of each sentence, which is given as words; none overlaps another.

        >>> matcher = Matcher(Dictionary.of([("New York", "LOC"), ("New York Times", "ORG"), ("York", "LOC")]))
        >>> [[(m.start, m.end, m.label) for m in found] for found in matcher.find([["The", "New", "York", "Times"], ["York"]])]
        [[(1, 4, 'ORG')], [(0, 1, 'LOC')]]
        """
        found: list[list[Match]] = [[] for _ in sentences]
        text = _text_of(sentences)
        begins = [0, *accumulate(map(len, sentences))]
        if len(self._searches) == 1:
            matches: Iterable[tuple[int, _Pattern]] = self._searches[0].run(text)
        else:
            matches = _leftmost_longest(match for search in self._searches for match in search.run(text))
        sentence = 0
        for place, pattern in matches:
            while begins[sentence + 1] <= place:
                sentence += 1
            start = place - begins[sentence]
            found[sentence].append(Match(start, start + pattern.size, pattern.label, pattern.entry))
        return found


class _Search:
    """One automaton: over the words as they are, or over folded ones."""

    def __init__(self, patterns: dict[str, _Pattern], folded: bool, overlapping: bool) -> None:
        self._patterns = list(patterns.values())
        self._folded, self._overlapping = folded, overlapping
        self._automaton = _build(list(patterns), overlapping) if patterns else None

    def run(self, text: str) -> Iterator[tuple[int, _Pattern]]:
        """Each match as the number of its first word in the whole text, and its pattern."""
        if self._automaton is None:
            return
        text = text.casefold() if self._folded else text
        fences = position = 0
        for number, start, _ in self._automaton.find_matches_as_indexes(text, overlapping=self._overlapping):
            if start < position:  # overlapping matches come in the order of their ends
                fences -= text.count(_FENCE, start, position)
            else:
                fences += text.count(_FENCE, position, start)
            position = start
            yield fences // 2, self._patterns[number]


def _build(patterns: list[str], overlapping: bool) -> "AhoCorasick":
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ConfigError("annotate needs ahocorasick-rs; install it with: pip install 'lacuner[annotate]'") from error
    kind = MatchKind.Standard if overlapping else MatchKind.LeftmostLongest
    return AhoCorasick(patterns, matchkind=kind, store_patterns=False)


def _leftmost_longest(matches: Iterable[tuple[int, _Pattern]]) -> Iterator[tuple[int, _Pattern]]:
    """Of matches that overlap, those that begin first, and of these the longest; names in exact case before others."""
    taken = 0
    for place, pattern in sorted(matches, key=lambda match: (match[0], -match[1].size)):
        if place >= taken:
            taken = place + pattern.size
            yield place, pattern


def _text_of(sentences: Sequence[Sequence[str]]) -> str:
    """All words, fenced, with sentences on lines of their own."""
    text = "\n".join(_fenced(words) if words else "" for words in sentences)
    if text.count(_FENCE) != 2 * sum(map(len, sentences)):  # somebody's words contain the sign
        text = "\n".join(_fenced([word.replace(_FENCE, " ") for word in words]) if words else "" for words in sentences)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _fenced(words: Sequence[str]) -> str:
    return _FENCE + _BETWEEN.join(words) + _FENCE


def _forms(entry: Entry, variants: bool, characters: bool) -> set[Words]:
    surface = entry.surface.replace(_FENCE, " ")
    surface = surface if surface.isascii() else unicodedata.normalize("NFC", surface)
    forms = spellings(surface) if variants else {surface}
    return {words for form in forms for words in cut(form, characters) if words}


def _resolved(
    table: dict[str, list[int]], sizes: dict[str, int], dictionary: Dictionary, ambiguous: Ambiguous
) -> dict[str, _Pattern]:
    """What each text means, now that it is known who else uses it."""
    label_of = attrgetter("label")
    resolved = {}
    for text, numbers in table.items():
        labels = {label_of(dictionary.entries[number]) for number in numbers}
        if len(labels) > 1 and ambiguous == "drop":
            continue
        label = None if len(labels) > 1 and ambiguous == "both-unknown" else dictionary.entries[numbers[0]].label
        resolved[text] = _Pattern(sizes[text], label, numbers[0])
    return resolved
