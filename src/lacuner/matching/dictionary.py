"""Dictionaries of names and labels: columns, JSON objects or spaCy patterns, optionally with ``exact`` or ``ignore`` case."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from lacuner.corpus import Sentence, Source
from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.errors import DataError
from lacuner.matching.entry import Entry
from lacuner.matching.name_records import are_records, read_name_records
from lacuner.matching.name_tables import UNTYPED, Lines, read_phrase_table, read_table
from lacuner.matching.variants import runs, together

Reader = Callable[[Lines, str | Path, ReadingReport], Iterator[tuple[int, Entry]]]
"""Names of a file, with their line numbers."""
_ASCII_RUN = re.compile("[a-z0-9]+")


@dataclass(frozen=True)
class Dictionary:
    """Names and labels, in the order of the file."""

    entries: tuple[Entry, ...]
    report: ReadingReport = field(default_factory=ReadingReport, repr=False)

    @classmethod
    def read(cls, path: str | Path, strict: bool = False, label: str | None = None) -> "Dictionary":
        """Read a file. Invalid lines are skipped, and their number is logged.

        Args:
            path: columns (``name<TAB>label``; commas if it ends in ``.csv``), JSON Lines or a JSON list of objects, such as
                the patterns of spaCy's EntityRuler.
            strict: reject invalid lines instead.
            label: of all names, if the file has only names.
        """
        return cls._read(path, strict, partial(_read_entries, label=label))

    @classmethod
    def read_phrases(cls, path: str | Path, strict: bool = False) -> "Dictionary":
        """Read unlabeled phrases, one per line, or in a table or JSON objects, whose labels are ignored."""
        return cls._read(path, strict, _read_phrases)

    @classmethod
    def _read(cls, path: str | Path, strict: bool, read: Reader) -> "Dictionary":
        report = ReadingReport(strict=strict)
        lines = [(number, line) for number, line in read_lines(path) if line.strip()]
        if not lines:
            raise DataError("the file is empty: the list contains no name", "write name<TAB>label, one a line", path)
        entries = tuple(dict.fromkeys(_counting_duplicates(read(lines, path, report), path, report)))
        report.log()
        if not entries:
            raise DataError("the list contains no name that can be read", "write name<TAB>label, one a line", path)
        return cls(entries, report)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Dictionary":
        """Create a dictionary from (name, label) pairs.

        >>> Dictionary.of([("Ada Lovelace", "PER")]).entries
        (Entry(surface='Ada Lovelace', label='PER', case=None),)
        """
        if isinstance(pairs, Mapping):
            raise TypeError("pairs is a list of names with their labels — give the items() of a dict")
        return cls(tuple(dict.fromkeys(_entry_of(pair) for pair in pairs)))

    @classmethod
    def of_annotation(cls, sentences: Iterable[Sentence]) -> "Dictionary":
        """The names that a dictionary matched in annotated sentences: entities with the source ``dictionary``."""
        return cls.of(
            (" ".join(sentence.tokens[entity.start : entity.end]), entity.label)
            for sentence in sentences
            for entity in sentence.entities
            if entity.source == Source.DICTIONARY
        )

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, sorted."""
        return tuple(sorted({entry.label for entry in self.entries}))

    def counts(self) -> Counter[str]:
        """Number of names of each label."""
        return Counter(entry.label for entry in self.entries)

    def occurring_in(
        self, sentences: Iterable[Sentence], characters: bool = False, variants: bool = False
    ) -> Iterator[Entry]:
        """Yield the names whose words all occur in the sentences, ignoring case: often few of a long list, for fast matching.

        They include every name that :class:`~lacuner.matching.Matcher` finds there.

        Args:
            sentences: the text.
            characters: whether its words are single characters.
            variants: whether names may be written with different punctuation.
        """
        cut = (together(s.tokens, s.text) if characters else s.tokens for s in sentences)
        words = set(_runs_of(" ".join(chain.from_iterable(cut))))
        joins = characters or variants
        starts = {word[:length] for word in words for length in range(1, len(word) + 1)} if joins else words

        def is_there(entry: Entry) -> bool:
            own = _runs_of(entry.surface)
            # A name may be written without its separators, but always begins in the same way.
            return own[0] in starts if joins and own else words.issuperset(own)

        return filter(is_there, self.entries)

    def sample(self, fraction: float, seed: int = 1) -> "Dictionary":
        """Sample a fraction of the names, in the order of the file.

        >>> names = Dictionary.of((f"name {number}", "PER") for number in range(10))
        >>> len(names.sample(0.4)), names.sample(0.4, seed=2) == names.sample(0.4, seed=2)
        (4, True)
        """
        drawn = np.random.default_rng(seed).permutation(len(self))[: round(fraction * len(self))]
        return Dictionary(tuple(self.entries[index] for index in sorted(drawn.tolist())), self.report)

    def without(self, surfaces: Collection[str], min_length: int = 0) -> "Dictionary":
        """Remove names by spelling, ignoring case, and those with too few characters."""
        stopped = {folded(surface) for surface in surfaces}
        kept = (e for e in self.entries if len(e.surface) >= min_length and folded(e.surface) not in stopped)
        return Dictionary(tuple(kept), self.report)


def folded(surface: str) -> str:
    """Normal form of a name, independent of case and of the composition of accents."""
    return unicodedata.normalize("NFC", " ".join(surface.split())).casefold()


def _runs_of(text: str) -> list[str]:
    """Runs of letters and digits, case-folded."""
    if text.isascii():  # faster, and a list may be long
        return _ASCII_RUN.findall(text.lower())
    return [run for run in runs(folded(text)) if run.isalnum()]


def read_stop_list(path: str | Path) -> list[str]:
    """Read names to exclude, one per line, or from the first column of a table."""
    lines = (line.partition("\t")[0].strip() for _, line in read_lines(path))
    return [line for line in lines if line]


def _entry_of(pair: tuple[str, str]) -> Entry:
    if isinstance(pair, str) or len(pair) != 2:
        raise TypeError(f"pairs holds names with their labels, such as ('Ada', 'PER'), but not {repr(pair)[:60]}")
    surface, label = pair
    return Entry(" ".join(surface.split()), label)


def _read_entries(
    lines: Lines, path: str | Path, report: ReadingReport, label: str | None = None
) -> Iterator[tuple[int, Entry]]:
    read = read_name_records if are_records(lines, path) else read_table
    return read(lines, path, report, label)


def _read_phrases(lines: Lines, path: str | Path, report: ReadingReport) -> Iterator[tuple[int, Entry]]:
    if are_records(lines, path):
        return read_name_records(lines, path, report, UNTYPED, typed=False)
    return read_phrase_table(lines, path, report)


def _counting_duplicates(
    entries: Iterable[tuple[int, Entry]], path: str | Path, report: ReadingReport
) -> Iterator[Entry]:
    seen: set[Entry] = set()
    for line, entry in entries:
        if entry in seen:
            report.note("duplicate names", f"{entry.surface!r} occurs twice", "remove one", path, line)
        seen.add(entry)
        yield entry
