"""Options that several verbs share."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.help import DATA, MATCHING, OUTPUT, RUNNING, TRAINING
from lacuner.corpus.files import STANDARD_INPUT
from lacuner.corpus.statistics import labels_alike
from lacuner.errors import ConfigError, DataError

if TYPE_CHECKING:
    from lacuner.matching.dictionary import Dictionary
    from lacuner.parts import Settings

logger = logging.getLogger(__name__)

Json = Annotated[bool, typer.Option("--json", help="Print the results as one JSON value on standard output.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Treat invalid tags, duplicate entities and similar problems as errors instead of repairing them.",
        rich_help_panel=DATA,
    ),
]
DataFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Data format: conll, jsonl, doccano, prodigy, label_studio, argilla, gliner, answers, or one "
        "added by a plugin.",
        show_default="from the file name",
        rich_help_panel=DATA,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Device to run on: cpu, cuda, cuda:1, mps, …",
        show_default="a GPU if there is one",
        rich_help_panel=RUNNING,
    ),
]
"""The whole command runs there: :class:`~lacuner.cli.help.Verb` sees to it."""
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where the work runs: local (processes on this machine), ray, or an engine added by a plugin.",
        rich_help_panel=RUNNING,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of a running Ray cluster: auto, HOST:6379 or ray://HOST:10001 (with ray[client]).",
        show_default="Ray is started on this machine",
        rich_help_panel=RUNNING,
    ),
]
MergeFile = Annotated[
    Path | None,
    typer.Option(
        "--merge",
        metavar="FILE",
        help="If --out is a folder: also join all parts, in order, into this file.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
ShardSize = Annotated[
    float,
    typer.Option(
        "--shard-size",
        metavar="MB",
        min=0.000001,
        help="Amount of input a worker processes at a time, in MiB.",
        rich_help_panel=RUNNING,
    ),
]
MinScore = Annotated[
    float, typer.Option(min=0, max=1, help="Leave out entities with a lower probability.", rich_help_panel=OUTPUT)
]
ModelPath = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder of a trained model, or its name on the Hugging Face hub.", show_default=False
    ),
]
Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="Raw text (one text per line) or annotated files such as .conll and .jsonl. Can be files, "
        "folders, patterns such as 'data/*.txt.gz', or URLs such as s3://bucket/news.txt; - is standard "
        "input.",
        show_default=False,
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Input format: text (one per line), conll, jsonl, or another data format.",
        show_default="from the file names, or text",
        rich_help_panel=DATA,
    ),
]
DictionaryFile = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        "-d",
        metavar="FILE",
        help="Names to find in addition to the model's entities: one `NAME<TAB>LABEL` per line, .csv, .jsonl "
        "or spaCy patterns.",
        show_default=False,
        rich_help_panel=MATCHING,
    ),
]
NamesLabel = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="LABEL",
        help="Label of all names, if the dictionary contains only names, one per line.",
        show_default=False,
        rich_help_panel=MATCHING,
    ),
]
IgnoreCase = Annotated[
    bool,
    typer.Option(
        "--ignore-case",
        help="Ignore case when matching the dictionary, except for names marked `exact`.",
        rich_help_panel=MATCHING,
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="recurrent, flat, bert-word, lebert, or the name or folder of a Hugging Face encoder.",
        show_default="recurrent",
        rich_help_panel=TRAINING,
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Passes over the training data.", show_default="depends on the encoder", rich_help_panel=TRAINING
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, such as negatives.ratio=0.5. `lacuner methods NAME` lists them. Can be repeated.",
        show_default=False,
        rich_help_panel=TRAINING,
    ),
]

TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="SOURCE=NUMBER",
        help="Voting weight of a source where sources disagree. Can be repeated.",
        show_default="1 each",
        rich_help_panel=DATA,
    ),
]


def parse_trust(given: Iterable[str] | None) -> dict[str, float]:
    """What ``--trust`` says, by source."""
    trust: dict[str, float] = {}
    for item in given or ():
        source, equals, number = item.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            equals = ""
        if not source or not equals:
            raise ConfigError(f"--trust {item}: write SOURCE=NUMBER, such as dictionary=0.5")
        trust[source] = weight
    return trust


def refuse_mixing(out: str | Path | None, json: bool, option: str = "--out") -> None:
    """Refuse to print figures after the data: whatever reads the data would take them for another record."""
    if json and str(out) == STANDARD_INPUT:
        what = f"--json and {option} both write to standard output"
        raise ConfigError(f"{what} — write the data to a file, or leave out --json")


def check_inputs(paths: Iterable[Path]) -> None:
    """Say before the work begins that a file is not there."""
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise DataError("there is no such file", "check the path", path)


def read_names(path: Path, strict: bool = False, label: str | None = None) -> "Dictionary":
    """The names of a list."""
    from lacuner.matching.dictionary import Dictionary

    names = Dictionary.read(path, strict, label)
    for alike in labels_alike(names.labels):
        logger.warning(
            "%s: the labels %s differ only in case; they are treated as different labels.", path, " and ".join(alike)
        )
    return names


def read_dictionary(
    path: Path | None, ignore_case: bool = False, strict: bool = False, label: str | None = None
) -> "Dictionary | None":
    """What ``--dictionary`` names, if anything."""
    if path is not None:
        return read_names(path, strict, label)
    for option, given in (("--ignore-case", ignore_case), ("--label", label is not None)):
        if given:
            raise ConfigError(
                f"{option} applies to the names of a dictionary — give one with --dictionary, or leave it out"
            )
    return None


def files_of(settings: "Settings") -> list[Path]:
    """Files and folders that settings name, such as the folder of an encoder or its word vectors."""
    values = (value for key, value in settings if key != "name" and isinstance(value, str))
    return [Path(value) for value in values if os.path.exists(value)]
