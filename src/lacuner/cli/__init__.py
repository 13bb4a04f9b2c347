"""The command line: one file a verb."""

import errno
import os
import sys
import traceback
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Annotated

import typer

from lacuner.cli.analyse import analyse
from lacuner.cli.annotate import annotate
from lacuner.cli.audit import audit
from lacuner.cli.bench import bench
from lacuner.cli.console import say, set_up_logging, stop_bars
from lacuner.cli.convert import convert
from lacuner.cli.demo import demo
from lacuner.cli.evaluate import evaluate
from lacuner.cli.export import export
from lacuner.cli.help import Verb, Verbs
from lacuner.cli.inspect import inspect
from lacuner.cli.mask import mask
from lacuner.cli.merge import merge
from lacuner.cli.methods import methods
from lacuner.cli.predict import predict
from lacuner.cli.review import review
from lacuner.cli.serve import serve
from lacuner.cli.split import split
from lacuner.cli.train import train
from lacuner.errors import ConfigError, LacunerError
from lacuner.storage import DISK_ERRORS, WriteError
from lacuner.version import __version__

app = typer.Typer(
    name="lacuner",
    cls=Verbs,
    help="Train named-entity recognizers on incomplete or distantly supervised annotation.\n\nStart with "
    "`lacuner demo`. `lacuner COMMAND --help` shows an example for each command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERBS = {
    "Train and use models": (train, evaluate, predict, serve, export),
    "Make and check data": (annotate, convert, split, merge, inspect, mask, audit, review),
    "Learn more": (demo, methods),
}
for panel, verbs in _VERBS.items():
    for verb in verbs:
        app.command(cls=Verb, rich_help_panel=panel)(verb)
for group in (analyse, bench):
    app.add_typer(group, rich_help_panel="Research")
for point in entry_points(group="lacuner.verbs"):
    try:
        app.command(point.name, cls=Verb, rich_help_panel="From other packages")(point.load())
    except Exception as error:  # somebody else's package must not keep ours from working
        say(f"warning: {point.value} (entry point {point.name!r} of lacuner.verbs) was not loaded: {error}")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lacuner {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback on errors. Can be given anywhere.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the command ``lacuner``: 0 done, 1 failed, 2 wrong usage."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    set_up_logging()
    try:
        try:
            app(prog_name="lacuner")  # also as python -m lacuner
        finally:
            _flush_output()
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            say(_sentence(error))
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    finally:
        stop_bars()


def _sentence(error: Exception) -> str:
    """What the user is told about an error."""
    if isinstance(error, LacunerError):
        return str(error)
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return str(WriteError(error, error.filename or "standard output"))
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return (
            "memory ran out — close other programs, use fewer --workers, or use smaller batches (training.batch_tokens)"
        )
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes} — this is a bug in Lacuner; --debug shows the traceback"


def _flush_output() -> None:
    """Bring what was printed to its reader now: at the end of the process, nobody would be told that it is lost."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            raise
