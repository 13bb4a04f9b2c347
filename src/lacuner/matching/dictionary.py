"""A list of names with their labels: ``surface<TAB>label``, one a line, perhaps with a third column ``exact`` or ``ignore``."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from lacuner.corpus import OUTSIDE, Sentence, Source
from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.matching.variants import runs, together

Case = Literal["exact", "ignore"]
CASES: tuple[Case, ...] = get_args(Case)
_ASCII_RUN = re.compile("[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and its label; ``case`` says whether upper and lower case must be as written, if it says anything."""

    surface: str
    label: str
    case: Case | None = None


@dataclass(frozen=True)
class Dictionary:
    """Names and labels, in the order of the file."""

    entries: tuple[Entry, ...]
    report: ReadingReport = field(default_factory=ReadingReport, repr=False)

    @classmethod
    def read(cls, path: str | Path, strict: bool = False) -> "Dictionary":
        """Read a file. Broken lines are left out, and how many there were is logged.

        Args:
            path: the file.
            strict: refuse broken lines instead.
        """
        report = ReadingReport(strict=strict)
        dictionary = cls(tuple(dict.fromkeys(_read_entries(path, report))), report)
        report.log()
        return dictionary

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Dictionary":
        """Names and labels.

        >>> Dictionary.of([("Ada Lovelace", "PER")]).entries
        (Entry(surface='Ada Lovelace', label='PER', case=None),)
        """
        return cls(tuple(dict.fromkeys(Entry(" ".join(surface.split()), label) for surface, label in pairs)))

    @classmethod
    def of_annotation(cls, sentences: Iterable[Sentence]) -> "Dictionary":
        """The names that were found in sentences when a dictionary annotated them: those with the source ``dictionary``."""
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
        """Names of each label."""
        return Counter(entry.label for entry in self.entries)

    def occurring_in(
        self, sentences: Iterable[Sentence], characters: bool = False, variants: bool = False
    ) -> Iterator[Entry]:
        """The names whose words are in the sentences, in any case: often few of a long list, which are quickly searched for.

        Every name that :class:`~lacuner.matching.Matcher` finds there is among them.

        Args:
            sentences: the text.
            characters: whether its words are single characters.
            variants: whether names may be written with other punctuation.
        """
        cut = (together(s.tokens, s.text) if characters else s.tokens for s in sentences)
        words = set(_runs_of(" ".join(chain.from_iterable(cut))))
        joins = characters or variants
        starts = {word[:length] for word in words for length in range(1, len(word) + 1)} if joins else words

        def is_there(entry: Entry) -> bool:
            own = _runs_of(entry.surface)
            # A name may be written without what separates its words, but always begins in the same way.
            return own[0] in starts if joins and own else words.issuperset(own)

        return filter(is_there, self.entries)

    def without(self, surfaces: Collection[str], min_length: int = 0) -> "Dictionary":
        """The same without some names, whatever their case, and without those that have too few characters."""
        stopped = {folded(surface) for surface in surfaces}
        kept = (e for e in self.entries if len(e.surface) >= min_length and folded(e.surface) not in stopped)
        return Dictionary(tuple(kept), self.report)


def folded(surface: str) -> str:
    """What a name and its like have in common, whatever their case, and whether their accents are composed or not."""
    return unicodedata.normalize("NFC", " ".join(surface.split())).casefold()


def _runs_of(text: str) -> list[str]:
    """Adjacent letters and digits, whatever their case."""
    if text.isascii():  # quicker, and a list may be long
        return _ASCII_RUN.findall(text.lower())
    return [run for run in runs(folded(text)) if run.isalnum()]


def read_stop_list(path: str | Path) -> list[str]:
    """Names that are not to be matched, one a line; a table's first column counts."""
    lines = (line.partition("\t")[0].strip() for _, line in read_lines(path))
    return [line for line in lines if line]


def _read_entries(path: str | Path, report: ReadingReport) -> Iterator[Entry]:
    seen: set[Entry] = set()
    for number, line in read_lines(path):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        surface, label, case = [*columns, "", "", ""][:3]
        surface = " ".join(surface.split())
        problem = _problem(columns, surface, label, case)
        if problem is not None:
            kind, what = problem
            report.note(kind, f"{what}; the line is left out", "write surface<TAB>label", path, number)
            continue
        entry = Entry(surface, label, case or None)  # type: ignore[arg-type]
        if entry in seen:
            report.note("duplicate names", f"{surface!r} is there twice", "remove one", path, number)
        seen.add(entry)
        yield entry


def _problem(columns: list[str], surface: str, label: str, case: str) -> tuple[str, str] | None:
    """What is wrong with a line: the kind of mistake, and what it is here."""
    if len(columns) == 1:
        return "lines without a tab", f"there is no tab between name and label in {columns[0][:40]!r}"
    if not surface:
        return "empty names", f"there is no name before the label {label!r}"
    if not label or label == OUTSIDE:
        return "names without a label", f"{surface!r} has the label {label!r}"
    if case and case not in CASES:
        return (
            "unknown third columns",
            f"{surface!r} has {case!r} in its third column, which is neither exact nor ignore",
        )
    if len(columns) > 3:
        return "lines with too many columns", f"{surface!r} has {len(columns)} columns"
    return None
