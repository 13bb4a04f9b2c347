"""``lacuner predict``."""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lacuner.cli.console import say, terminal_colors, track
from lacuner.cli.help import DATA, OUTPUT, RUNNING
from lacuner.cli.inputs import is_waited_for, sort_inputs
from lacuner.cli.options import (
    Device,
    DictionaryFile,
    Engine,
    IgnoreCase,
    InputFormat,
    MinScore,
    ModelPath,
    NamesLabel,
    read_dictionary,
)
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import STANDARD_INPUT, name_of, refuse_overwriting
from lacuner.corpus.formats.registry import format_of
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.inference.files import Predictor
    from lacuner.inference.output import OutputFormat, PredictionInput
    from lacuner.matching.dictionary import Dictionary
    from lacuner.recognizer import Recognizer


def predict(
    model: ModelPath,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="A text in quotes; files of raw text (one text per line), or annotated ones such as .conll and .jsonl; "
            "- is standard input, which is read if there is no INPUT.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="A text to search, whatever it looks like. Can be repeated.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File to write, such as x.jsonl or x.html; - is standard output."
        ),
    ] = Path("-"),
    format: Annotated[
        Literal["jsonl", "conll", "html", "text"] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format of the output: jsonl, conll, html (a page to read), or text (with brackets around entities).",
            show_default="from the name of --out; text in a terminal; jsonl otherwise",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    input_format: InputFormat = None,
    nested: Annotated[
        bool,
        typer.Option("--nested", help="Also output entities that overlap more probable ones.", rich_help_panel=OUTPUT),
    ] = False,
    min_score: MinScore = 0.0,
    dictionary: DictionaryFile = None,
    label: NamesLabel = None,
    ignore_case: IgnoreCase = False,
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes; each loads the model, and they share the cores.", rich_help_panel=RUNNING),
    ] = 1,
    engine: Engine = "local",
    device: Device = None,
) -> None:
    """Find entities in text. Inputs of any size are streamed.

    Offsets count characters if the input is raw text, and tokens if the input is tokenized. With --dictionary, every name
    of the list is an entity, unless the model finds a longer one around it; for the rest the model decides.

    Example: `lacuner predict model news.txt --out entities.jsonl`, or `lacuner predict model "Ada moved to Turin."`
    """
    from lacuner.inference.files import predict_stream
    from lacuner.inference.output import OutputOptions
    from lacuner.streams.engine import make_engine

    chosen = format or _format_of(out)
    if nested and chosen == "conll":
        raise ConfigError("--nested: tags cannot hold entities that overlap — use --format jsonl")
    given = sort_inputs(inputs or (), texts or ())
    files = [item for item in given if isinstance(item, Path)]
    refuse_overwriting(out, {"an input": files, "a file of the model": [model], "the dictionary": [dictionary]})
    names = read_dictionary(dictionary, ignore_case, label=label)
    load, pool = partial(_load, model, device, names, ignore_case), make_engine(engine, workers, "spawn")
    output = OutputOptions(chosen, _title(given), terminal_colors() if str(out) == STANDARD_INPUT else None)
    shown = str(out) == STANDARD_INPUT and sys.stdout.isatty()
    read = _read(given, input_format)
    with open_for_writing(out) as file:
        # A bar would run into the answers.
        counted = read if shown else track(read, "texts")
        report = predict_stream(load, counted, file, output, pool, nested, min_score, is_waited_for(given))
    listed = "" if names is None else f", {report.from_dictionary:,} of them from the dictionary"
    say(f"{report.entities:,} entities in {report.texts:,} texts{listed}.")
    if report.without_words:
        say(f"warning: {report.without_words:,} texts have no words, which columns cannot show; they are left out.")
    if report.with_fields:
        say(f"warning: {report.with_fields:,} records have other fields, which {chosen} does not show; jsonl has them.")


def _format_of(out: Path) -> "OutputFormat":
    if str(out) == STANDARD_INPUT:
        return "text" if sys.stdout.isatty() else "jsonl"
    if name_of(out).endswith((".html", ".htm")):
        return "html"
    name = format_of(out).name
    if name not in ("jsonl", "conll"):
        raise ConfigError(f"predictions cannot be written as {name} — choose --format jsonl, conll, html or text")
    return "conll" if name == "conll" else "jsonl"


def _title(given: Sequence[Path | str]) -> str:
    """What a page is called."""
    names = [item.name for item in given if isinstance(item, Path) and str(item) != STANDARD_INPUT]
    more = f" and {len(names) - 3} more files" if len(names) > 3 else ""
    return f"Entities in {', '.join(names[:3])}{more}" if names else "Entities"


def _read(given: Sequence[Path | str], input_format: str | None) -> "Iterator[PredictionInput]":
    from lacuner.inference.files import read_inputs
    from lacuner.inference.output import PredictionInput

    for item in given:
        if isinstance(item, str):
            yield PredictionInput(item, {"text": item})
        else:
            yield from read_inputs(item, input_format)


def _load(model: Path, device: str | None, names: "Dictionary | None", ignore_case: bool) -> "Predictor":
    from lacuner.recognizer import Recognizer

    recognizer = Recognizer.from_pretrained(str(model), device)  # a folder, or a name on the hub
    return recognizer if names is None else _WithDictionary(recognizer, names, ignore_case)


class _WithDictionary:
    """A model and a list that is searched as well; built once in each worker."""

    def __init__(self, recognizer: "Recognizer", names: "Dictionary", ignore_case: bool) -> None:
        from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS
        from lacuner.matching.matcher import Matcher

        self.split = recognizer.split
        self.labels = sorted({*recognizer.labels, *names.labels})
        self._recognizer = recognizer
        self._matcher = Matcher(names, ignore_case, characters=recognizer.split in CHARACTER_SPLITTINGS)

    def predict(self, text: Any, *, nested: bool = False, min_score: float = 0.0) -> Any:
        return self._recognizer.predict(text, nested=nested, min_score=min_score, dictionary=self._matcher)
