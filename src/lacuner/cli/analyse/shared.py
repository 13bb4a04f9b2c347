"""What the commands of ``lacuner analyse`` share: options, reading, figures, progress."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import say, stop_bars
from lacuner.cli.options import DataFormat
from lacuner.corpus import Corpus
from lacuner.corpus.tokenize import Splitting
from lacuner.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lacuner.analysis.hidden import SpanSet
    from lacuner.cli.progress import TerminalObserver
    from lacuner.training.settings import RunSettings

Train = Annotated[
    Path, typer.Argument(metavar="TRAIN", help="Training data with missing annotations.", show_default=False)
]
Gold = Annotated[
    Path | None,
    typer.Option(
        help="Complete annotation of the same sentences. Its entities whose spans are unlabeled in TRAIN "
        "count as hidden.",
        show_default=False,
    ),
]
Hidden = Annotated[
    Path | None,
    typer.Option(
        help="File of hidden entities, as written by `lacuner mask --hidden`. Replaces --gold.", show_default=False
    ),
]
FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--figure", metavar="FILE", help="Draw a figure and save it as a .png or .svg file.", show_default=False
    ),
]
MinCount = Annotated[
    int, typer.Option(min=1, help="Leave out sentence lengths with fewer sentences than this, as the paper does.")
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds", "--seed", metavar="N,N,…", help="Random seeds; the experiment is repeated with each of them."
    ),
]


def frequent_only(rows: Sequence[Any], min_count: int, path: Path) -> list[Any]:
    """The rows with at least so many sentences; says how many are left out."""
    if not rows:
        raise DataError("the file contains no sentences", "give a file with annotated sentences", path)
    kept = [row for row in rows if row.sentences >= min_count]
    if not kept:
        highest = max(row.sentences for row in rows)
        what = f"no length has {min_count} sentences; the most frequent one has {highest}"
        raise DataError(what, f"lower it with --min-count {highest}", path)
    if len(kept) < len(rows):
        say(
            f"{len(rows) - len(kept)} lengths with fewer than {min_count} sentences are left out (--min-count 1 shows them)."
        )
    return kept


def parse_seeds(text: str) -> list[int]:
    """``"1,2,3"`` as numbers, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f"--seeds {text}: write whole numbers with commas between them, such as 1,2,3")
    return list(dict.fromkeys(map(int, parts)))


def overrides_of(settings: list[str] | None, epochs: int | None, seed: int | None) -> dict[str, Any]:
    """What ``--set``, ``--epochs`` and ``--seed`` change."""
    from lacuner.training.settings import parse_assignments

    given = {"training.epochs": epochs, "training.seed": seed}
    return parse_assignments(settings or ()) | {key: value for key, value in given.items() if value is not None}


def resolve(method: str, encoder: str | None, overrides: dict[str, Any]) -> "RunSettings":
    """Settings of a run; what is wrong with them is said with the method's name."""
    from lacuner.training.settings import resolve_settings

    try:
        return resolve_settings(method, encoder, overrides)
    except ConfigError as error:
        raise ConfigError(f"{method}: {error}") from None


def read_corpus(path: Path, data_format: DataFormat, strict: bool, settings: "RunSettings") -> Corpus:
    """A corpus, raw text in it split as the settings say."""
    split: Splitting = "words" if settings.split == "auto" else settings.split
    return Corpus.read(path, data_format, strict, split)


def read_train(
    data: Path, gold: Path | None, hidden: Path | None, data_format: DataFormat, strict: bool, settings: "RunSettings"
) -> "tuple[Corpus, list[SpanSet]]":
    """The training data, and what each of its sentences lacks."""
    from lacuner.analysis.hidden import hidden_against_gold, read_hidden

    if (gold is None) == (hidden is None):
        raise ConfigError("which entities are hidden? Give either --gold GOLD or --hidden FILE")
    train = read_corpus(data, data_format, strict, settings)
    if gold is not None:
        return train, hidden_against_gold(train, read_corpus(gold, data_format, strict, settings), gold)
    assert hidden is not None
    return train, read_hidden(hidden, train)


def check_figure(path: Path | None) -> None:
    """Refuse a figure that cannot be drawn before anything is computed."""
    if path is not None:
        from lacuner.analysis.figures import check_figure_path

        check_figure_path(path)


def draw(path: Path | None, make: "Callable[[Any], Figure]") -> None:
    """Write the figure that ``make`` makes with the module of figures, if one is wanted."""
    if path is not None:
        from lacuner.analysis import figures

        figures.save_figure(make(figures), path)
        say(f"The figure is in {path}.")


class Progress:
    """Makes observers that show the progress of training, and removes their bars however it ended.

    Args:
        before: put before every title.
    """

    def __init__(self, before: str = "") -> None:
        self._before = before

    def __enter__(self) -> "Progress":
        return self

    def __call__(self, title: str) -> "TerminalObserver":
        from lacuner.cli.progress import TerminalObserver

        return TerminalObserver(f"{self._before}{title:<8}")

    def __exit__(self, *_: object) -> None:
        stop_bars()
