"""Annotation of a text stream: tokenize, match, write; in constant memory, on several cores."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TextIO

from lacuner.corpus import Sentence
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import Format, WriteOptions
from lacuner.corpus.formats.registry import get_format, writer_of
from lacuner.corpus.ranges import locating
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, Splitting
from lacuner.errors import ConfigError
from lacuner.matching.annotation import (
    AnnotationReport,
    TextSource,
    annotate_sentences,
    cut_documents,
    cut_into_words,
    read_texts,
)
from lacuner.matching.dictionary import Dictionary
from lacuner.matching.matcher import Ambiguous, Matcher
from lacuner.streams.engine import Engine, LocalEngine
from lacuner.streams.resumable import Work
from lacuner.streams.shards import Shard

_CHUNK, _CHUNK_CHARACTERS = 2000, 1_000_000
"""Maximum number of texts and characters per chunk, unless a single text is longer."""


def annotate_stream(
    matcher: Matcher,
    texts: Iterable[str | Sentence],
    out: TextIO,
    format: str,
    split: Splitting = "words",
    engine: Engine | None = None,
    name: str = "",
    first: int = 1,
    phrases: Matcher | None = None,
    max_words: int | None = None,
) -> AnnotationReport:
    """Annotate a stream of texts, and write the result.

    Args:
        matcher: finds the names.
        texts: to annotate.
        out: written to.
        format: output format, one whose files can be written in parts.
        split: how raw text is tokenized.
        engine: where the work runs; in this process by default.
        name: name of the output file in errors.
        first: number of the first text in that file.
        phrases: finds unlabeled phrases, whose words are marked as unknown.
        max_words: split longer texts into sentences; ``None``: never.
    """
    total, written = AnnotationReport(), _line_based(format)
    start = partial(_annotator, _Task(matcher, written, split, name, phrases, max_words))
    for text, report in (engine or LocalEngine()).map(start, _chunks(texts, first)):
        out.write(text)
        total.add(report)
    return total


@dataclass
class Matchers:
    """Matchers of words and of characters, each built on demand.

    Args:
        names: the names to find.
        phrases: unlabeled phrases, whose words are marked as unknown.
        ignore_case: see :class:`~lacuner.matching.matcher.Matcher`, also for the following.
        ambiguous: treatment of names with several labels.
        variants: whether to match names with different punctuation.
        stopped: spellings that are never matched.
    """

    names: Dictionary
    phrases: Dictionary | None = None
    ignore_case: bool = False
    ambiguous: Ambiguous = "drop"
    variants: bool = False
    stopped: Sequence[str] = ()
    _built: dict[bool, tuple[Matcher, Matcher | None]] = field(default_factory=dict, repr=False)

    def get(self, characters: bool) -> tuple[Matcher, Matcher | None]:
        """The matcher of names, and that of phrases, if any."""
        if characters not in self._built:
            names = Matcher(
                self.names, self.ignore_case, self.ambiguous, self.variants, characters=characters, stopped=self.stopped
            )
            phrases = None
            if self.phrases is not None and self.phrases.entries:
                phrases = Matcher(self.phrases, self.ignore_case, "first", self.variants, characters, self.stopped)
            self._built[characters] = names, phrases
        return self._built[characters]


@dataclass(frozen=True)
class ShardAnnotator:
    """Annotates shards in a worker; contains everything that a worker needs.

    Args:
        matchers: find names.
        format: of the output.
        input_format: of the inputs, if not evident from their names.
        split: how raw text is tokenized.
        max_words: split longer texts into sentences; ``None``: never.
        strict: reject what would otherwise be repaired.
    """

    matchers: Matchers
    format: str = "jsonl"
    input_format: str | None = None
    split: Splitting | Literal["auto"] = "auto"
    max_words: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        _line_based(self.format)

    def __call__(self) -> Work:
        return self.annotate

    def annotate(self, shards: Sequence[Shard], out: TextIO) -> dict[str, Any]:
        """Annotate shards one after the other; the result is that of :meth:`ShardSummary.as_dict`."""
        summary = ShardSummary()
        for shard in shards:
            report = ReadingReport(strict=self.strict, range=shard.range)
            with locating(shard.path, shard.range):
                texts = read_texts(shard.path, self.input_format, self.split, report, shard.range)
                matcher, phrases = self.matchers.get(texts.characters)
                found = annotate_stream(
                    matcher,
                    texts.texts,
                    out,
                    self.format,
                    texts.split,
                    name=str(shard.path),
                    phrases=phrases,
                    max_words=self.max_words,
                )
            summary.found.add(found)
            summary.reading += report
            summary.characters |= texts.characters
            if shard.begin == 0 and (notes := notes_about(texts, self.split)):
                summary.notes[str(shard.path)] = notes
        return summary.as_dict()


@dataclass
class ShardSummary:
    """Counts and notes about shards.

    Attributes:
        found: counts.
        reading: repairs.
        notes: remarks about files, by path.
        characters: whether words were single characters in any of them.
    """

    found: AnnotationReport = field(default_factory=AnnotationReport)
    reading: ReadingReport = field(default_factory=ReadingReport)
    notes: dict[str, list[str]] = field(default_factory=dict)
    characters: bool = False

    def add(self, content: dict[str, Any]) -> None:
        """Add the result of another's :meth:`as_dict`."""
        self.found.add(AnnotationReport.from_dict(content["found"]))
        self.reading += ReadingReport.from_dict(content["reading"])
        self.notes |= content["notes"]
        self.characters |= content["characters"]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found, reading = self.found.as_dict(), self.reading.as_dict()
        return {"found": found, "reading": reading, "notes": self.notes, "characters": self.characters}


def notes_about(texts: TextSource, split: Splitting | Literal["auto"]) -> list[str]:
    """Notes for the user about the tokenization of a file."""
    notes = []
    if split != "auto" and texts.cut_already:
        notes.append("the input is already split into words; --split has no effect on it.")
    if split == "auto" and texts.split == "characters":
        notes.append(
            "most of it has no spaces between words, so it is split into characters, and so are names "
            "(--split words changes that)."
        )
    elif texts.characters and texts.split not in CHARACTER_SPLITTINGS:
        notes.append("its words are single characters, so names are split into characters, too.")
    return notes


def _line_based(format: str) -> Format:
    written = get_format(format)
    if not written.line_based:
        raise ConfigError(
            f"the format {format} cannot be written incrementally; write jsonl and convert it with lacuner convert"
        )
    return written


class _Chunk(NamedTuple):
    """Texts processed together, and the number of the first one in the stream."""

    first: int
    texts: list[str | Sentence]

    def __str__(self) -> str:
        return f"texts {self.first} to {self.first + len(self.texts) - 1}"


class _Task(NamedTuple):
    """The parameters of annotating a chunk."""

    matcher: Matcher
    format: Format
    split: Splitting
    name: str
    phrases: Matcher | None
    max_words: int | None


def _annotator(task: _Task) -> Callable[[_Chunk], tuple[str, AnnotationReport]]:
    """A large dictionary is loaded once, and shared by forked processes."""
    return partial(_annotate, task)


def _annotate(task: _Task, chunk: _Chunk) -> tuple[str, AnnotationReport]:
    sentences = [cut_into_words(text, task.split) for text in chunk.texts]
    annotated, report = annotate_sentences(task.matcher, sentences, task.phrases)
    if task.max_words is not None:
        annotated = cut_documents(annotated, task.max_words, report)
    text, options = io.StringIO(), WriteOptions(name=task.name, first=chunk.first, losses=report.losses)
    write = writer_of(task.name, task.format.name)
    write(task.format.count_losses(annotated, options.losses), text, options)
    return text.getvalue(), report


def _chunks(texts: Iterable[str | Sentence], first: int) -> Iterator[_Chunk]:
    chunk, characters = _Chunk(first, []), 0
    for text in texts:
        chunk.texts.append(text)
        characters += len(text) if isinstance(text, str) else sum(map(len, text.tokens))
        if len(chunk.texts) >= _CHUNK or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = _Chunk(chunk.first + len(chunk.texts), []), 0
    if chunk.texts:
        yield chunk
