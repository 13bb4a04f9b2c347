"""``lacuner analyse missampling``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.analyse import shared
from lacuner.cli.console import print_json
from lacuner.cli.options import DataFormat, Device, Encoder, Epochs, Json, Set, Strict
from lacuner.errors import DataError

if TYPE_CHECKING:
    from lacuner.analysis.missampling import EpochMissampling

_METHODS = ("uniform", "weighted", "top-neg", "nrces")


def missampling(
    data: shared.Train,
    gold: shared.Gold = None,
    hidden: shared.Hidden = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Method to measure. Can be repeated.", show_default=", ".join(_METHODS)),
    ] = None,
    dev: Annotated[
        Path | None, typer.Option(help="Development data to evaluate on after each epoch.", show_default=False)
    ] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same models.")] = 1,
    settings: Set = None,
    figure: shared.FigureFile = None,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Measure how many of the sampled negatives are unannotated entities.

    Trains one model per method. All epochs run, even with --dev (`--set training.patience=5` stops early).

    Example: `lacuner analyse missampling masked.conll --hidden hidden.jsonl --dev dev.conll --figure missampling.png`
    """
    from lacuner.analysis.missampling import measure_missampling

    shared.check_figure(figure)
    overrides = {"training.patience": "none"} | shared.overrides_of(settings, epochs, seed)
    runs = {name: shared.resolve(name, encoder, overrides) for name in dict.fromkeys(method or _METHODS)}
    train, lacking = shared.read_train(data, gold, hidden, data_format, strict, next(iter(runs.values())))
    count = sum(map(len, lacking))
    if not count:
        raise DataError("no entity is hidden", "give data with gaps, and the labels that they lack", data)
    dev_corpus = shared.read_corpus(dev, data_format, strict, next(iter(runs.values()))) if dev else None
    results = {}
    for name, resolved in runs.items():
        with shared.Progress() as progress:
            results[name] = measure_missampling(train, lacking, resolved, dev_corpus, progress(name))
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
    shared.draw(figure, lambda figures: figures.missampling_figure(results))


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
