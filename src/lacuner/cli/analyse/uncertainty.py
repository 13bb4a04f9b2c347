"""``lacuner analyse uncertainty``."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.analyse import shared
from lacuner.cli.console import print_json
from lacuner.cli.options import DataFormat, Device, Encoder, Epochs, Json, Set, Strict

if TYPE_CHECKING:
    from lacuner.analysis.uncertainty import UncertaintyRun


def uncertainty(
    data: shared.Train,
    dev: Annotated[Path, typer.Option(help="Development data for choosing the best epoch.", show_default=False)],
    gold: shared.Gold = None,
    hidden: shared.Hidden = None,
    test: Annotated[
        Path | None, typer.Option(help="Test data for comparing the models.", show_default="the dev data")
    ] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    settings: Set = None,
    seeds: shared.Seeds = "1",
    figure: shared.FigureFile = None,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Compare negatives by how uncertain a model is about them.

    An oracle, trained on one half of TRAIN, scores the spans of the other half. Three models are trained on that half, with
    the most, the middle and the least uncertain spans as negatives. Hidden entities are never among them. Trains four models
    per seed.

    Example: `lacuner analyse uncertainty masked.conll --hidden hidden.jsonl --dev dev.conll --seeds 1,2,3`
    """
    from lacuner.analysis.uncertainty import measure_uncertainty

    shared.check_figure(figure)
    numbers = shared.parse_seeds(seeds)
    resolved = shared.resolve("uniform", encoder, shared.overrides_of(settings, epochs, None))
    train, lacking = shared.read_train(data, gold, hidden, data_format, strict, resolved)
    dev_corpus = shared.read_corpus(dev, data_format, strict, resolved)
    test_corpus = shared.read_corpus(test, data_format, strict, resolved) if test else None
    runs = []
    for seed in numbers:
        with shared.Progress(f"seed {seed}, ") as progress:
            runs.append(measure_uncertainty(train, lacking, dev_corpus, resolved, seed, test_corpus, progress))
    ratio = runs[0].ratio
    if json:
        bands = {band: _band_summary(runs, band) for band in runs[0].bands}
        print_json({"ratio": ratio, "seeds": numbers, "bands": bands, "runs": [run.as_dict() for run in runs]})
    else:
        print(_uncertainty_table(runs))
        print(f"\nk = ⌈{ratio:g} n⌉ negatives of a sentence with n words; entropy of the oracle's labels, in nats")
    shared.draw(figure, lambda figures: figures.uncertainty_figure(runs))


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
