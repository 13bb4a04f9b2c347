"""``lacuner bench``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lacuner.cli.console import print_json, say
from lacuner.cli.options import Json

if TYPE_CHECKING:
    from lacuner.bench.results import Results
    from lacuner.bench.runs import Cell


class _RunUnlessNamed(TyperGroup):
    """``lacuner bench RECIPE`` is short for ``lacuner bench run RECIPE``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench = typer.Typer(
    name="bench",
    cls=_RunUnlessNamed,
    help="Run a recipe: the tables and figures of the papers, made by one command each.\n\n"
    "`lacuner bench RECIPE` is short for `lacuner bench run RECIPE`.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures, too (needs lacuner[plots]).")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the results.", show_default="bench/RECIPE")]


@bench.command()
def run(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A TOML file, or a name: `lacuner bench list`.", show_default=False)
    ],
    profile: Annotated[
        str, typer.Option(help="quick (minutes, built-in sample), standard (hours), full (as in the papers).")
    ] = "standard",
    out: Out = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cells at a time.", show_default="one for each core")
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            help="Another results.jsonl; cells that are in it are not run again. May be repeated.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the datasets.", envvar="LACUNER_DATA", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the recipe, say what would be run, and stop.")
    ] = False,
    figures: Figures = True,
    json: Json = False,
) -> None:
    """Train every cell of a recipe, and report.

    Cells that are done are never run again: the same command goes on where it was stopped.

    Example: `lacuner bench distant --profile quick --out results`
    """
    from lacuner.bench.figures import check_drawing
    from lacuner.bench.planning import check_encoders, plan
    from lacuner.bench.recipe import Places, find_recipe, read_recipe, recipe_name, said_of
    from lacuner.bench.report import write_report
    from lacuner.bench.results import Results, Title
    from lacuner.bench.runner import known_results, locked, read_results, run_cells
    from lacuner.cli.bench_progress import BenchProgress

    path = find_recipe(recipe)
    places, content = Places(data), read_recipe(path, profile)
    say(f"{content.title}: checking recipe and data …")
    elsewhere = [result for file in reuse or () for result in read_results(file)]
    with said_of(path):
        cells = plan(content, places)
    title = Title(recipe_name(path), profile, content, len(cells))
    folder = out or Path("bench", path.stem)
    if dry_run:
        _show_plan(cells, json)
        return
    if figures:
        check_drawing()
    observer = BenchProgress(title)
    try:
        with observer, locked(folder):
            known = known_results(cells, folder, elsewhere)
            with said_of(path):
                check_encoders([cell for cell in cells if cell.key not in known], places)
            title.write(folder)
            outcome = run_cells(cells, folder, places, known, workers, observer)
    except KeyboardInterrupt:
        say(f"Stopped. {observer.count} cells are done; the same command goes on.")
        raise
    results = Results.of(title, outcome.records(cells), outcome.failures)
    written = write_report(results, folder, figures)
    _conclude(results, written, json)
    for reason in outcome.failures.values():
        say(f"failed: {reason}")
    if outcome.failures:
        raise typer.Exit(1)


@bench.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that a bench has written.", show_default=False)],
    figures: Figures = True,
    json: Json = False,
) -> None:
    """Make the report anew from `results.jsonl`, without training.

    Example: `lacuner bench report results`
    """
    from lacuner.bench.report import write_report
    from lacuner.bench.results import Results, Title
    from lacuner.bench.runner import RESULTS, read_failures, read_results

    results = Results.of(Title.read(folder), read_results(folder / RESULTS), read_failures(folder))
    _conclude(results, write_report(results, folder, figures), json)


@bench.command("list")
def list_recipes(json: Json = False) -> None:
    """The recipes that come with Lacuner.

    Example: `lacuner bench list`
    """
    from lacuner.bench.recipe import known_recipes, read_recipe

    titles = {name: read_recipe(path).title for name, path in sorted(known_recipes().items())}
    if json:
        print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}")


def _show_plan(cells: "Sequence[Cell]", json: bool) -> None:
    if json:
        print_json([cell.as_dict() for cell in cells])
        return
    for cell in cells:
        print(f"{cell.key}  {cell}")
    trainings = len({cell.key for cell in cells})
    say(f"{len(cells)} cells" + (f", {trainings} of them different" if trainings < len(cells) else ""))


def _conclude(results: "Results", written: Path, json: bool) -> None:
    from lacuner.bench.report import headline
    from lacuner.bench.results import summary

    if json:
        print_json({"report": str(written), "failed": len(results.failures), **summary(results)})
        return
    print(headline(results))
    say(f"\nThe report is in {written}.")
