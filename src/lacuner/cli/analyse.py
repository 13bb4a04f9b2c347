"""``lacuner analyse``: the quantities that the papers define."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus import Corpus, Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.words import Splitting
from lacuner.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lacuner.analysis.bound import BoundRow, SentenceCounts
    from lacuner.analysis.hidden import Places
    from lacuner.analysis.missampling import EpochMissampling
    from lacuner.analysis.o_values import Decision, OValueRun
    from lacuner.analysis.sparsity import SparsityRow
    from lacuner.analysis.uncertainty import UncertaintyRun
    from lacuner.cli.progress import TerminalObserver
    from lacuner.training.settings import RunSettings

logger = logging.getLogger(__name__)

analyse = typer.Typer(
    name="analyse",
    help="The quantities that the papers define, as tables and figures.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_METHODS = ("uniform", "weighted", "top-neg", "nrces")
_SHOWN_LENGTHS = (2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)

Train = Annotated[Path, typer.Argument(metavar="TRAIN", help="Training data with gaps.", show_default=False)]
Data = Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)]
Gold = Annotated[
    Path | None,
    typer.Option(
        help="Complete labels of the same sentences; entities whose span lacks a label are hidden.", show_default=False
    ),
]
Hidden = Annotated[
    Path | None,
    typer.Option(help="Instead of --gold: what was hidden, as `lacuner mask --hidden` writes it.", show_default=False),
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
FigureFile = Annotated[
    Path | None, typer.Option("--figure", metavar="FILE", help="Draw it: a .png or .svg file.", show_default=False)
]
Fewest = Annotated[int, typer.Option(min=1, help="Leave out lengths with fewer sentences, as the paper does.")]


@analyse.command()
def missampling(
    data: Train,
    gold: Gold = None,
    hidden: Hidden = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method to look at. May be repeated.", show_default=", ".join(_METHODS)),
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Data to score after every epoch.", show_default=False)] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same models.")] = 1,
    settings: Set = None,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """How many of the negatives that a method trains on are entities that nobody annotated?

    Trains a model with each method. All epochs run, with --dev, too (`--set training.patience=5` stops early).

    Example: `lacuner analyse missampling masked.conll --hidden hidden.jsonl --dev dev.conll --figure missampling.png`
    """
    from lacuner.analysis.missampling import measure_missampling

    _check_figure(figure)
    overrides = {"training.patience": "none"} | _overrides(settings, epochs, seed)
    runs = {name: _resolve(name, encoder, overrides) for name in dict.fromkeys(method or _METHODS)}
    train, places = _read_train(data, gold, hidden, data_format, strict, next(iter(runs.values())))
    count = sum(map(len, places))
    if not count:
        raise DataError("no entity is hidden", "give data with gaps, and the labels that they lack", data)
    dev_corpus = _read(dev, data_format, strict, next(iter(runs.values()))) if dev else None
    results = {}
    for name, resolved in runs.items():
        with _Progress() as progress:
            results[name] = measure_missampling(train, places, resolved, dev_corpus, progress(name))
    if json:
        methods = {name: [epoch.as_dict() for epoch in run] for name, run in results.items()}
        print_json({"sentences": len(train), "hidden": count, "methods": methods})
    else:
        print(f"{count:,} hidden entities in {len(train):,} sentences\n")
        print(_missampling_table(results))
        print(
            "\nγ: hidden entities / negatives of a sentence, mean over the sentences from which any was drawn"
            " (the paper's)\npooled: the same over the whole corpus at once"
            "\never: hidden entities that have been a negative so far"
        )
    _draw(figure, lambda figures: figures.missampling_figure(results))


def _missampling_table(results: "dict[str, list[EpochMissampling]]") -> str:
    scored = any(epoch.dev_f1 is not None for epochs in results.values() for epoch in epochs)
    width = max(len("method"), *map(len, results))
    head = f"{'method':<{width}}  epoch  negatives   hidden       γ   pooled     ever"
    lines = [head + ("  dev F1" if scored else "")]
    for name, epochs in results.items():
        for e in epochs:
            line = f"{name:<{width}}  {e.epoch:5}  {e.negatives:9,}  {e.missampled:7,}"
            line += f"  {e.rate:6.2%}  {e.pooled_rate:7.2%}  {e.ever_drawn:7.1%}"
            lines.append(line + ("" if e.dev_f1 is None else f"  {100 * e.dev_f1:6.2f}"))
    return "\n".join(lines)


@analyse.command()
def uncertainty(
    data: Train,
    dev: Annotated[Path, typer.Option(help="Data on which the best epochs are chosen.", show_default=False)],
    gold: Gold = None,
    hidden: Hidden = None,
    test: Annotated[
        Path | None, typer.Option(help="Data to compare the models on.", show_default="the dev data")
    ] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    seeds: Annotated[str, typer.Option(metavar="N,N,…", help="Repeat with these seeds.")] = "1",
    settings: Set = None,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Do negatives teach more that a model is unsure of?

    An oracle, trained on one half of TRAIN, judges the spans of the other half; three models are trained on that half, with
    the most, the middle and the least uncertain spans as negatives. Hidden entities are never among them. Trains four
    models for each seed.

    Example: `lacuner analyse uncertainty masked.conll --hidden hidden.jsonl --dev dev.conll --seeds 1,2,3`
    """
    from lacuner.analysis.uncertainty import measure_uncertainty

    _check_figure(figure)
    numbers = _parse_seeds(seeds)
    resolved = _resolve("uniform", encoder, _overrides(settings, epochs, None))
    train, places = _read_train(data, gold, hidden, data_format, strict, resolved)
    dev_corpus = _read(dev, data_format, strict, resolved)
    test_corpus = _read(test, data_format, strict, resolved) if test else None
    runs = []
    for seed in numbers:
        with _Progress(f"seed {seed}, ") as progress:
            runs.append(measure_uncertainty(train, places, dev_corpus, resolved, seed, test_corpus, progress))
    ratio = runs[0].ratio
    if json:
        bands = {band: _band_summary(runs, band) for band in runs[0].bands}
        print_json({"ratio": ratio, "seeds": numbers, "bands": bands, "runs": [run.as_dict() for run in runs]})
    else:
        print(_uncertainty_table(runs))
        print(f"\nk = ⌈{ratio:g} n⌉ negatives of a sentence with n words; entropy of the oracle's labels, in nats")
    _draw(figure, lambda figures: figures.uncertainty_figure(runs))


def _band_summary(runs: "Sequence[UncertaintyRun]", band: Any) -> dict[str, Any]:
    """Means over the seeds, and the standard deviation of F1."""
    results = [run.bands[band] for run in runs]
    summary: dict[str, Any] = {"uncertainty": mean(result.uncertainty for result in results)}
    for name in ("dev_f1", "test_f1"):
        values = [getattr(result, name) for result in results]
        scored = None not in values
        summary[name] = mean(values) if scored else None
        summary[f"{name}_deviation"] = stdev(values) if scored and len(values) > 1 else None
    return summary


def _uncertainty_table(runs: "Sequence[UncertaintyRun]") -> str:
    def cell(value: float | None, deviation: float | None) -> str:
        return "" if value is None else f"{100 * value:.2f}" + (f" ± {100 * deviation:.2f}" if deviation else "")

    tested = any(result.test_f1 is not None for run in runs for result in run.bands.values())
    lines = ["negatives  entropy         dev F1" + ("        test F1" if tested else "")]
    for band in runs[0].bands:
        summary = _band_summary(runs, band)
        line = f"{band + '-k':<9}  {summary['uncertainty']:7.3f}  {cell(summary['dev_f1'], summary['dev_f1_deviation']):>13}"
        lines.append(line + f"  {cell(summary['test_f1'], summary['test_f1_deviation']):>13}" * tested)
    oracle = mean(run.oracle_dev_f1 for run in runs)
    lines.append(f"\nThe oracle has a dev F1 of {100 * oracle:.2f}; {len(runs)} seed{'s' * (len(runs) > 1)}.")
    return "\n".join(lines)


@analyse.command("o-values")
def o_values(
    data: Train,
    gold: Gold = None,
    hidden: Hidden = None,
    method: Annotated[str, typer.Option(help="A method that tags words and has no stage.")] = "crf",
    encoder: Encoder = None,
    epochs: Epochs = None,
    after: Annotated[int, typer.Option(min=1, help="The epoch after which words are picked; the paper's is 2.")] = 2,
    seeds: Annotated[str, typer.Option("--seeds", "--seed", metavar="N,N,…", help="Repeat with these seeds.")] = "1",
    settings: Set = None,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Does a tagger know, early in its training, which words belong to entities that nobody annotated?

    Trains a tagger for each seed and decision vector, plain and angle-based (`--set head.angle=true` or `false`: only that
    one). The O-value of a word is what its tag `O` scores.

    Example: `lacuner analyse o-values masked.conll --hidden hidden.jsonl --epochs 30 --figure o-values.png`
    """
    from lacuner.analysis.o_values import DECISIONS, measure_o_values, tagger, with_decision

    _check_figure(figure)
    numbers, overrides = _parse_seeds(seeds), _overrides(settings, epochs, None)
    resolved = _resolve(method, encoder, overrides)
    angle = tagger(resolved).head.angle
    decisions = DECISIONS[angle : angle + 1] if "head.angle" in overrides else DECISIONS
    train, places = _read_train(data, gold, hidden, data_format, strict, resolved)
    if not any(places):
        raise DataError("no entity is hidden", "give data with gaps, and the labels that they lack", data)
    results: dict[Decision, list[OValueRun]] = {decision: [] for decision in decisions}
    for seed in numbers:
        training = resolved.training.model_copy(update={"seed": seed})
        seeded = resolved.model_copy(update={"training": training})
        with _Progress(f"seed {seed}, ") as progress:
            for decision, runs in results.items():
                runs.append(measure_o_values(train, places, with_decision(seeded, decision), progress(decision)))
    first = results[decisions[0]][0]
    after = min(after, len(first.epochs))
    if json:
        shown = {decision: _o_value_summary(runs) for decision, runs in results.items()}
        report = {"words": first.words, "hidden": first.hidden, "base_rate": first.base_rate, "seeds": numbers}
        print_json(report | {"decisions": shown, "runs": [run.as_dict() for runs in results.values() for run in runs]})
    else:
        print(
            f"{first.hidden:,} of {first.words:,} untagged words belong to hidden entities;"
            f" words picked at random would have a precision of {first.base_rate:.1%}.\n"
        )
        print(_o_value_table(results))
        print(f"\nThe words with the smallest O-values after epoch {after}:\n")
        print(_detection_table(results, after))
        print(
            "\nhidden, outside: mean O-value of words in hidden entities, and of the other untagged words"
            "\nAP: average precision of detecting the former by small O-values"
            + (f"\nMeans of {len(numbers)} seeds, and the standard deviation of AP." if len(numbers) > 1 else "")
        )
    _draw(figure, lambda figures: figures.o_value_figure(results, after))


def _o_value_summary(runs: "Sequence[OValueRun]") -> list[dict[str, Any]]:
    """Means over the seeds, epoch by epoch, and the standard deviation of average precision."""
    from lacuner.analysis.o_values import mean_of_runs

    return [
        epoch.as_dict() | {"average_precision_deviation": stdev(values) if len(values) > 1 else None}
        for epoch, values in zip(mean_of_runs(runs), _average_precisions(runs), strict=True)
    ]


def _average_precisions(runs: "Sequence[OValueRun]") -> list[list[float]]:
    """Of each epoch, those of all seeds."""
    return [[epoch.average_precision for epoch in same] for same in zip(*(run.epochs for run in runs), strict=True)]


def _o_value_table(results: "dict[Decision, list[OValueRun]]") -> str:
    """Epochs down, decision vectors side by side."""
    from lacuner.analysis.o_values import mean_of_runs

    columns = [list(zip(mean_of_runs(runs), _average_precisions(runs), strict=True)) for runs in results.values()]
    seeds = len(next(iter(results.values())))
    width = 12 if seeds > 1 else 6
    lines = ["     " + "".join(f"    {name:<{18 + width}}" for name in results).rstrip()]
    lines.append("epoch" + f"    hidden  outside  {'AP':>{width}}" * len(results))
    for row in zip(*columns, strict=True):
        line = f"{row[0][0].epoch:5}"
        for epoch, values in row:
            spread = f" ± {100 * stdev(values):.1f}%" if seeds > 1 else "%"
            line += f"    {epoch.hidden:6.2f}  {epoch.outside:7.2f}  {f'{100 * mean(values):.1f}{spread}':>{width}}"
        lines.append(line)
    return "\n".join(lines)


def _detection_table(results: "dict[Decision, list[OValueRun]]", after: int) -> str:
    """Shares of the untagged words down, decision vectors side by side."""
    from lacuner.analysis.o_values import mean_of_runs

    columns = [mean_of_runs(runs)[after - 1].detection for runs in results.values()]
    lines = ["              " + "".join(f"    {name:<17}" for name in results).rstrip()]
    lines.append(" share   words" + "    precision  recall" * len(results))
    for row in zip(*columns, strict=True):
        line = f"{row[0].share:6.2%}  {row[0].picked:6,}"
        lines.append(line + "".join(f"    {one.precision:9.1%}  {one.recall:6.1%}" for one in row))
    return "\n".join(lines)


@analyse.command()
def bound(
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Annotated data; without it, theory.", show_default=False)
    ] = None,
    ratio: Annotated[float, typer.Option(help="λ: negatives for each word of a sentence.")] = 0.35,
    missing: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Assumed share of entities without a label.", show_default="the worst case"),
    ] = None,
    gold: Gold = None,
    fewest: Fewest = 20,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """How likely does uniform sampling draw no hidden entity from a sentence, and what does the paper's bound promise?

    Example: `lacuner analyse bound masked.conll --gold gold.conll --figure bound.png`
    """
    from lacuner.analysis import bound as theory

    _check_figure(figure)
    if not 0 < ratio < float("inf"):
        raise ConfigError(f"--ratio {ratio:g}: the number of negatives for each word is above 0; 0.35 is usual")
    if gold is not None and (missing is not None or data is None):
        raise ConfigError("--gold goes with DATA and without --missing; leave one of them out")
    if data is None:
        share = 1.0 if missing is None else missing
        assumption = f"√n entities, {'all' if share == 1 else f'{share:.0%}'} of them hidden"
        rows = theory.theoretical_curve(range(1, _SHOWN_LENGTHS[-1] + 1), ratio, share)
        shown = [row for row in rows if row.length in _SHOWN_LENGTHS]
    else:
        if missing == 1:
            raise ConfigError("--missing 1: then DATA would have no label at all; give a smaller share")
        counts, assumption = _count_sentences(data, gold, missing, data_format, strict)
        everything = theory.bound_by_length(counts, ratio)
        rows = shown = _frequent(everything, fewest, data)
    start = theory.first_informative_length(ratio)
    notes = [f"For sentences with fewer than {start} words the bound is 0 or less, and says nothing."]
    unproved = [row.length for row in rows if not (row.vacuous or theory.bound_is_proved(row.length, ratio))]
    if unproved:
        notes.append(f"With λ = {ratio:g} its proof does not hold for n = {unproved[0]} to {unproved[-1]}.")
    result: dict[str, Any] = {"ratio": ratio, "assumption": assumption, "informative_from": start}
    if data is not None:
        dense, exhausted = (sum(getattr(row, name) for row in everything) for name in ("dense", "exhausted"))
        sentences, overall = sum(row.sentences for row in everything), theory.mean_probability(everything)
        result |= {"sentences": sentences, "exact": overall, "dense": dense, "exhausted": exhausted}
        notes.insert(0, f"From {overall:.1%} of all {sentences:,} sentences an epoch draws no hidden entity.")
        notes += [f"Sentences with more than √n entities, which the bound does not cover: {dense:,}."] * (dense > 0)
        notes += [f"Sentences with fewer spans than are asked for, so that all are drawn: {exhausted:,}."] * (
            exhausted > 0
        )
    if json:
        print_json(result | {"lengths": [row.as_dict() for row in rows]})
    else:
        print(f"λ = {ratio:g}; {assumption}\n")
        print(_bound_table(shown))
        print("\n" + "\n".join(notes))
    _draw(figure, lambda figures: figures.bound_figure(rows, ratio, assumption))


def _count_sentences(
    data: Path, gold: Path | None, missing: float | None, data_format: DataFormat, strict: bool
) -> "tuple[list[SentenceCounts], str]":
    """``n``, ``m`` and ``ŷ`` of every sentence, and where ``ŷ`` comes from."""
    from lacuner.analysis.bound import SentenceCounts, as_many_as_allowed, with_assumed_share
    from lacuner.analysis.hidden import annotated_places, hidden_against_gold

    report = ReadingReport(strict=strict)
    sizes: list[tuple[int, int]] = []

    def counted() -> Iterator[Sentence]:
        for sentence in track(stream_sentences(data, data_format, report), "sentences"):
            sizes.append((len(sentence), len(annotated_places(sentence))))
            yield sentence

    if gold is not None:
        hidden = hidden_against_gold(counted(), stream_sentences(gold, data_format, report), gold)
        counts = [SentenceCounts(n, m, len(places)) for (n, m), places in zip(sizes, hidden, strict=True)]
        assumption = "hidden: what the gold labels have and the data lacks"
    else:
        for _ in counted():
            pass
        if missing is None:
            counts, assumption = [as_many_as_allowed(n, m) for n, m in sizes], "up to √n entities in all"
        else:
            counts, assumption = with_assumed_share(sizes, missing), f"{missing:.0%} of all entities assumed hidden"
    report.log()
    return counts, assumption


def _bound_table(rows: "Sequence[BoundRow]") -> str:
    real = rows[0].sentences > 0
    lines = [("words  " + "sentences  " * real) + "negatives  annotated  hidden   exact   bound"]
    for row in rows:
        line = f"{row.length:5}  " + f"{row.sentences:9,}  " * real
        line += f"{row.negatives:9}  {row.annotated:9.2f}  {row.hidden:6.2f}  {row.exact:.4f}"
        lines.append(line + ("       –" if row.vacuous else f"  {row.bound:.4f}"))
    return "\n".join(lines)


@analyse.command()
def sparsity(
    data: Data,
    fewest: Fewest = 20,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Have sentences fewer entities than the square root of their length? The bound on missampling assumes it.

    Example: `lacuner analyse sparsity gold.conll --figure sparsity.png`
    """
    from lacuner.analysis.hidden import annotated_places
    from lacuner.analysis.sparsity import share_of_sparse_sentences, sparsity_by_length

    _check_figure(figure)
    report = ReadingReport(strict=strict)
    sentences = track(stream_sentences(data, data_format, report), "sentences")
    everything = sparsity_by_length((len(sentence), len(annotated_places(sentence))) for sentence in sentences)
    report.log()
    rows = _frequent(everything, fewest, data)
    count, share = sum(row.sentences for row in everything), share_of_sparse_sentences(everything)
    if json:
        print_json({"sentences": count, "sparse": share, "lengths": [row.as_dict() for row in rows]})
    else:
        print(_sparsity_table(rows))
        print(f"\nOf all {count:,} sentences {share:.1%} have at most √n entities. The bar is 1.6 variances long.")
    _draw(figure, lambda figures: figures.sparsity_figure(rows, share))


def _sparsity_table(rows: "Sequence[SparsityRow]") -> str:
    lines = ["words  sentences   mean  variance           bar     √n   at most √n"]
    for row in rows:
        low, high = row.bar
        line = f"{row.length:5}  {row.sentences:9,}  {row.mean:5.2f}  {row.variance:8.2f}  {low:5.2f} … {high:4.2f}"
        lines.append(f"{line}  {row.root:5.2f}  {row.sparse / row.sentences:10.1%}")
    return "\n".join(lines)


def _frequent(rows: Sequence[Any], fewest: int, path: Path) -> list[Any]:
    """The rows that enough sentences stand behind; says how many do not."""
    if not rows:
        raise DataError("there is no sentence", "give a file with annotated sentences", path)
    kept = [row for row in rows if row.sentences >= fewest]
    if not kept:
        most = max(row.sentences for row in rows)
        what = f"no length has {fewest} sentences; the most frequent one has {most}"
        raise DataError(what, f"lower it with --fewest {most}", path)
    if len(kept) < len(rows):
        say(f"{len(rows) - len(kept)} lengths with fewer than {fewest} sentences are left out (--fewest 1 shows them).")
    return kept


def _parse_seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f"--seeds {text}: write whole numbers with commas between them, such as 1,2,3")
    return list(dict.fromkeys(map(int, parts)))


def _overrides(settings: list[str] | None, epochs: int | None, seed: int | None) -> dict[str, Any]:
    from lacuner.training.settings import parse_assignments

    given = {"training.epochs": epochs, "training.seed": seed}
    return parse_assignments(settings or ()) | {key: value for key, value in given.items() if value is not None}


def _resolve(method: str, encoder: str | None, overrides: dict[str, Any]) -> "RunSettings":
    from lacuner.training.settings import resolve_settings

    try:
        return resolve_settings(method, encoder, overrides)
    except ConfigError as error:
        raise ConfigError(f"{method}: {error}") from None


def _read(path: Path, data_format: DataFormat, strict: bool, settings: "RunSettings") -> Corpus:
    split: Splitting = "words" if settings.split == "auto" else settings.split
    return Corpus.read(path, data_format, strict, split)


def _read_train(
    data: Path, gold: Path | None, hidden: Path | None, data_format: DataFormat, strict: bool, settings: "RunSettings"
) -> "tuple[Corpus, list[Places]]":
    """The training data, and what each of its sentences lacks."""
    from lacuner.analysis.hidden import hidden_against_gold, read_hidden

    if (gold is None) == (hidden is None):
        raise ConfigError("which entities are hidden? Give either --gold GOLD or --hidden FILE")
    train = _read(data, data_format, strict, settings)
    if gold is not None:
        return train, hidden_against_gold(train, _read(gold, data_format, strict, settings), gold)
    assert hidden is not None
    return train, read_hidden(hidden, train)


def _check_figure(path: Path | None) -> None:
    if path is not None:
        from lacuner.analysis.figures import check_figure_path

        check_figure_path(path)


def _draw(path: Path | None, make: "Callable[[Any], Figure]") -> None:
    if path is not None:
        from lacuner.analysis import figures

        figures.save_figure(make(figures), path)
        say(f"The figure is in {path}.")


class _Progress:
    """Makes observers that show training, and takes their bars away, however it ended.

    Args:
        before: put before every title.
    """

    def __init__(self, before: str = "") -> None:
        self._before = before
        self._made: list[TerminalObserver] = []

    def __enter__(self) -> "_Progress":
        return self

    def __call__(self, title: str) -> "TerminalObserver":
        from lacuner.cli.progress import TerminalObserver

        self._made.append(TerminalObserver(f"{self._before}{title:<8}"))
        return self._made[-1]

    def __exit__(self, *_: object) -> None:
        for observer in self._made:
            observer.close()
