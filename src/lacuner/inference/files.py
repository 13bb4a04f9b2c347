"""Predict files: read texts and records, find entities, and write them with what else a record holds; in constant memory."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TextIO

from lacuner.corpus import Entity, Sentence, Source
from lacuner.corpus.corpus import format_of_texts, sentence_from_text, stream_sentences
from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.conll import write_conll
from lacuner.corpus.formats.format import ReadOptions
from lacuner.corpus.formats.json_lines import read_objects, to_line
from lacuner.corpus.formats.jsonl import OtherTools, without_annotation, words_or_text
from lacuner.corpus.formats.records import SENTENCE_KEYS, entity_to_record, sentence_to_record
from lacuner.corpus.tokenize import Splitting
from lacuner.streams.engine import Engine, LocalEngine

OutputFormat = Literal["jsonl", "conll"]
_CHUNK = 1024
"""Texts that a worker gets at a time; a model sorts as many by length."""


class Predictor(Protocol):
    """What finds entities: a :class:`~lacuner.Recognizer`, perhaps with a dictionary."""

    split: Splitting

    def predict(self, text: Any, *, nested: bool = False, min_score: float = 0.0) -> Any:
        """The entities of each text."""
        ...


class PredictionInput(NamedTuple):
    """A text, or a tokenized sentence, and the record that it came in."""

    text: str | Sentence
    record: dict[str, Any]


@dataclass
class PredictionReport:
    """Counts of what was read and found.

    Attributes:
        texts: that were searched.
        entities: that were found in them.
        from_dictionary: of these, names of a dictionary.
        without_words: texts that a column file cannot show.
    """

    texts: int = 0
    entities: int = 0
    from_dictionary: int = 0
    without_words: int = 0

    def add(self, other: "PredictionReport") -> None:
        """Count what another has counted."""
        self.texts += other.texts
        self.entities += other.entities
        self.from_dictionary += other.from_dictionary
        self.without_words += other.without_words


class _Chunk(NamedTuple):
    first: int
    inputs: list[PredictionInput]

    def __str__(self) -> str:
        return f"texts {self.first} to {self.first + len(self.inputs) - 1}"


def read_inputs(path: Path, format: str | None = None) -> Iterator[PredictionInput]:
    """What is to be searched in a file: a text a line, the sentences of a column file, or the records of JSON Lines."""
    chosen = format or format_of_texts(path)
    if chosen == "text":
        for _, line in read_lines(path):
            yield PredictionInput(line, {"text": line})
    elif chosen != "jsonl":
        for sentence in stream_sentences(path, chosen, tagged=False):
            yield PredictionInput(sentence, sentence_to_record(sentence))
    else:
        tools = OtherTools(path, ReadingReport(), ReadOptions())
        for number, record in read_objects(path):
            sentences = tools.read(record, number)
            if sentences is not None:
                yield from map(_input_of, sentences)
                continue
            content = words_or_text(record, path, number)
            yield PredictionInput(content if isinstance(content, str) else Sentence(tuple(content)), record)


def _input_of(sentence: Sentence) -> PredictionInput:
    """The text of another tool's record, or its words if it has no text."""
    if sentence.text is None:
        return PredictionInput(sentence, sentence_to_record(sentence))
    return PredictionInput(sentence.text, {"text": sentence.text, **sentence.extra})


def predict_stream(
    load: Callable[[], Predictor],
    inputs: Iterable[PredictionInput],
    out: TextIO,
    format: OutputFormat = "jsonl",
    engine: Engine | None = None,
    nested: bool = False,
    min_score: float = 0.0,
) -> PredictionReport:
    """Find entities in inputs as they come, and write them in the same order.

    Args:
        load: loads the model; called once in each worker.
        inputs: what to search.
        out: written to.
        format: to write in.
        engine: where the work runs; by default in this process.
        nested: keep entities that overlap more probable ones.
        min_score: leave out entities with a lower probability.
    """
    total = PredictionReport()
    start = partial(_start, load, format, nested, min_score)
    for text, report in (engine or LocalEngine()).map(start, _chunks(inputs)):
        out.write(text)
        total.add(report)
    return total


def _chunks(inputs: Iterable[PredictionInput]) -> Iterator[_Chunk]:
    remaining, first = iter(inputs), 1
    while chunk := list(islice(remaining, _CHUNK)):
        yield _Chunk(first, chunk)
        first += len(chunk)


def _start(
    load: Callable[[], Predictor], format: OutputFormat, nested: bool, min_score: float
) -> Callable[[_Chunk], tuple[str, PredictionReport]]:
    return partial(_predict, load(), format, nested, min_score)


def _predict(
    predictor: Predictor, format: OutputFormat, nested: bool, min_score: float, chunk: _Chunk
) -> tuple[str, PredictionReport]:
    found: Sequence[list[Entity]] = predictor.predict(
        [item.text for item in chunk.inputs], nested=nested, min_score=min_score
    )
    names = sum(entity.source == Source.DICTIONARY for entities in found for entity in entities)
    report = PredictionReport(len(chunk.inputs), sum(map(len, found)), names)
    text = io.StringIO()
    for item, entities in zip(chunk.inputs, found, strict=True):
        if format == "jsonl":
            record = without_annotation(item.record)
            record["entities"] = [entity_to_record(entity) for entity in entities]
            text.write(to_line(record))
        else:
            sentence = tagged_sentence(item, entities, predictor.split)
            report.without_words += not sentence.tokens
            write_conll([sentence] if sentence.tokens else [], text)
    return text.getvalue(), report


def tagged_sentence(item: PredictionInput, entities: Iterable[Entity], split: Splitting) -> Sentence:
    """The words of an input with the entities found in it, and the fields of its record that we do not know."""
    text = item.text
    if isinstance(text, str):
        words = sentence_from_text(text, split)
        first = {start: index for index, (start, _) in enumerate(words.offsets())}
        last = {end: index + 1 for index, (_, end) in enumerate(words.offsets())}
        entities = [replace(e, start=first[e.start], end=last[e.end]) for e in entities]
        text = words
    tagged = tuple(replace(entity, source=None, text=None, score=None) for entity in entities)
    extra = {key: value for key, value in without_annotation(item.record).items() if key not in SENTENCE_KEYS}
    return Sentence(text.tokens, tagged, extra=extra)
