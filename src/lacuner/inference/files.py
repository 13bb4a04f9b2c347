"""Predict files: read texts and records, find entities, and write them with what else a record holds; in constant memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from lacuner.corpus import Entity, Sentence, Source
from lacuner.corpus.corpus import format_of_texts, stream_sentences
from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.format import ReadOptions
from lacuner.corpus.formats.json_lines import read_objects
from lacuner.corpus.formats.jsonl import OtherTools, words_or_text
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.corpus.tokenize import Splitting
from lacuner.inference.output import OutputOptions, PredictionInput, PredictionReport, TextWriter
from lacuner.streams.engine import Engine, LocalEngine
from lacuner.streams.live import chunks_as_they_come

_CHUNK = 1024
"""Texts that a worker gets at a time; a model sorts as many by length."""


class Predictor(Protocol):
    """What finds entities: a :class:`~lacuner.Recognizer`, perhaps with a dictionary."""

    split: Splitting

    @property
    def labels(self) -> Sequence[str]:
        """What it can find."""
        ...

    def predict(self, text: Any, *, nested: bool = False, min_score: float = 0.0) -> Any:
        """The entities of each text."""
        ...


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
    output: OutputOptions | None = None,
    engine: Engine | None = None,
    nested: bool = False,
    min_score: float = 0.0,
    live: bool = False,
) -> PredictionReport:
    """Find entities in inputs as they come, and write them in the same order.

    Args:
        load: loads the model; called once in each worker.
        inputs: what to search.
        out: written to.
        output: how to write; by default JSON Lines.
        engine: where the work runs; by default in this process.
        nested: keep entities that overlap more probable ones.
        min_score: leave out entities with a lower probability.
        live: answer a text at once when no other comes with it. An engine with several workers reads ahead before it
            answers.
    """
    output, total = output or OutputOptions(), PredictionReport()
    start = partial(_start, load, output, nested, min_score)
    out.write(output.beginning())
    for text, report in (engine or LocalEngine()).map(start, _numbered(_chunks(inputs, live))):
        out.write(text)
        if live:
            out.flush()
        total.add(report)
    out.write(output.end(total))
    return total


def _chunks(inputs: Iterable[PredictionInput], live: bool) -> Iterator[list[PredictionInput]]:
    if live:
        yield from chunks_as_they_come(inputs, _CHUNK)
        return
    remaining = iter(inputs)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


def _numbered(chunks: Iterable[list[PredictionInput]]) -> Iterator[_Chunk]:
    first = 1
    for chunk in chunks:
        yield _Chunk(first, chunk)
        first += len(chunk)


def _start(
    load: Callable[[], Predictor], output: OutputOptions, nested: bool, min_score: float
) -> Callable[[_Chunk], tuple[str, PredictionReport]]:
    predictor = load()
    return partial(_predict, predictor, output.writer(predictor.labels, predictor.split), nested, min_score)


def _predict(
    predictor: Predictor, writer: TextWriter, nested: bool, min_score: float, chunk: _Chunk
) -> tuple[str, PredictionReport]:
    found: Sequence[list[Entity]] = predictor.predict(
        [item.text for item in chunk.inputs], nested=nested, min_score=min_score
    )
    names = sum(entity.source == Source.DICTIONARY for entities in found for entity in entities)
    labels = Counter(dict.fromkeys(predictor.labels, 0))
    labels.update(entity.label for entities in found for entity in entities)
    report = PredictionReport(len(chunk.inputs), sum(map(len, found)), names, labels=labels)
    numbered = enumerate(zip(chunk.inputs, found, strict=True), chunk.first)
    return "".join(writer.write(number, item, entities, report) for number, (item, entities) in numbered), report
