"""Annotate a stream of text: cut into words, match, write; in constant memory, on as many cores as wanted."""

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TextIO

from lacuner.corpus import Sentence
from lacuner.corpus.formats.format import Format, WriteOptions
from lacuner.corpus.formats.registry import get_format, writer_of
from lacuner.corpus.tokenize import Splitting
from lacuner.errors import ConfigError
from lacuner.matching.annotation import AnnotationReport, annotate_sentences, cut_documents, cut_into_words
from lacuner.matching.matcher import Matcher
from lacuner.streams.engine import Engine, LocalEngine

_CHUNK, _CHUNK_CHARACTERS = 2000, 1_000_000
"""Texts that are worked on at a time, and how many characters at most, unless one text has more."""


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
    """Annotate texts as they come, and write them.

    Args:
        matcher: knows the names.
        texts: to annotate.
        out: written to.
        format: name of the format to write in, one in which parts of a file can be written separately.
        split: how raw text becomes words.
        engine: where the work runs; by default in this process.
        name: what errors call the file that is written.
        first: number of the first text in that file.
        phrases: knows names without labels, whose words are marked as unknown.
        max_words: longer texts are cut into sentences; ``None``: none is.
    """
    total, written = AnnotationReport(), get_format(format)
    if not written.line_based:
        raise ConfigError(
            f"the format {format} cannot be written piece by piece; write jsonl, and then lacuner convert it"
        )
    start = partial(_annotator, _Task(matcher, written, split, name, phrases, max_words))
    for text, report in (engine or LocalEngine()).map(start, _chunks(texts, first)):
        out.write(text)
        total.add(report)
    return total


class _Chunk(NamedTuple):
    """Texts that are worked on at a time, and the number of the first one in the whole."""

    first: int
    texts: list[str | Sentence]

    def __str__(self) -> str:
        return f"texts {self.first} to {self.first + len(self.texts) - 1}"


class _Task(NamedTuple):
    """What is done with each chunk."""

    matcher: Matcher
    format: Format
    split: Splitting
    name: str
    phrases: Matcher | None
    max_words: int | None


def _annotator(task: _Task) -> Callable[[_Chunk], tuple[str, AnnotationReport]]:
    """A dictionary of a million names is loaded once: copies of this process share it."""
    return partial(_annotate, task)


def _annotate(task: _Task, chunk: _Chunk) -> tuple[str, AnnotationReport]:
    sentences = [cut_into_words(text, task.split) for text in chunk.texts]
    annotated, report = annotate_sentences(task.matcher, sentences, task.phrases)
    if task.max_words is not None:
        annotated = cut_documents(annotated, chunk.first, task.max_words, report)
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
