"""File formats: name, extensions, reader, writer, and what they cannot represent."""

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
"""Content of a sentence besides labeled spans: fields of ``Sentence``, and of its entities."""
CONTENTS: tuple[Content, ...] = get_args(Content)


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read.

    Attributes:
        split: how raw text is tokenized.
        tagged: ``False`` also accepts column files with words only, and tables of texts.
        range: the part of the file to read; all by default. Only for formats with a ``unit``.
    """

    split: Splitting = "words"
    tagged: bool = True
    range: FileRange | None = None


@dataclass(frozen=True)
class WriteOptions:
    """How a file is written.

    Attributes:
        scheme: tagging scheme of column files.
        name: name of the file in errors.
        first: number of the first sentence, for errors.
        agent: the source of suggested entities, for tools that show it.
        scores: of the sentences, for tools that sort by it; by default that of a sentence's best entity.
        losses: updated by the writer with counts of what it omits.
        suggestions: write entities as suggestions, whatever their source.
    """

    scheme: Scheme = "bio2"
    name: str = ""
    first: int = 1
    agent: str = "lacuner"
    scores: Sequence[float] | None = None
    losses: Counter[str] = field(default_factory=Counter)
    suggestions: bool = False

    def score_of(self, index: int, sentence: Sentence) -> float | None:
        """The score of a sentence, to four digits; ``index`` counts written sentences from 0."""
        if self.scores is not None:
            return round(self.scores[index], 4)
        scores = [entity.score for entity in sentence.entities if entity.score is not None]
        return round(max(scores), 4) if scores else None


Reader = Callable[[str | Path, ReadingReport, ReadOptions], Iterator[Sentence]]
"""Yields sentences of a file or folder, in constant memory."""
Writer = Callable[[Iterable[Sentence], TextIO, WriteOptions], None]
"""Writes a stream of sentences to a text file."""
BinaryWriter = Callable[[Iterable[Sentence], BinaryIO, WriteOptions], None]
"""Writes sentences to a binary file, which may be a non-seekable pipe."""
FolderWriter = Callable[[Iterable[Sentence], Path, WriteOptions], None]
"""Fills an empty folder, which is renamed when complete."""


@dataclass(frozen=True)
class Format:
    """A format of files or folders, as registered.

    It has at most one writer: ``write`` for text, ``write_binary`` for bytes, or ``write_folder``.

    Attributes:
        name: user-facing name (``--format NAME``).
        endings: file extensions, in lower case with the dot; a following ``.gz`` is handled.
        read: the reader; ``None`` if the format can only be written.
        write: writes a text file.
        cannot_hold: what is lost in writing; reported if a corpus has it.
        line_based: whether separately written parts can be concatenated; never for binary formats or folders.
        write_binary: writes a file of bytes.
        write_folder: fills a folder.
        folder_files: patterns of file names that identify a folder in this format (``*.ann``).
        unit: returns the smallest independently readable unit of a file (see ``ReadOptions.range``); by default it is always
            read as a whole.
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
        """Whether a folder contains a file that identifies this format."""
        return any(next(folder.glob(pattern), None) is not None for pattern in self.folder_files)

    def count_losses(self, sentences: Iterable[Sentence], losses: Counter[str]) -> Iterator[Sentence]:
        """Pass sentences through, and count those with something that the format cannot represent."""
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
