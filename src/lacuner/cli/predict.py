"""``lacuner predict``."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from lacuner.cli.console import say, track
from lacuner.cli.help import OUTPUT
from lacuner.cli.options import Device, InputFormat, MinScore, ModelPath, Texts, check_inputs
from lacuner.corpus import Entity, Sentence
from lacuner.corpus.corpus import (
    format_of_texts,
    open_for_writing,
    sentence_from_text,
    stream_sentences,
)
from lacuner.corpus.files import STANDARD_INPUT, read_lines, refuse_overwriting
from lacuner.corpus.formats.conll import write_conll
from lacuner.corpus.formats.json_lines import read_records
from lacuner.corpus.formats.jsonl import SPAN_KEYS, words_or_text
from lacuner.corpus.formats.records import SENTENCE_KEYS, entity_to_record, sentence_to_record
from lacuner.corpus.formats.registry import format_of
from lacuner.corpus.tokenize import Splitting
from lacuner.errors import ConfigError

_ANNOTATION = frozenset({*SPAN_KEYS, "non_entities", "complete", "annotated_labels", "unknown_tokens"})
"""What a record says about its entities; the prediction takes its place."""


class OutputFormat(StrEnum):
    """Formats of predictions."""

    jsonl = "jsonl"
    conll = "conll"


class _Item(NamedTuple):
    """Something to be searched, and the record that it came in."""

    text: str | Sentence
    record: dict[str, Any]


def predict(
    model: ModelPath,
    inputs: Texts,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; - is standard output.")
    ] = Path("-"),
    format: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format of the output: jsonl or conll.",
            show_default="from the name of --out; jsonl otherwise",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    input_format: InputFormat = None,
    nested: Annotated[
        bool,
        typer.Option("--nested", help="Also output entities that overlap more probable ones.", rich_help_panel=OUTPUT),
    ] = False,
    min_score: MinScore = 0.0,
    device: Device = None,
) -> None:
    """Find entities in text. Inputs of any size are streamed.

    Offsets count characters if the input is raw text, and tokens if the input is tokenized.

    Example: `lacuner predict model news.txt --out entities.jsonl`
    """
    from lacuner.recognizer import Recognizer

    chosen = format or (OutputFormat.jsonl if str(out) == STANDARD_INPUT else OutputFormat(format_of(out).name))
    if nested and chosen == OutputFormat.conll:
        raise ConfigError("--nested: tags cannot hold entities that overlap; use --format jsonl")
    check_inputs(inputs)
    refuse_overwriting(out, {"an input": inputs, "a file of the model": [model]})
    recognizer = Recognizer.from_pretrained(model, device)
    waiting: deque[_Item] = deque()

    def items() -> Iterator[str | Sentence]:
        for path in inputs:
            for item in _read(path, input_format):
                waiting.append(item)
                yield item.text

    def results() -> Iterator[tuple[_Item, list[Entity]]]:
        for entities in recognizer.predict(items(), nested=nested, min_score=min_score):
            yield waiting.popleft(), entities

    with open_for_writing(out) as file:
        count = found = empty = 0
        for item, entities in track(results(), "texts"):
            count, found = count + 1, found + len(entities)
            if chosen == OutputFormat.jsonl:
                record = {key: value for key, value in item.record.items() if key not in _ANNOTATION}
                record["entities"] = [entity_to_record(entity) for entity in entities]
                file.write(dumps(record, ensure_ascii=False) + "\n")
            else:
                sentence = _tagged(item, entities, recognizer.split)
                empty += not sentence.tokens
                write_conll([sentence] if sentence.tokens else [], file)
    say(f"{found:,} entities in {count:,} texts.")
    if empty:
        say(f"warning: {empty:,} texts have no words, which columns cannot show; they are left out.")


def _read(path: Path, input_format: str | None) -> Iterator[_Item]:
    chosen = input_format or format_of_texts(path)
    if chosen == "text":
        for _, line in read_lines(path):
            yield _Item(line, {"text": line})
    elif chosen != "jsonl":
        for sentence in stream_sentences(path, chosen, tagged=False):
            yield _Item(sentence, sentence_to_record(sentence))
    else:
        for number, record in read_records(path):
            content = words_or_text(record, path, number)
            yield _Item(content if isinstance(content, str) else Sentence(tuple(content)), record)


def _tagged(item: _Item, entities: list[Entity], split: Splitting) -> Sentence:
    """The words of a text with the entities found in it, and the fields of its record that we do not know."""
    text = item.text
    if isinstance(text, str):
        words = sentence_from_text(text, split)
        first = {start: index for index, (start, _) in enumerate(words.offsets())}
        last = {end: index + 1 for index, (_, end) in enumerate(words.offsets())}
        entities = [replace(e, start=first[e.start], end=last[e.end]) for e in entities]
        text = words
    tagged = tuple(replace(entity, source=None, text=None, score=None) for entity in entities)
    extra = {key: value for key, value in item.record.items() if key not in _ANNOTATION | SENTENCE_KEYS}
    return Sentence(text.tokens, tagged, extra=extra)
