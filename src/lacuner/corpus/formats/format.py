"""What a file format is: a name, endings, a reader, a writer, and what it cannot hold."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, get_args

from lacuner.corpus.files import FileRange, ReadingReport, Unit
from lacuner.corpus.formats.tag_schemes import Scheme
from lacuner.corpus.sentence import Sentence
from lacuner.corpus.tokenize import Splitting, cut_words

Content = Literal[
    "tokens",
    "non_entities",
    "complete",
    "annotated_labels",
    "unknown_tokens",
    "by_source",
    "extra",
    "source",
    "score",
    "entity_extra",
]
"""What a sentence may hold besides labeled spans: fields of ``Sentence``, and fields of its entities."""
CONTENTS: tuple[Content, ...] = get_args(Content)


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read.

    Attributes:
        split: how raw text becomes words.
        tagged: ``False`` also takes column files that have words and nothing else, and tables of texts.
        range: what to read of the file; by default all. Only formats that have a ``unit`` are asked for less.
    """

    split: Splitting = "words"
    tagged: bool = True
    range: FileRange | None = None


@dataclass(frozen=True)
class WriteOptions:
    """How a file is written.

    Attributes:
        scheme: tag scheme of column files.
        name: what errors call the file.
        first: number of the first sentence, for errors.
        agent: who suggests the entities, for tools that show it.
        scores: of the sentences, for tools that sort by it; by default that of a sentence's best entity.
        losses: a writer counts here what it had to leave out.
        suggestions: entities are suggested to people, whoever has annotated them.
    """

    scheme: Scheme = "bio2"
    name: str = ""
    first: int = 1
    agent: str = "lacuner"
    scores: Sequence[float] | None = None
    losses: Counter[str] = field(default_factory=Counter)
    suggestions: bool = False

    def score_of(self, index: int, sentence: Sentence) -> float | None:
        """The score of a sentence, to four digits; ``index`` counts what is written from 0 on."""
        if self.scores is not None:
            return round(self.scores[index], 4)
        scores = [entity.score for entity in sentence.entities if entity.score is not None]
        return round(max(scores), 4) if scores else None


Reader = Callable[[str | Path, ReadingReport, ReadOptions], Iterator[Sentence]]
"""Sentences of a file or folder, one by one, in constant memory."""
Writer = Callable[[Iterable[Sentence], TextIO, WriteOptions], None]
"""Writes sentences to a text file as they come."""
BinaryWriter = Callable[[Iterable[Sentence], BinaryIO, WriteOptions], None]
"""Writes sentences to a file of bytes, which may be a pipe: it need not be possible to go back in it."""
FolderWriter = Callable[[Iterable[Sentence], Path, WriteOptions], None]
"""Fills an empty folder, which takes its name when it is whole."""


@dataclass(frozen=True)
class Format:
    """A format of files or folders, as the registry knows it.

    It has one writer at most: ``write`` for text, ``write_binary`` for bytes, or ``write_folder``.

    Attributes:
        name: what users call it (``--format NAME``).
        endings: of file names, in lower case with their dot; ``.gz`` after them is taken care of.
        read: the reader; ``None`` if the format can only be written.
        write: writes a text file.
        cannot_hold: what is lost by writing. Whoever writes a corpus that has it is told.
        line_based: parts that were written separately can be joined to one file; so it is of no binary format or folder.
        write_binary: writes a file of bytes.
        write_folder: fills a folder.
        folder_files: patterns of file names by which a folder in this format is known (``*.ann``).
        unit: tells what a file consists of that can be read independently (see ``ReadOptions.range``); by default it is
            always read as a whole.
    """

    name: str
    endings: tuple[str, ...] = ()
    read: Reader | None = None
    write: Writer | None = None
    cannot_hold: frozenset[Content] = frozenset()
    line_based: bool = True
    write_binary: BinaryWriter | None = None
    write_folder: FolderWriter | None = None
    folder_files: tuple[str, ...] = ()
    unit: Callable[[str | Path], Unit] | None = None

    def __post_init__(self) -> None:
        if sum(writer is not None for writer in (self.write, self.write_binary, self.write_folder)) > 1:
            raise ValueError(f"the format {self.name!r} has more than one writer")
        if self.write_binary is not None or self.write_folder is not None:
            object.__setattr__(self, "line_based", False)

    @property
    def can_be_written(self) -> bool:
        """Whether there is a writer of any kind."""
        return (self.write or self.write_binary or self.write_folder) is not None

    def fits_folder(self, folder: Path) -> bool:
        """Whether a folder has a file by which this format is known."""
        return any(next(folder.glob(pattern), None) is not None for pattern in self.folder_files)

    def count_losses(self, sentences: Iterable[Sentence], losses: Counter[str]) -> Iterator[Sentence]:
        """The same sentences; counts those in which something cannot be held."""
        if not self.cannot_hold:
            yield from sentences
            return
        checked = [(content, _HAS[content]) for content in CONTENTS if content in self.cannot_hold]
        for sentence in sentences:
            losses.update(_DESCRIBED[content] for content, has in checked if has(sentence))
            yield sentence


_DESCRIBED: dict[Content, str] = {
    "tokens": "where words begin and end",
    "non_entities": "rejected spans",
    "complete": "that a sentence is complete",
    "annotated_labels": "which labels were looked for",
    "unknown_tokens": "unknown words",
    "by_source": "what each of several sources says",
    "extra": "other fields",
    "source": "sources of entities",
    "score": "scores of entities",
    "entity_extra": "other fields of entities",
}
_HAS: dict[Content, Callable[[Sentence], bool]] = {
    "tokens": lambda sentence: sentence.tokens != cut_words(sentence.raw_text),
    "non_entities": lambda sentence: bool(sentence.non_entities),
    "complete": lambda sentence: sentence.complete,
    "annotated_labels": lambda sentence: sentence.annotated_labels is not None,
    "unknown_tokens": lambda sentence: bool(sentence.unknown_tokens),
    "by_source": lambda sentence: bool(sentence.by_source),
    "extra": lambda sentence: bool(sentence.extra),
    "source": lambda sentence: any(entity.source is not None for entity in sentence.entities),
    "score": lambda sentence: any(entity.score is not None for entity in sentence.entities),
    "entity_extra": lambda sentence: any(entity.extra for entity in sentence.entities),
}
