"""Options that several verbs share."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.corpus.files import STANDARD_INPUT
from lacuner.errors import DataError

if TYPE_CHECKING:
    from lacuner.parts import Settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse broken tags and the like instead of repairing them.")]
DataFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the data: conll, jsonl, doccano, prodigy, or that of an installed package.",
        show_default="by its ending",
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …", show_default="a GPU if there is one")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.", show_default=False)]
Texts = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...",
        help="Texts (one a line), .conll or .jsonl files; - is standard input.",
        show_default=False,
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Format of the inputs: text (one a line), conll, jsonl, doccano, prodigy, or that of an installed package.",
        show_default="by their endings, or text",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        help="recurrent, flat, bert-word, lebert, or a Hugging Face name or folder.",
        show_default="recurrent",
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the data.", show_default="by encoder")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting, such as negatives.ratio=0.5. May be repeated.",
        show_default=False,
    ),
]


def check_inputs(paths: Iterable[Path]) -> None:
    """Say before the work begins that a file is not there."""
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise DataError("there is no such file", "check the path", path)


def files_of(settings: "Settings") -> list[Path]:
    """Files and folders that settings name, such as the folder of an encoder or its word vectors."""
    values = (value for key, value in settings if key != "name" and isinstance(value, str))
    return [Path(value) for value in values if os.path.exists(value)]
