"""Prediction on files: read texts and records, find entities, and write them with the records' other fields; streaming."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from lacuner.corpus import Entity, Sentence, Source
from lacuner.corpus.corpus import format_of_texts, stream_sentences
from lacuner.corpus.files import FileRange, ReadingReport
from lacuner.corpus.formats.datasets import holds_texts
from lacuner.corpus.formats.format import ReadOptions
from lacuner.corpus.formats.json_lines import decode_records, read_objects
from lacuner.corpus.formats.jsonl import OtherTools, words_or_text
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.corpus.ranges import lines_of, locating
from lacuner.corpus.tokenize import Splitting
from lacuner.inference.output import OutputOptions, PredictionInput, PredictionReport, TextWriter
from lacuner.streams.engine import Engine, LocalEngine
from lacuner.streams.live import chunks_as_they_come
from lacuner.streams.resumable import Work
from lacuner.streams.shards import Batch, Shard

_CHUNK = 1024
"""Texts per work item; a model sorts as many by length."""


class Predictor(Protocol):
    """Anything that finds entities: a :class:`~lacuner.Recognizer`, possibly combined with a dictionary."""

    split: Splitting

    @property
    def labels(self) -> Sequence[str]:
        """The labels that it can predict."""
        ...

    def predict(self, text: Any, *, nested: bool = False, min_score: float = 0.0) -> Any:
        """Find the entities of each text."""
        ...


class _Chunk(NamedTuple):
    first: int
    inputs: list[PredictionInput]

    def __str__(self) -> str:
        return f"texts {self.first} to {self.first + len(self.inputs) - 1}"


def read_inputs(
    path: str | Path, format: str | None = None, range: FileRange | None = None
) -> Iterator[PredictionInput]:
    """Read texts from a file, or a range of it: one per line, sentences of a column file, or JSON Lines."""
    chosen = format or format_of_texts(path)
    if chosen == "text":
        for _, line in lines_of(path, range):
            yield PredictionInput(line, {"text": line})
    elif chosen == "parquet" and holds_texts(path):
        yield from map(_input_of, stream_sentences(path, chosen, tagged=False, range=range))
    elif chosen != "jsonl":
        for sentence in stream_sentences(path, chosen, tagged=False, range=range):
            yield PredictionInput(sentence, sentence_to_record(sentence))
    else:
        tools = OtherTools(path, ReadingReport(), ReadOptions())
        records = read_objects(path) if range is None else decode_records(lines_of(path, range), path)
        for number, record in records:
            sentences = tools.read(record, number)
            if sentences is not None:
                yield from map(_input_of, sentences)
                continue
            content = words_or_text(record, path, number)
            yield PredictionInput(content if isinstance(content, str) else Sentence(tuple(content)), record)


def read_batches(batches: Iterable[Batch], format: str | None = None) -> Iterator[PredictionInput | None]:
    """Read texts from shards, with ``None`` after each batch, because workers predict batches separately."""
    for batch in batches:
        yield from _read_shards(batch.shards, format)
        yield None


def _read_shards(shards: Iterable[Shard], format: str | None) -> Iterator[PredictionInput]:
    for shard in shards:
        with locating(shard.path, shard.range):
            yield from read_inputs(shard.path, format, shard.range)


def _input_of(sentence: Sentence) -> PredictionInput:
    """The text of another tool's record, or its words if it has no text."""
    if sentence.text is None:
        return PredictionInput(sentence, sentence_to_record(sentence))
    return PredictionInput(sentence.text, {"text": sentence.text, **sentence.extra})


def predict_stream(
    load: Callable[[], Predictor],
    inputs: Iterable[PredictionInput | None],
    out: TextIO,
    output: OutputOptions | None = None,
    engine: Engine | None = None,
    nested: bool = False,
    min_score: float = 0.0,
    live: bool = False,
) -> PredictionReport:
    """Find entities in a stream of inputs, and write them in the same order.

    Args:
        load: loads the model; called once in each worker.
        inputs: texts to predict. ``None`` ends a batch: texts before and after it are not encoded together, which could
            change the last digits of their scores.
        out: written to.
        output: how to write; JSON Lines by default.
        engine: where the work runs; in this process by default.
        nested: keep entities that overlap more probable ones.
        min_score: minimum probability of entities.
        live: answer a text immediately if no other is waiting. An engine with several workers reads ahead before it answers.
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


@dataclass(frozen=True)
class ShardPredictor:
    """Predicts shards in a worker; contains everything that a worker needs.

    Args:
        load: loads the model; called once in each worker.
        output: how to write.
        input_format: of the inputs, if not evident from their names.
        nested: keep entities that overlap more probable ones.
        min_score: minimum probability of entities.
    """

    load: Callable[[], Predictor]
    output: OutputOptions
    input_format: str | None = None
    nested: bool = False
    min_score: float = 0.0

    def __call__(self) -> Work:
        return partial(self._predict, _start(self.load, self.output, self.nested, self.min_score))

    def _predict(
        self, predict: "Callable[[_Chunk], tuple[str, PredictionReport]]", shards: Sequence[Shard], out: TextIO
    ) -> dict[str, Any]:
        total = PredictionReport()
        for chunk in _numbered(_chunks(_read_shards(shards, self.input_format), live=False)):
            text, report = predict(chunk)
            out.write(text)
            total.add(report)
        return total.as_dict()


def _chunks(inputs: Iterable[PredictionInput | None], live: bool) -> Iterator[list[PredictionInput]]:
    if live:
        yield from chunks_as_they_come((item for item in inputs if item is not None), _CHUNK)
        return
    chunk: list[PredictionInput] = []
    for item in chain(inputs, [None]):
        if item is not None:
            chunk.append(item)
        if chunk and (item is None or len(chunk) == _CHUNK):
            yield chunk
            chunk = []


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
