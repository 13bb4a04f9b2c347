"""``lacuner bench data``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import print_json, say
from lacuner.cli.options import Json
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.bench.originals.convert import Outcome
    from lacuner.bench.originals.distribution import Counts, Distribution


def data(
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS", help="Name of the corpus. Without it, all corpora are listed.", show_default=False
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder with clones of the original repositories, side by side.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Output folder.", show_default="LACUNER_DATA/CORPUS"),
    ] = None,
    datasets: Annotated[
        Path | None,
        typer.Option("--data", help="Folder that contains the datasets.", envvar="LACUNER_DATA", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    json: Json = False,
) -> None:
    """Convert the original files of a corpus to the files that recipes read, and count their contents.

    Without CORPUS, list the origin and license of each corpus and which of its files exist.

    Example: `lacuner bench data conll03 --from originals`
    """
    from lacuner.bench.originals.convert import DISTRIBUTIONS, find_distribution
    from lacuner.bench.path_templates import PathTemplates

    if corpus is None:
        if folder is not None or out is not None or force:
            raise ConfigError("--from, --out and --force need the name of a corpus — give it, or leave them out")
        _list(list(DISTRIBUTIONS.values()), PathTemplates(datasets).data, json)
        return
    distribution = find_distribution(corpus)
    if folder is None:
        raise ConfigError(
            "give the folder of the original files with --from FOLDER — lacuner bench data lists what it must contain"
        )
    if out is None:
        if datasets is None:
            raise ConfigError(
                "give an output folder with --out FOLDER, or set LACUNER_DATA to the folder of the datasets"
            )
        out = datasets / corpus
    _convert(distribution, folder, out, force, json)


def _convert(distribution: "Distribution", folder: Path, out: Path, force: bool, json: bool) -> None:
    from lacuner.bench.originals.convert import Status, convert

    say(f"License: {distribution.license}.")
    outcomes = []
    for outcome in convert(distribution, folder, out, force):
        outcomes.append(outcome)
        if not json:
            print(_line(outcome), flush=True)
    if json:
        print_json([_as_dict(outcome) for outcome in outcomes])
    there = sum(outcome.status in (Status.MADE, Status.KEPT) for outcome in outcomes)
    kept = sum(outcome.status is Status.KEPT for outcome in outcomes)
    say(
        f"{there} of {len(outcomes)} files are in {out}"
        + (f", {kept} of them unchanged; --force overwrites them." if kept else ".")
    )
    if not there or any(outcome.differences or outcome.status is Status.FAILED for outcome in outcomes):
        raise typer.Exit(1)


def _line(outcome: "Outcome") -> str:
    facts = [_described(outcome.counts), outcome.reason, *outcome.differences]
    return f"{outcome.status:<8} {outcome.target.name:<22} {'; '.join(filter(None, facts))}"


def _described(counts: "Counts") -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def _as_dict(outcome: "Outcome") -> dict[str, Any]:
    return {
        "file": outcome.target.name,
        "status": outcome.status,
        "counts": dict(outcome.counts),
        "expected": dict(outcome.target.expected),
        "reason": outcome.reason or None,
    }


def _list(distributions: "list[Distribution]", datasets: Path, json: bool) -> None:
    present = {
        one.name: {t.name: (datasets / one.name / t.name).is_file() for t in one.targets} for one in distributions
    }
    if json:
        print_json([_distribution_as_dict(one, present[one.name]) for one in distributions])
        return
    for one in distributions:
        files = present[one.name]
        print(f"{one.name}: {one.language}, {one.about}")
        print(f"  labels   {' '.join(one.labels)}")
        print(f"  license  {one.license}")
        for repository in one.repositories:
            print(f"  from     {repository.url} ({repository.commit}; license: {repository.license})")
        print(f"  files    {sum(files.values())} of {len(files)} in {datasets / one.name}", end="")
        absent = [name for name, there in files.items() if not there]
        print(f"; missing: {' '.join(absent)}\n" if absent and any(files.values()) else "\n")
    say("lacuner bench data CORPUS --from FOLDER creates the files; docs/corpora.md describes each corpus.")


def _distribution_as_dict(distribution: "Distribution", files: dict[str, bool]) -> dict[str, Any]:
    return {
        "name": distribution.name,
        "about": distribution.about,
        "language": distribution.language,
        "labels": list(distribution.labels),
        "license": distribution.license,
        "repositories": [
            {"url": one.url, "commit": one.commit, "license": one.license} for one in distribution.repositories
        ],
        "files": files,
    }
