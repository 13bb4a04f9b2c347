"""``lacuner analyse o-values``."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.analyse import shared
from lacuner.cli.console import print_json
from lacuner.cli.options import DataFormat, Device, Encoder, Epochs, Json, Set, Strict
from lacuner.errors import DataError

if TYPE_CHECKING:
    from lacuner.analysis.o_values import Decision, OValueRun

_NAMES = {"plain": "plain", "angle": "angle-based"}


def o_values(
    data: shared.Train,
    gold: shared.Gold = None,
    hidden: shared.Hidden = None,
    method: Annotated[str, typer.Option(help="Method that tags words and has no stage.")] = "crf",
    encoder: Encoder = None,
    epochs: Epochs = None,
    settings: Set = None,
    seeds: shared.Seeds = "1",
    after: Annotated[int, typer.Option(min=1, help="Epoch after which words are picked; the paper uses 2.")] = 2,
    figure: shared.FigureFile = None,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Measure how well a tagger detects words of unannotated entities early in training.

    Trains a tagger for each seed and each kind of decision vector, plain and angle-based (`--set head.angle=true` or `false`
    selects one). The O-value of a word is the score of its tag `O`.

    Example: `lacuner analyse o-values masked.conll --hidden hidden.jsonl --epochs 30 --figure o-values.png`
    """
    from lacuner.analysis.o_values import DECISIONS, is_angle_based, measure_o_values, tagger, with_decision

    shared.check_figure(figure)
    numbers, overrides = shared.parse_seeds(seeds), shared.overrides_of(settings, epochs, None)
    resolved = shared.resolve(method, encoder, overrides)
    angle = is_angle_based(tagger(resolved))
    decisions = DECISIONS[angle : angle + 1] if "head.angle" in overrides else DECISIONS
    train, lacking = shared.read_train(data, gold, hidden, data_format, strict, resolved)
    if not any(lacking):
        raise DataError("no entity is hidden", "give data with gaps, and the labels that they lack", data)
    results: dict[Decision, list[OValueRun]] = {decision: [] for decision in decisions}
    for seed in numbers:
        training = resolved.training.model_copy(update={"seed": seed})
        seeded = resolved.model_copy(update={"training": training})
        with shared.Progress(f"seed {seed}, ") as progress:
            for decision, runs in results.items():
                runs.append(measure_o_values(train, lacking, with_decision(seeded, decision), progress(decision)))
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
    named = {_NAMES[decision]: runs for decision, runs in results.items()}
    shared.draw(figure, lambda figures: figures.o_value_figure(named, after))


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
    """Fractions of the untagged words down, decision vectors side by side."""
    from lacuner.analysis.o_values import mean_of_runs

    columns = [mean_of_runs(runs)[after - 1].detection for runs in results.values()]
    lines = ["              " + "".join(f"    {name:<17}" for name in results).rstrip()]
    lines.append("picked   words" + "    precision  recall" * len(results))
    for row in zip(*columns, strict=True):
        line = f"{row[0].fraction:6.2%}  {row[0].picked:6,}"
        lines.append(line + "".join(f"    {one.precision:9.1%}  {one.recall:6.1%}" for one in row))
    return "\n".join(lines)
