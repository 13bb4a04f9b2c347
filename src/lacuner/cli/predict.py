"""``lacuner predict``."""

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lacuner.cli.console import say, track
from lacuner.cli.help import OUTPUT, RUNNING
from lacuner.cli.options import (
    Device,
    DictionaryFile,
    Engine,
    IgnoreCase,
    InputFormat,
    MinScore,
    ModelPath,
    NamesLabel,
    Texts,
    check_inputs,
    read_dictionary,
)
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import STANDARD_INPUT, refuse_overwriting
from lacuner.corpus.formats.registry import format_of
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.inference.files import Predictor
    from lacuner.matching.dictionary import Dictionary
    from lacuner.recognizer import Recognizer


def predict(
    model: ModelPath,
    inputs: Texts,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; - is standard output.")
    ] = Path("-"),
    format: Annotated[
        Literal["jsonl", "conll"] | None,
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

    Example: `lacuner predict model news.txt --out entities.jsonl`
    """
    from lacuner.inference.files import predict_stream, read_inputs
    from lacuner.streams.engine import make_engine

    chosen = format or _format_of(out)
    if nested and chosen == "conll":
        raise ConfigError("--nested: tags cannot hold entities that overlap — use --format jsonl")
    check_inputs(inputs)
    refuse_overwriting(out, {"an input": inputs, "a file of the model": [model], "the dictionary": [dictionary]})
    names = read_dictionary(dictionary, ignore_case, label=label)
    texts = chain.from_iterable(read_inputs(path, input_format) for path in inputs)
    load, pool = partial(_load, model, device, names, ignore_case), make_engine(engine, workers, "spawn")
    with open_for_writing(out) as file:
        report = predict_stream(load, track(texts, "texts"), file, chosen, pool, nested, min_score)
    listed = "" if names is None else f", {report.from_dictionary:,} of them from the dictionary"
    say(f"{report.entities:,} entities in {report.texts:,} texts{listed}.")
    if report.without_words:
        say(f"warning: {report.without_words:,} texts have no words, which columns cannot show; they are left out.")


def _format_of(out: Path) -> Literal["jsonl", "conll"]:
    name = "jsonl" if str(out) == STANDARD_INPUT else format_of(out).name
    if name not in ("jsonl", "conll"):
        raise ConfigError(f"predictions cannot be written as {name} — choose --format jsonl or conll")
    return "conll" if name == "conll" else "jsonl"


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
        self._recognizer = recognizer
        self._matcher = Matcher(names, ignore_case, characters=recognizer.split in CHARACTER_SPLITTINGS)

    def predict(self, text: Any, *, nested: bool = False, min_score: float = 0.0) -> Any:
        return self._recognizer.predict(text, nested=nested, min_score=min_score, dictionary=self._matcher)
