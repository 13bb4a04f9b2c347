"""``lacuner predict``."""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lacuner.cli.console import number_of, say, terminal_colors, track
from lacuner.cli.help import DATA, OUTPUT, RUNNING
from lacuner.cli.inputs import Url, files_of_inputs, is_waited_for, sort_inputs
from lacuner.cli.options import (
    Address,
    Device,
    DictionaryFile,
    Engine,
    IgnoreCase,
    InputFormat,
    MergeFile,
    MinScore,
    ModelPath,
    NamesLabel,
    ShardSize,
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
            help="A text in quotes, or files: raw text (one text per line) or annotated, such as .conll and "
            ".jsonl. Can also be folders, patterns such as 'data/*.txt.gz', or URLs; - is standard "
            "input, the default.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="Text to process, even if it looks like a file name. Can be repeated.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Output file, such as x.jsonl or x.html; - is standard output. FOLDER/ writes one file per "
            "shard of the input, so that an interrupted command can be resumed.",
        ),
    ] = "-",
    format: Annotated[
        Literal["jsonl", "conll", "html", "text"] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Output format: jsonl, conll, html (a page to read), or text (with brackets around entities).",
            show_default="from the name of --out, else text in a terminal and jsonl elsewhere",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    input_format: InputFormat = None,
    nested: Annotated[
        bool,
        typer.Option("--nested", help="Also output entities that overlap higher-scoring ones.", rich_help_panel=OUTPUT),
    ] = False,
    min_score: MinScore = 0.0,
    dictionary: DictionaryFile = None,
    label: NamesLabel = None,
    ignore_case: IgnoreCase = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of processes. Each loads the model, and they share the cores.",
            show_default="1, or one per core of a Ray cluster",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    shard_size: ShardSize = 16,
    merge: MergeFile = None,
    device: Device = None,
) -> None:
    """Find entities in text. Inputs of any size are streamed.

    Offsets are in characters if the input is raw text, and in tokens if it is tokenized. With --dictionary, every listed name
    is an entity unless the model finds a longer one around it; everywhere else the model decides.

    Example: `lacuner predict model news.txt --out entities.jsonl`, or `lacuner predict model "Ada moved to Turin."`
    """
    from lacuner.cli.parts import (
        bytes_of_shard,
        check_inputs,
        check_output,
        exit_unless,
        is_folder,
        make_parts,
        plan_parts,
    )
    from lacuner.hub import find_model_folder
    from lacuner.inference.files import ShardPredictor, predict_stream
    from lacuner.inference.output import OutputOptions, PredictionReport
    from lacuner.streams.engine import make_engine
    from lacuner.streams.fingerprints import digest_of

    check_output(out, merge)
    in_parts = is_folder(out)
    chosen = format or _format_of(str(merge) if merge else "parts.jsonl" if in_parts else out)
    if nested and chosen == "conll":
        raise ConfigError("--nested: tags cannot represent overlapping entities — use --format jsonl")
    if in_parts and chosen == "html":
        raise ConfigError("a page cannot be written in parts — use --format jsonl, or write one file: --out x.html")
    given = sort_inputs(inputs or (), texts or ())
    files = files_of_inputs(given)
    read: dict[str, Sequence[str | Path | None]] = {
        "an input": files,
        "a file of the model": [model],
        "the dictionary": [dictionary],
    }
    for option, path in (("--out", out), ("--merge", merge)):
        if path is not None:
            refuse_overwriting(path, read, option)
    names = read_dictionary(dictionary, ignore_case, label=label)
    load = partial(_load, model, device, names, ignore_case)
    pool = make_engine(engine, workers or (None if address else 1), "spawn", address)
    done = True
    if in_parts:
        if len(files) < len(given):
            raise ConfigError(
                "a text on the command line cannot be split into shards — write it to a file, or leave out the / of --out"
            )
        suffix = f".{'txt' if chosen == 'text' else chosen}"
        check_inputs(inputs or (), out, merge, suffix)
        report = PredictionReport()
        options = {"nested": nested, "min_score": min_score, "label": label, "ignore_case": ignore_case}
        digests = {"model": digest_of(find_model_folder(str(model))), "dictionary": digest_of(dictionary)}
        made_with = {"command": "predict", **digests, **options}
        plan = plan_parts(files, made_with, shard_size, input_format, suffix)
        work = ShardPredictor(load, OutputOptions(chosen), input_format, nested, min_score)

        def add(content: dict[str, Any]) -> int:
            report.add(PredictionReport.from_dict(content))
            return int(content["texts"])

        done = make_parts(pool, work, plan, out, merge, add, report.as_dict)
    else:
        output = OutputOptions(chosen, _title(given), terminal_colors() if out == STANDARD_INPUT else None)
        shown = out == STANDARD_INPUT and sys.stdout.isatty()
        searched = _read(given, input_format, bytes_of_shard(shard_size))
        with open_for_writing(out) as file:
            # A bar would run into the answers.
            counted = searched if shown else track(searched, "texts")
            report = predict_stream(load, counted, file, output, pool, nested, min_score, is_waited_for(given))
    listed = "" if names is None else f", {report.from_dictionary:,} of them from the dictionary"
    say(f"{number_of(report.entities, 'entity')} in {number_of(report.texts, 'text')}{listed}.")
    if report.without_words:
        say(f"warning: {report.without_words:,} texts without words are left out, because columns cannot show them.")
    if report.with_fields:
        say(f"warning: {report.with_fields:,} records have other fields, which {chosen} does not contain; jsonl does.")
    exit_unless(done)


def _format_of(out: str) -> "OutputFormat":
    if out == STANDARD_INPUT:
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


def _read(given: Sequence[Path | str], input_format: str | None, size: int) -> "Iterator[PredictionInput | None]":
    """What is to be searched; files in the same batches in which workers would search them."""
    from lacuner.inference.files import read_batches, read_inputs
    from lacuner.inference.output import PredictionInput
    from lacuner.streams.inputs import with_states
    from lacuner.streams.shards import cut_all, group_shards

    files = files_of_inputs(given)
    if len(files) == len(given) and all(map(_can_be_cut, files)):
        yield from read_batches(group_shards(cut_all(with_states(files), size, input_format), size), input_format)
        return
    for item in given:
        if isinstance(item, Path | Url):
            yield from read_inputs(item, input_format)
        else:
            yield PredictionInput(str(item), {"text": str(item)})


def _can_be_cut(file: Path | str) -> bool:
    return isinstance(file, str) or (str(file) != STANDARD_INPUT and file.is_file())


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
