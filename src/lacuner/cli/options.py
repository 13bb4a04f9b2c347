"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from lacuner.corpus.corpus import Format

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse broken tags and the like instead of mending them.")]
DataFormat = Annotated[Format | None, typer.Option("--format", help="Format of the data, if its ending does not tell.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …", show_default="a GPU if there is one")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.", show_default=False)]
