"""``lacuner analyse``: the quantities that the papers define."""

import typer

from lacuner.cli.analyse.bound import bound
from lacuner.cli.analyse.missampling import missampling
from lacuner.cli.analyse.o_values import o_values
from lacuner.cli.analyse.sparsity import sparsity
from lacuner.cli.analyse.uncertainty import uncertainty
from lacuner.cli.help import Verb, Verbs

analyse = typer.Typer(
    name="analyse",
    help="Compute the quantities defined in the papers, as tables and figures.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    cls=Verbs,
)
for command in (missampling, uncertainty, o_values, bound, sparsity):
    analyse.command(command.__name__.replace("_", "-"), cls=Verb)(command)

__all__ = ["analyse"]
