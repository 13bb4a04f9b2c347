"""``lacuner mask``."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.options import DataFormat, Json, Strict, refuse_mixing
from lacuner.corpus import Entity, Sentence
from lacuner.corpus.corpus import open_for_writing, stream_sentences, write_sentences
from lacuner.corpus.files import ReadingReport, refuse_overwriting
from lacuner.corpus.formats.records import entity_to_record
from lacuner.corpus.formats.registry import format_of, guess_format
from lacuner.corpus.masking import mask_sentences


def mask(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Completely annotated data.", show_default=False)],
    probability: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="P", help="Probability of hiding an entity.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file.", show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Random seed; a different seed hides different entities.")] = 1,
    hidden: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the hidden entities to this file as JSON Lines.", show_default=False),
    ] = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Hide entities at random to simulate incomplete annotation.

    The same seed hides the same entities on every machine. Entities hidden with probability 0.5 are also hidden with 0.7.

    Example: `lacuner mask gold.conll --probability 0.7 --seed 1 --out masked.conll --hidden hidden.jsonl`
    """
    refuse_mixing(out, json)
    refuse_overwriting(out, {"its own input": [gold]})
    if hidden is not None:
        refuse_overwriting(hidden, {"the input": [gold], "the output": [out]}, "--hidden")
    report = ReadingReport(strict=strict)
    counts = {"kept": 0, "hidden": 0}
    with ExitStack() as stack:
        file = stack.enter_context(open_for_writing(hidden)) if hidden else None

        def masked() -> Iterator[Sentence]:
            pairs = mask_sentences(stream_sentences(gold, data_format, report), probability, seed)
            for index, (sentence, gone) in enumerate(track(pairs, "sentences")):
                counts["kept"] += len(sentence.entities)
                counts["hidden"] += len(gone)
                if file is not None:
                    file.writelines(_hidden_records(index, sentence, gone))
                yield sentence

        write_sentences(masked(), out, (guess_format(out) or format_of(gold, data_format)).name)
    report.log()
    if json:
        print_json(counts | {"entities": sum(counts.values())})
    else:
        say(f"{counts['hidden']:,} of {sum(counts.values()):,} entities are hidden in {out}.")


def _hidden_records(index: int, sentence: Sentence, hidden: Sequence[Entity]) -> Iterator[str]:
    for entity, text in zip(hidden, sentence.texts_of(hidden), strict=True):
        record = {"sentence": index} | entity_to_record(replace(entity, text=text))
        yield dumps(record, ensure_ascii=False) + "\n"
