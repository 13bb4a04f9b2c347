"""A corpus: sentences, reading and writing them, and operations on all of them."""

import gzip
import io
import itertools
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar, cast, overload

from lacuner.corpus.data_frames import entities_frame
from lacuner.corpus.files import STANDARD_INPUT, FileRange, ReadingReport, Unit, is_compressed, name_of
from lacuner.corpus.formats.datasets import dataset_of, sentences_of_dataset
from lacuner.corpus.formats.format import ReadOptions, WriteOptions
from lacuner.corpus.formats.registry import get_format, guess_format, reader_of, writable_format
from lacuner.corpus.formats.tag_schemes import Scheme
from lacuner.corpus.lazy import LazySentences, LazyTokens
from lacuner.corpus.masking import mask_sentences
from lacuner.corpus.sentence import Entity, Sentence, SourceAnnotation
from lacuner.corpus.statistics import Statistics
from lacuner.corpus.tokenize import Splitting, cut_words
from lacuner.errors import DataError
from lacuner.storage import new_file, new_folder, reporting

logger = logging.getLogger(__name__)

_SHOWN_SENTENCES = 10
"""Number of sentences shown in notebooks."""

A = TypeVar("A", Sentence, SourceAnnotation)


@dataclass(frozen=True, eq=False)
class Corpus(Sequence[Sentence]):
    """An immutable sequence of sentences.

    >>> from lacuner import Entity
    >>> corpus = Corpus([Sentence(("Ada", "sleeps"), (Entity(0, 1, "PER"),))])
    >>> len(corpus), corpus.labels, corpus[0].entities
    (1, ('PER',), (Entity(start=0, end=1, label='PER'),))
    """

    sentences: Sequence[Sentence]
    report: ReadingReport = field(default_factory=ReadingReport, repr=False)

    def __post_init__(self) -> None:
        if self.is_lazy:
            return
        if isinstance(self.sentences, str | Path):
            raise TypeError("sentences is a list of Sentence; Corpus.read reads a file, Corpus.from_texts splits texts")
        object.__setattr__(self, "sentences", tuple(self.sentences))
        for sentence in self.sentences:
            if not isinstance(sentence, Sentence):
                raise TypeError(f"a corpus holds objects of Sentence, not {repr(sentence)[:60]}")

    @property
    def is_lazy(self) -> bool:
        """Whether sentences are created on access, because all of them may not fit into memory."""
        return isinstance(self.sentences, LazySentences)

    @classmethod
    def read(
        cls, path: str | Path, format: str | None = None, strict: bool = False, split: Splitting = "words"
    ) -> "Corpus":
        """Read a file or folder (``-``: standard input). Repairs are logged as warnings and kept in ``report``.

        Args:
            path: the file; its extension determines the format.
            format: name of the format (``conll``, ``doccano``, ``label_studio``, …, or that of an installed package), if the
                extension is not enough.
            strict: reject broken tags, duplicate entities and the like instead of repairing them.
            split: how raw text with character spans is tokenized.
        """
        report = ReadingReport(strict=strict)
        corpus = cls(tuple(stream_sentences(path, format, report, split=split)), report)
        report.log()
        return corpus

    @classmethod
    def from_texts(cls, texts: Iterable[str], split: Splitting = "words") -> "Corpus":
        """Create a corpus of unannotated raw texts."""
        return cls(tuple(sentence_from_text(text, split) for text in texts))

    @classmethod
    def from_dataset(cls, dataset: Any, names: Sequence[str] | None = None, strict: bool = False) -> "Corpus":
        """Convert rows of a dataset of the library ``datasets`` with columns ``tokens`` and ``ner_tags``.

        Args:
            dataset: one split of it.
            names: of integer tags (``["O", "B-PER", …]``), if its features lack them.
            strict: reject broken tags and the like instead of repairing them.
        """
        report = ReadingReport(strict=strict)
        corpus = cls(tuple(sentences_of_dataset(dataset, names, report)), report)
        report.log()
        return corpus

    def to_dataset(self) -> Any:
        """Convert to a ``Dataset`` of the library ``datasets`` with ``tokens``, ``ner_tags`` and other fields, losslessly."""
        return dataset_of(self)

    def to_pandas(self) -> Any:
        """Data frame with a row for each entity: sentence, position, label, text, score and source."""
        return entities_frame(self)

    def write(self, path: str | Path, format: str | None = None, scheme: Scheme = "bio2") -> None:
        """Write a file or a new folder atomically. What the format cannot represent is logged."""
        write_sentences(self, path, format, scheme)

    @cached_property
    def tokens(self) -> Sequence[tuple[str, ...]]:
        """The words of every sentence."""
        if isinstance(self.sentences, LazySentences):
            return LazyTokens(self.sentences)
        return tuple(sentence.tokens for sentence in self.sentences)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels, sorted."""
        return tuple(sorted(labels_of(self.sentences)))

    def statistics(self) -> Statistics:
        """Counts of sentences, words, entities and more."""
        return Statistics.count(self)

    def mask(self, probability: float, seed: int = 1) -> "Corpus":
        """Hide each entity with this probability, reproducibly across platforms."""
        return self._with(sentence for sentence, _ in mask_sentences(self, probability, seed))

    def as_complete(self) -> "Corpus":
        """Mark all sentences as complete: unannotated text is no entity."""
        return self._with(replace(sentence, complete=True) for sentence in self)

    def with_annotated_labels(self, labels: Iterable[str]) -> "Corpus":
        """Declare that only ``labels`` were annotated, except in sentences that declare this themselves."""
        if isinstance(labels, str):
            raise TypeError("labels is a set of labels, not one label")
        looked_for = frozenset(labels)
        return self._with(
            replace(sentence, annotated_labels=looked_for) if sentence.annotated_labels is None else sentence
            for sentence in self
        )

    def rename_labels(self, names: Mapping[str, str]) -> "Corpus":
        """Rename labels; labels mapped to the same name are merged.

        If only some of the merged labels were annotated, the merged label counts as not annotated, since entities of the
        others may be missing.
        """
        old: dict[str, set[str]] = {}
        for label in self.labels:
            old.setdefault(names.get(label, label), set()).add(label)
        return self._with(_rename_labels(sentence, names, old) for sentence in self)

    def _with(self, sentences: Iterable[Sentence]) -> "Corpus":
        return Corpus(tuple(sentences), self.report)

    def __add__(self, other: "Corpus") -> "Corpus":
        return Corpus((*self.sentences, *other.sentences), self.report + other.report)

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> "Corpus": ...
    def __getitem__(self, index: int | slice) -> "Sentence | Corpus":
        return self._with(self.sentences[index]) if isinstance(index, slice) else self.sentences[index]

    def __repr__(self) -> str:
        entities = sum(len(sentence.entities) for sentence in self)
        return f"Corpus({len(self)} sentences, {entities} entities, labels {', '.join(self.labels) or 'none'})"

    def _repr_html_(self) -> str:
        """Notebook display: the first sentences with their entities."""
        from lacuner.corpus.display.colors import Palette
        from lacuner.corpus.display.markup import notebook_output, sentence_block

        palette, shown = Palette.of(self.labels), self.sentences[:_SHOWN_SENTENCES]
        first = f"the first {len(shown)} of " if len(shown) < len(self) else ""
        return notebook_output([sentence_block(sentence, palette) for sentence in shown], f"{first}{self!r}")


def _rename_labels(sentence: Sentence, names: Mapping[str, str], old: Mapping[str, set[str]]) -> Sentence:
    """Rename labels in a sentence; ``old`` maps each new name to its old ones."""
    by_source = tuple(_rename(said, names, old) for said in sentence.by_source)
    return replace(_rename(sentence, names, old), by_source=by_source)


def _rename(said: A, names: Mapping[str, str], old: Mapping[str, set[str]]) -> A:
    renamed: dict[tuple[int, int, str], Entity] = {}
    for entity in said.entities:
        label = names.get(entity.label, entity.label)
        renamed.setdefault((entity.start, entity.end, label), replace(entity, label=label))
    looked_for = said.annotated_labels
    if looked_for is not None:
        looked_for = frozenset(label for label, before in old.items() if before <= looked_for)
    return replace(said, entities=tuple(renamed.values()), annotated_labels=looked_for)


def labels_of(sentences: Iterable[Sentence]) -> set[str]:
    """All labels of entities, or declared as annotated."""
    found: set[str] = set()
    for said in itertools.chain.from_iterable(sentence.statements() for sentence in sentences):
        found.update(entity.label for entity in said.entities)
        found.update(said.annotated_labels or ())
    return found


def sentence_from_text(text: str, split: Splitting = "words") -> Sentence:
    """Tokenize a text."""
    return Sentence(cut_words(text, split), text=text)


def stream_sentences(
    path: str | Path,
    format: str | None = None,
    report: ReadingReport | None = None,
    tagged: bool = True,
    split: Splitting = "words",
    range: FileRange | None = None,
) -> Iterator[Sentence]:
    """Yield sentences of a file, or a range of it, in constant memory; the caller logs the report afterwards."""
    report = report if report is not None else ReadingReport()
    sentences = reader_of(path, format)(path, report, ReadOptions(split, tagged, range))
    return sentences if range is not None else _noting_emptiness(sentences, path, report)


def _noting_emptiness(sentences: Iterator[Sentence], path: str | Path, report: ReadingReport) -> Iterator[Sentence]:
    """Pass sentences through, and note in the report if there are none without another reason given."""
    before, sentences = report.counts.total(), iter(sentences)
    for sentence in sentences:
        yield sentence
        yield from sentences
        return
    if report.counts.total() == before:
        report.note("empty files", "the file contains no sentences", "check that it is the right file", path, 1)


def write_sentences(
    sentences: Iterable[Sentence],
    path: str | Path,
    format: str | None = None,
    scheme: Scheme = "bio2",
    name: str | Path | None = None,
) -> Counter[str]:
    """Write a stream of sentences, as text, bytes or a folder; ``-`` is standard output.

    Args:
        sentences: to write.
        path: the file or folder.
        format: its format, if the name is not enough.
        scheme: tagging scheme of column files.
        name: path for messages, if the file will be moved.

    Returns:
        What the format could not represent, with the number of sentences affected; also logged.
    """
    shown = path if name is None else name
    known, options = writable_format(path, format), WriteOptions(scheme, str(shown))
    counted = known.count_losses(sentences, options.losses)
    try:
        if known.write is not None:
            with open_for_writing(path) as file:
                known.write(counted, file, options)
        elif known.write_binary is not None:
            with open_binary_for_writing(path) as binary:
                known.write_binary(counted, binary, options)
        elif known.write_folder is not None:
            with new_corpus_folder(path) as folder:
                known.write_folder(counted, folder, options)
    except UnicodeEncodeError:
        raise DataError("there is half of a surrogate pair", "write whole characters", shown) from None
    log_losses(options.losses, shown)
    return options.losses


def log_losses(losses: Mapping[str, int], path: str | Path) -> None:
    """Warn about what the format of a written file could not represent, one line per kind."""
    for what, count in losses.items():
        logger.warning("%s: the format cannot store %s (lost in %d sentences).", path, what, count)


def format_of_texts(path: str | Path) -> str:
    """The format of a file of texts, by name; ``text`` (one text per line) if that is not conclusive."""
    plain = str(path) == STANDARD_INPUT or name_of(path).endswith(".txt")
    guessed = None if plain else guess_format(path)
    return "text" if guessed is None else guessed.name


def unit_of_texts(path: str | Path, format: str | None = None) -> Unit:
    """The smallest unit of a file of texts that can be read independently."""
    if is_compressed(path):
        return "file"
    chosen = format or format_of_texts(path)
    if chosen == "text":
        return "line"
    unit = get_format(chosen).unit
    return "file" if unit is None else unit(path)


@contextmanager
def open_for_writing(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 file for atomic writing, so that a crash never leaves half of it.

    ``-`` is standard output; a name that ends in ``.gz`` is compressed.
    """
    if str(path) == STANDARD_INPUT:
        yield sys.stdout
        with reporting("standard output"):
            sys.stdout.flush()
        return
    with open_binary_for_writing(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
        try:
            yield file
            file.flush()
        finally:
            with suppress(OSError, ValueError):  # of the unwritten rest; the first error already reports it
                file.detach()


@contextmanager
def open_binary_for_writing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file for atomic writing."""
    if str(path) == STANDARD_INPUT:
        yield sys.stdout.buffer
        with reporting("standard output"):
            sys.stdout.buffer.flush()
        return
    path = Path(path)
    with reporting(path):
        if not path.parent.is_dir():
            raise DataError("the folder does not exist", "create it first", path.parent)
        if path.is_dir():
            raise DataError("it is a folder", "give the name of a file", path)
        # A pipe or a device cannot be replaced by renaming, and /dev/stdout must stay what it is.
        special = path.is_relative_to("/dev") or (path.exists() and not path.is_file())
    with path.open("wb") if special else new_file(path) as raw:
        if not path.name.lower().endswith(".gz"):
            yield raw
            return
        # Archives get no timestamp, so that equal content gives equal bytes.
        packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
        yield cast(BinaryIO, packed)
        packed.close()


@contextmanager
def new_corpus_folder(path: str | Path) -> Iterator[Path]:
    """Yield a folder to fill, renamed to ``path`` when complete. A non-empty folder is not replaced."""
    if str(path) == STANDARD_INPUT:
        raise DataError("a folder cannot be written to standard output", "give a name for it")
    with reporting(path):
        if not Path(path).absolute().parent.is_dir():
            raise DataError("the folder does not exist", "create it first", Path(path).absolute().parent)
        if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
            raise DataError("it already exists and would be overwritten", "give a new name", path)
    with new_folder(path, replace=False) as folder:
        yield folder


def merge(corpora: Iterable[Corpus]) -> Corpus:
    """Concatenate corpora."""
    corpora = list(corpora)
    sentences = tuple(itertools.chain.from_iterable(corpora))
    return Corpus(sentences, sum((corpus.report for corpus in corpora), ReadingReport()))
