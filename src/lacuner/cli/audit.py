"""``lacuner audit``."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import number_of, print_json, say
from lacuner.cli.help import TRAINING
from lacuner.cli.options import DataFormat, Device, Encoder, Epochs, Json, Set, Strict

if TYPE_CHECKING:
    from lacuner.audit.audit import Audit


def audit(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Annotated data.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Output folder.", show_default=False)],
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of folds. Each fold is scored by a model trained on the others.",
            show_default="3",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Training method for these models.", show_default="lacuner", rich_help_panel=TRAINING
        ),
    ] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed for folds and training.", rich_help_panel=TRAINING)
    ] = None,
    settings: Set = None,
    recognizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Score with this trained model instead of training new ones. It must not have been trained "
            "on the data.",
            show_default=False,
        ),
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="P",
            help="Leave out findings with a lower probability. The default is 0.1, or less if that would "
            "leave fewer findings than the estimated number of missing entities.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Train up to N fold models at a time. The findings are the same.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Find entities that were probably missed and labels that are probably wrong.

    To resume an interrupted audit, run the same command again.

    Example: `lacuner audit train.conll --out audit`
    """
    from lacuner.audit.audit import audit_corpus, check_decisions, check_folder, claimed, remove_unfinished_work
    from lacuner.audit.folder import hash_of_files
    from lacuner.cli.progress import TerminalObserver
    from lacuner.corpus import Corpus
    from lacuner.corpus.corpus import merge
    from lacuner.corpus.files import STANDARD_INPUT
    from lacuner.errors import ConfigError
    from lacuner.recognizer import Recognizer
    from lacuner.training.settings import parse_assignments, resolve_settings

    if any(str(path) == STANDARD_INPUT for path in data):
        raise ConfigError(
            "an audit reads files, because a review must detect whether they have changed — save the data to a file first"
        )
    check_folder(out, data)
    overrides: dict[str, Any] = parse_assignments(settings or ())
    given = {"training.epochs": epochs, "training.seed": seed}
    overrides |= {key: value for key, value in given.items() if value is not None}
    if recognizer is not None and (folds, method, encoder, *overrides) != (None, None, None):
        raise ConfigError(
            "--recognizer is already trained; leave out --folds, --method, --encoder, --epochs, --seed and --set"
        )
    judge = (
        resolve_settings(method or "lacuner", encoder, overrides)
        if recognizer is None
        else Recognizer.from_pretrained(str(recognizer))
    )
    corpus = merge(Corpus.read(path, data_format, strict) for path in data)
    files = [str(path.absolute()) for path in data]
    about = {"corpus": ", ".join(map(str, data)), "files": files, "hash": hash_of_files(data)}
    with claimed(out):
        try:
            found = audit_corpus(corpus, judge, folds or 3, min_probability, out, about, TerminalObserver, workers)
        except KeyboardInterrupt:
            say("Interrupted. Run the same command again to resume.")
            raise
        check_decisions(out)  # somebody may have gone on with a review meanwhile
        found.write(out)
        remove_unfinished_work(out)
    if json:
        summary = found.summary()
        print_json(
            {"findings": summary["findings"], "estimated_missing": summary["estimated_missing"], "out": str(out)}
        )
        return
    _show(found, out)


def _show(found: "Audit", out: Path) -> None:
    from lacuner.corpus import Source

    estimate = found.estimate
    sources = Counter(entity.source for sentence in found.corpus for entity in sentence.entities)
    interval = "at least – at most" if estimate.at_least else "95 % interval"
    print(f"{'label':<12} annotated  missing  {interval}")
    for label, (total, low, high) in estimate.labels.items():
        known = sum(entity.label == label for sentence in found.corpus for entity in sentence.entities)
        print(f"{label:<12} {known:>9,}  {total:>7,.0f}  {low:,.0f} – {high:,.0f}")
    print(
        f"{'all':<12} {found.about['entities']:>9,}  {estimate.total:>7,.0f}  {estimate.low:,.0f} – {estimate.high:,.0f}"
    )
    for caveat in found.caveats:
        say(caveat)
    if estimate.at_least:
        say(
            "Most of the missing entities are names that are annotated nowhere, as in labels from a dictionary. They may be "
            "harder to find than names in the dictionary, so the true number may be higher."
        )
    elif 2 * sources[Source.DICTIONARY] > sources.total():
        say(
            "The estimate counts entities missed at random; a dictionary misses the same names everywhere, so expect more."
        )
    is_there = "is" if len(found.findings) == 1 else "are"
    say(f"\n{number_of(len(found.findings), 'finding')} {is_there} in {out}; open {out / 'report.html'} to read them.")
