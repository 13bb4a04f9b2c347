"""Dictionary matching: Aho-Corasick over words, leftmost-longest.

The search is done by ``ahocorasick-rs``, which works on bytes. So every word of names and texts is enclosed in two
delimiters: then matches begin and end at word boundaries, and adjacent matches do not share a delimiter. Many sentences are
joined into one text, so that there is no Python code per word.
"""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Literal, NamedTuple, get_args

import numpy as np
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from lacuner.corpus import OUTSIDE, Entity, Source
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, guess_splitting
from lacuner.errors import ConfigError
from lacuner.matching.dictionary import Dictionary, folded
from lacuner.matching.entry import Entry
from lacuner.matching.variants import Words, cut, same_signs, spellings, together

Ambiguous = Literal["drop", "first", "both-unknown"]
AMBIGUOUS: tuple[Ambiguous, ...] = get_args(Ambiguous)

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
_Found = tuple[Numbers, Numbers, Numbers, np.ndarray[tuple[int], np.dtype[np.object_]]]
"""For each match: index of its first word, number of words, and indices of its spelling and label."""
_Tables = dict[bool, dict[Words, list[int]]]
"""Indices of the names with the same word sequence, by whether case is ignored."""
_Meaning = tuple[list[int], str | None]
"""Indices of the names with the same spelling, and their label, unless there are several; ``O``: no match."""
_BEGIN, _END, _BORDER = "\x01", "\x02", "\n"
"""Delimiters before and after a word, and between sentences."""
_BETWEEN = _END + _BEGIN
_NO_MARKS = str.maketrans(_BEGIN + _END, "\x00\x00")


_LOOKED_AT = 200
"""Number of sentences examined to detect single-character tokens."""


class Matches(NamedTuple):
    """Matches in order: ``for row, start, end, label, spelling in zip(*matches)``.

    Columns rather than objects, whose creation would take a tenth of the time.
    """

    rows: list[int]
    """Sentence index, from 0."""
    starts: list[int]
    ends: list[int]
    """Words ``[start, end)`` of the sentence."""
    labels: list[str | None]
    """None: several possible labels."""
    spellings: list[int]
    """Spelling indices; see :meth:`Matcher.names`."""


class Matcher:
    """Finds the names of a dictionary.

    Args:
        dictionary: the names.
        ignore_case: match case-insensitively, except names that are ``exact`` themselves.
        ambiguous: what to do with a name that has several labels: ignore it (``drop``), use its first label (``first``), or
            match it without a label, so that no shorter name is found inside it (``both-unknown``).
        variants: also match names with different punctuation: *Al Qaeda* for *Al-Qaeda*, *US* for *U.S.*
        characters: the words of the text are single characters. Runs of letters and digits still count as one word, whether
            or not the text has them as one, and no match begins or ends inside it.
        stopped: spellings that are never matched, ignoring case, even as variants of other names.

    Attributes:
        variants: whether names are matched with different punctuation.
        characters: whether words are single characters.
        ambiguous_entries: number of names with several labels.
        dropped: indices of names that are ignored because they have several labels.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        ignore_case: bool = False,
        ambiguous: Ambiguous = "drop",
        variants: bool = False,
        characters: bool = False,
        stopped: Collection[str] = (),
    ) -> None:
        if not isinstance(dictionary, Dictionary):
            raise TypeError(
                f"dictionary is a Dictionary, such as Dictionary.read('names.tsv'), but not {repr(dictionary)[:60]}"
            )
        if ambiguous not in AMBIGUOUS:
            raise ConfigError(f"ambiguous={ambiguous!r}: choose {', '.join(AMBIGUOUS)}")
        self.dictionary = dictionary
        self._settings = ignore_case, ambiguous, variants, characters, stopped
        self._ignore_case, self.variants, self.characters = ignore_case, variants, characters
        meanings, unclear = _resolved(self._spelled(stopped), dictionary.entries, ambiguous)
        concerned = {number for table in unclear.values() for numbers in table.values() for number in numbers}
        own = (self._own_words(dictionary.entries[number]) for number in concerned)
        self.ambiguous_entries = len({(folds, words) for folds, words in own if words in unclear[folds]})
        searched = (names for table in meanings.values() for names, label in table.values() if label != OUTSIDE)
        self.dropped = frozenset(concerned.difference(chain.from_iterable(searched)) if concerned else ())
        used = {folds: patterns for folds, patterns in meanings.items() if patterns}
        self._searches: list[_Search] = []
        leads: list[int] = []
        self._others: dict[int, list[int]] = {}
        for folds, patterns in used.items():
            self._searches.append(_Search(patterns, folds, overlapping=len(used) > 1, first=len(leads)))
            for names, _ in patterns.values():
                if len(names) > 1:
                    self._others[len(leads)] = names[1:]
                leads.append(names[0])
        self._leads = np.array(leads, dtype=np.int64)

    @classmethod
    def for_sentences(
        cls, dictionary: Dictionary, sentences: Iterable[Sequence[str]], ignore_case: bool = False
    ) -> "Matcher":
        """Create a matcher for tokenized sentences, of words or characters, as determined by the first of them."""
        return cls(dictionary, ignore_case, characters=are_cut_into_characters(sentences))

    def ignoring_case(self, dictionary: Dictionary) -> "Matcher":
        """A case-insensitive matcher of these names, with the same settings otherwise."""
        return type(self)(dictionary, True, *self._settings[1:])

    def _spelled(self, stopped: Collection[str]) -> _Tables:
        """All word sequences that names may be written as."""
        never = frozenset(folded(same_signs(surface) if self.variants else surface) for surface in stopped)
        tables: _Tables = {False: {}, True: {}}
        for number, entry in enumerate(self.dictionary.entries):
            folds = self._ignores_case(entry)
            for words in _forms(entry, self.variants, self.characters, never):
                numbers = tables[folds].setdefault(_key(words, folds), [])
                if not numbers or numbers[-1] != number:
                    numbers.append(number)
        return tables

    def _own_words(self, entry: Entry) -> tuple[bool, Words]:
        """The words of a name as listed, and whether their case is ignored."""
        surface = same_signs(_normal(entry.surface)) if self.variants else _normal(entry.surface)
        words = together("".join(surface.split()), surface) if self.characters else surface.split()
        folds = self._ignores_case(entry)
        return folds, _key(tuple(words), folds)

    def _ignores_case(self, entry: Entry) -> bool:
        return self._ignore_case if entry.case is None else entry.case == "ignore"

    def __reduce__(self) -> tuple[type["Matcher"], tuple[object, ...]]:
        return type(self), (self.dictionary, *self._settings)  # an automaton cannot be pickled

    def names(self, spelling: int) -> tuple[int, ...]:
        """Indices of the names with this spelling; the first one gives the label."""
        return (int(self._leads[spelling]), *self._others.get(spelling, ()))

    def find(self, sentences: Sequence[Sequence[str]], texts: Sequence[str | None] | None = None) -> Matches:
        """Match names in tokenized sentences; matches do not overlap.

        Args:
            sentences: words.
            texts: the raw texts, if known; for character tokens, they show which are adjacent.

        >>> matcher = Matcher(Dictionary.of([("New York", "LOC"), ("New York Times", "ORG"), ("York", "LOC")]))
        >>> list(zip(*matcher.find([["The", "New", "York", "Times"], ["York"]])))
        [(0, 1, 4, 'ORG', 1), (1, 0, 1, 'LOC', 2)]
        """
        if not sentences or not self._searches:
            return Matches([], [], [], [], [])
        return self._find_in_characters(sentences, texts) if self.characters else self._find(sentences)

    def entities(
        self, sentences: Sequence[Sequence[str]], texts: Sequence[str | None] | None = None
    ) -> list[list[Entity]]:
        """Matches in each sentence as entities, with the source ``dictionary``; arguments as in :meth:`find`.

        Names with several possible labels are omitted.

        >>> matcher = Matcher(Dictionary.of([("New York", "LOC")]))
        >>> matcher.entities([["New", "York", "sleeps"], ["Nobody", "does"]])
        [[Entity(start=0, end=2, label='LOC', source='dictionary')], []]
        """
        found: list[list[Entity]] = [[] for _ in sentences]
        for row, start, end, label, _ in zip(*self.find(sentences, texts), strict=True):
            if label is not None:
                found[row].append(Entity(start, end, label, source=Source.DICTIONARY))
        return found

    def _find(self, sentences: Sequence[Sequence[str]]) -> Matches:
        text = _Text(sentences, self.variants)
        found = [search.run(text) for search in self._searches]
        first_words, sizes, numbers, labels = found[0] if len(found) == 1 else _leftmost_longest(found)
        rows = np.searchsorted(text.first_words, first_words, side="right") - 1
        starts = first_words - text.first_words[rows]
        return Matches(rows.tolist(), starts.tolist(), (starts + sizes).tolist(), labels.tolist(), numbers.tolist())

    def _find_in_characters(self, sentences: Sequence[Sequence[str]], texts: Sequence[str | None] | None) -> Matches:
        """Match runs of characters as words, and translate the matches back to characters."""
        joined = list(map(together, sentences, texts or [None] * len(sentences)))
        found = self._find(joined)
        borders = {
            row: [0, *accumulate(map(len, joined[row]))]
            for row in {*found.rows}
            if len(joined[row]) != len(sentences[row])
        }
        starts, ends = (
            [borders[row][word] if row in borders else word for row, word in zip(found.rows, words, strict=True)]
            for words in (found.starts, found.ends)
        )
        return found._replace(starts=starts, ends=ends)


def are_cut_into_characters(sentences: Iterable[Sequence[str]]) -> bool:
    """Whether tokens are single characters, or runs of letters, judging from the first sentences."""
    return guess_splitting(islice(sentences, _LOOKED_AT)) in CHARACTER_SPLITTINGS


class _Text:
    """Sentences joined into one text, with delimiters around every word.

    Attributes:
        first_words: index of each sentence's first word; an empty sentence counts as one word.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], variants: bool = False) -> None:
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)).clip(min=1)
        self.first_words = np.cumsum(lengths) - lengths
        text = _marked(sentences)
        if _count_marks(text) != 2 * lengths.sum():  # some words contain delimiters
            text = _marked([[word.translate(_NO_MARKS) for word in words] for words in sentences])
        self._text = same_signs(_normal(text)) if variants else _normal(text)

    def search(self, automaton: "BytesAhoCorasick", folds: bool, overlapping: bool) -> tuple[Numbers, Numbers]:
        """Index of each match's first word, and of its pattern."""
        text = (self._text.casefold() if folds else self._text).encode()
        matches = automaton.find_matches_as_indexes(text, overlapping=overlapping)
        numbers, starts = (
            np.fromiter(map(itemgetter(column), matches), dtype=np.int64, count=len(matches)) for column in (0, 1)
        )
        begins = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord(_BEGIN))
        return np.searchsorted(begins, starts), numbers


class _Search:
    """One automaton, over exact or case-folded words."""

    def __init__(self, patterns: dict[Words, _Meaning], folds: bool, overlapping: bool, first: int) -> None:
        sizes = [len(words) for words in patterns]
        self._sizes = np.array(sizes, dtype=np.min_scalar_type(max(sizes)))  # small tables stay in the cache
        labels = {label: number for number, label in enumerate({label for _, label in patterns.values()})}
        self._labels = np.array([*labels], dtype=object)
        codes = [labels[label] for _, label in patterns.values()]
        self._codes = np.array(codes, dtype=np.min_scalar_type(len(labels)))
        self._folds = folds
        self._first = first  # index of its first spelling
        self._overlapping = overlapping
        cleaned = ([[word.translate(_NO_MARKS) for word in words]] for words in patterns)
        self._automaton = _build([_marked(words).encode() for words in cleaned], overlapping)

    def run(self, text: _Text) -> _Found:
        """All matches in a text."""
        first_words, numbers = text.search(self._automaton, self._folds, self._overlapping)
        sizes, labels = self._sizes[numbers].astype(np.int64), self._labels[self._codes[numbers]]
        return first_words, sizes, numbers + self._first, labels


def _marked(sentences: Sequence[Sequence[str]]) -> str:
    return f"{_BEGIN}{f'{_END}{_BORDER}{_BEGIN}'.join(map(_BETWEEN.join, sentences))}{_END}"


def _normal(text: str) -> str:
    """Normalize to composed accents, and replace lone surrogates, which JSON may contain."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))


def _count_marks(text: str) -> int:
    codes = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)
    return int(np.count_nonzero((codes == ord(_BEGIN)) | (codes == ord(_END))))


def _build(patterns: list[bytes], overlapping: bool) -> BytesAhoCorasick:
    kind = MatchKind.Standard if overlapping else MatchKind.LeftmostLongest
    return BytesAhoCorasick(patterns, matchkind=kind)


def _leftmost_longest(found: Sequence[_Found]) -> _Found:
    """Resolve overlaps of matches: leftmost, then longest, then first.

    If the first of equal ones has no label to give, there is no match.
    """
    first_words, sizes, numbers, labels = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((-sizes, first_words))
    fields = order, first_words[order], (first_words + sizes)[order], labels[order]
    chosen, taken, refused = [], 0, (-1, -1)
    for number, begin, end, label in zip(*(field.tolist() for field in fields), strict=True):
        if begin < taken or (begin, end) == refused:
            continue
        if label == OUTSIDE:
            refused = begin, end
        else:
            taken = end
            chosen.append(number)
    return first_words[chosen], sizes[chosen], numbers[chosen], labels[chosen]


def _key(words: Words, folds: bool) -> Words:
    return tuple(map(str.casefold, words)) if folds else words


def _forms(entry: Entry, variants: bool, characters: bool, stopped: Collection[str]) -> set[Words]:
    surface = _normal(entry.surface)
    forms = spellings(surface) if variants else {surface}
    if stopped:
        forms = {form for form in forms if folded(same_signs(form) if variants else form) not in stopped}
    found = {words for form in forms for words in cut(form, characters) if words}
    return {tuple(map(same_signs, words)) for words in found} if variants else found


def _resolved(
    tables: _Tables, entries: Sequence[Entry], ambiguous: Ambiguous
) -> tuple[dict[bool, dict[Words, _Meaning]], _Tables]:
    """Resolve the meaning of each word sequence across the names that share it; also return those with several meanings.

    Exact spellings are shared with names for which case does not matter.
    """
    meanings: dict[bool, dict[Words, _Meaning]] = {False: {}, True: {}}
    unclear: _Tables = {False: {}, True: {}}
    for folds in (True, False):
        for words, numbers in tables[folds].items():
            names = numbers
            if not folds and tables[True]:
                names = sorted({*numbers, *tables[True].get(_key(words, True), ())})
            label: str | None = entries[names[0]].label
            if len(names) > 1 and any(entries[number].label != label for number in names):
                unclear[folds][words] = numbers
                if ambiguous == "drop":
                    if not folds and _key(words, True) in meanings[True]:
                        meanings[folds][words] = names, OUTSIDE
                    continue
                label = None if ambiguous == "both-unknown" else label
            meanings[folds][words] = names, label
    return meanings, unclear
