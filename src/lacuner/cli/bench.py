"""``lacuner bench``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.bench_data import data as bench_data
from lacuner.cli.console import print_json, say
from lacuner.cli.help import Verb, Verbs
from lacuner.cli.options import Address, Device, Engine, Json

if TYPE_CHECKING:
    from lacuner.bench.results import Results
    from lacuner.bench.runs import Run


class _RunUnlessNamed(Verbs):
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
    help="Run benchmark recipes, which reproduce the tables and figures of the papers.\n\n`lacuner bench "
    "RECIPE` is short for `lacuner bench run RECIPE`.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

PART = "Part of the recipe"
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Also draw figures (requires matplotlib).")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Output folder for the results.", show_default="bench/RECIPE")
]


@bench.command(cls=Verb)
def run(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="Recipe name (see `lacuner bench list`) or TOML file.", show_default=False
        ),
    ],
    profile: Annotated[
        str,
        typer.Option(
            help="quick (minutes, built-in sample), standard (hours to days), transformer (standard with a "
            "pretrained encoder), or full (as in the papers)."
        ),
    ] = "standard",
    out: Out = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of runs at a time.", show_default="one per core")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    device: Device = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            help="results.jsonl of another benchmark, whose results are reused. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that contains the datasets.", envvar="LACUNER_DATA", show_default=False)
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…",
            help="Only run these datasets or table columns.",
            show_default=False,
            rich_help_panel=PART,
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…",
            help="Only run these methods, named as in the recipe.",
            show_default=False,
            rich_help_panel=PART,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,M", help="Only run these seeds.", show_default=False, rich_help_panel=PART),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the recipe, show what would be run, and exit.")
    ] = False,
    figures: Figures = True,
    json: Json = False,
) -> None:
    """Train all models of a recipe and write a report.

    Finished runs are not repeated, so the same command resumes after an interruption. You can run a recipe in several parts
    with the same output folder; the report covers everything finished so far.

    Example: `lacuner bench distant --profile quick --out results`
    """
    from lacuner.bench.figures import check_drawing
    from lacuner.bench.folder import cached_results, locked, read_results
    from lacuner.bench.path_templates import PathTemplates
    from lacuner.bench.planning import build_runs, check_encoders, check_runs
    from lacuner.bench.recipe import error_context, find_recipe, read_recipe, recipe_name
    from lacuner.bench.report import write_report
    from lacuner.bench.results import Results, Title
    from lacuner.bench.runner import engine_for, execute_runs
    from lacuner.bench.selection import Selection, parse_seeds
    from lacuner.cli.bench_progress import BenchProgress

    path = find_recipe(recipe)
    paths, content = PathTemplates(data), read_recipe(path, profile)
    say(f"{content.title}: checking recipe and data …")
    elsewhere = [result for file in reuse or () for result in read_results(file)]
    with error_context(path):
        runs = build_runs(content, paths)
    chosen = Selection(tuple(datasets or ()), tuple(methods or ()), parse_seeds(seeds) if seeds else ()).of(runs)
    with error_context(path):
        check_runs(chosen, paths)
    title = Title(recipe_name(path), profile, content, len(runs))
    folder = out or Path("bench", path.stem)
    if dry_run:
        _show_plan(chosen, json)
        return
    if figures:
        check_drawing()
    observer = BenchProgress(title)
    try:
        with observer, locked(folder):
            known = cached_results(runs, folder, elsewhere)
            missing = [run for run in chosen if run.key not in known]
            with error_context(path):
                check_encoders(missing, paths)
            title.write(folder)
            pool = engine_for(runs, workers, engine, address)
            outcome = execute_runs(runs, folder, paths, known, pool, observer, chosen, device)
    except KeyboardInterrupt:
        say(f"Stopped. {observer.count} runs are done; run the same command again to resume.")
        raise
    results = Results.of(title, outcome.records(runs), outcome.failures)
    written = write_report(results, folder, figures)
    _conclude(results, written, json)
    failed = [reason for key, reason in outcome.failures.items() if key in {run.key for run in chosen}]
    for reason in failed:
        say(f"failed: {reason}")
    if failed:
        raise typer.Exit(1)


@bench.command(cls=Verb)
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder written by `lacuner bench run`.", show_default=False)
    ],
    figures: Figures = True,
    json: Json = False,
) -> None:
    """Write the report again from `results.jsonl`, without training.

    Example: `lacuner bench report results`
    """
    from lacuner.bench.folder import RESULTS, read_failures, read_results
    from lacuner.bench.report import write_report
    from lacuner.bench.results import Results, Title

    results = Results.of(Title.read(folder), read_results(folder / RESULTS), read_failures(folder))
    _conclude(results, write_report(results, folder, figures), json)


@bench.command(cls=Verb)
def tables(
    pages: Annotated[
        list[Path], typer.Argument(metavar="PAGE...", help="Markdown files to update.", show_default=False)
    ],
) -> None:
    """Update the tables in Markdown files from benchmark results.

    Each F1 table follows a comment that lists the result folders, optionally the columns, and the methods as rows:
    `<!-- lacuner bench: results/masked results/distant; columns: conll03 0.5, ec; full; uniform -->`.

    Example: `lacuner bench tables README.md`
    """
    from lacuner.bench.pages import renew_tables

    for page in pages:
        count = renew_tables(page)
        say(f"{page}: {count} table{'s' * (count != 1)} updated.")


@bench.command("list", cls=Verb)
def list_recipes(json: Json = False) -> None:
    """List the recipes included in Lacuner.

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


bench.command("data", cls=Verb)(bench_data)


def _show_plan(runs: "Sequence[Run]", json: bool) -> None:
    if json:
        print_json([run.as_dict() for run in runs])
        return
    for run in runs:
        print(f"{run.key}  {run}")
    different = len({run.key for run in runs})
    say(f"{len(runs)} runs" + (f", {different} of them different" if different < len(runs) else ""))


def _conclude(results: "Results", written: Path, json: bool) -> None:
    from lacuner.bench.report import headline
    from lacuner.bench.results import summary

    if json:
        print_json({"report": str(written), "failed": len(results.failures), **summary(results)})
        return
    print(headline(results))
    say(f"\nThe report is in {written}.")
