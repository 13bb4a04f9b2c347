"""``lacuner convert``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from lacuner.cli.console import number_of, print_json, say, track
from lacuner.cli.help import DATA, OUTPUT
from lacuner.cli.options import Json, Strict, check_inputs, refuse_mixing
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.files import STANDARD_INPUT, ReadingReport, refuse_overwriting
from lacuner.corpus.formats.registry import writable_format
from lacuner.errors import DataError


def convert(
    data: Annotated[
        Path, typer.Argument(metavar="IN", help="Annotated data; - is standard input.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file or folder; - is standard output.", show_default=False)
    ],
    from_format: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Format of IN.", show_default="from the name of IN"),
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="Format of OUT.", show_default="from the name of OUT"),
    ] = None,
    split: Annotated[
        Literal["words", "whitespace", "characters", "single-characters"],
        typer.Option(
            metavar="CHOICE",
            help="Split raw text into `words`, at `whitespace`, into `characters` (adjacent letters and "
            "digits form one word), or into `single-characters`.",
            rich_help_panel=DATA,
        ),
    ] = "words",
    scheme: Annotated[
        Literal["io", "iob1", "bio2", "bioes", "bmes", "bilou"],
        typer.Option(metavar="NAME", help="Tagging scheme, if OUT is a column file.", rich_help_panel=OUTPUT),
    ] = "bio2",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Convert annotated data to another format. Warns about anything the format cannot store.

    Inputs of any size are streamed, if the format allows it.

    Example: `lacuner convert export.json data.conll --from doccano`
    """
    refuse_mixing(out, json, "OUT")
    check_inputs([data])
    refuse_overwriting(out, {"its own input": [data]}, "OUT")
    writable_format(out, to_format)
    report = ReadingReport(strict=strict, format_option="--from")
    counts = {"sentences": 0, "entities": 0}

    def counted() -> Iterator[Sentence]:
        for sentence in stream_sentences(data, from_format, report, split=split):
            counts["sentences"] += 1
            counts["entities"] += len(sentence.entities)
            yield sentence
        if not counts["sentences"]:
            report.log()
            raise DataError("it contains no sentences", "check the file and its format (--from)", data)

    losses = write_sentences(track(counted(), "sentences"), out, to_format, scheme)
    report.log()
    if json:
        print_json(counts | {"losses": dict(losses), "repairs": dict(report.counts)})
    else:
        where = "standard output" if str(out) == STANDARD_INPUT else out
        say(f"{where}: {number_of(counts['sentences'], 'sentence')} with {number_of(counts['entities'], 'entity')}.")
