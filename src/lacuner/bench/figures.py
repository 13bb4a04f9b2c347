"""Figures of the results, each as SVG and PNG."""

import importlib.util
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from lacuner.analysis.figures import (
    canvas,
    look,
    missampling_figure,
    o_value_figure,
    save_figure,
    styles,
    uncertainty_figure,
)
from lacuner.analysis.line_styles import LineStyle, label_ends, label_size, method_styles
from lacuner.analysis.missampling import EpochMissampling
from lacuner.analysis.o_values import OValueRun
from lacuner.analysis.uncertainty import BandResult, UncertaintyRun
from lacuner.bench.recipe import ALL_LABELS, column_name
from lacuner.bench.results import Results, is_trained, test_f1
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FOLDER = "figures"
_WIDE = 3
"""Maximum number of panels per row."""
_LEGEND_COLUMNS = 4
_LEAST = 5
"""Minimum range of a panel in points of F1, so that small differences do not look large."""
_AFTER = 3
"""The epoch after which O-values are shown in detail."""
_Curves = dict[str, list[tuple[float, list[float]]]]
"""The points of every curve of a panel: x, and the value of each seed."""


def check_drawing() -> None:
    """Raise an error before the work begins if figures cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("figures need matplotlib; install it with: pip install matplotlib, or give --no-figures")


def draw_figures(results: Results, out: Path) -> list[tuple[str, str]]:
    """Draw all figures that the results have data for; return captions and file names, relative to ``out``."""
    check_drawing()
    drawn = []
    for name, caption, figure in _figures(results):
        (out / _FOLDER).mkdir(parents=True, exist_ok=True)
        for ending in ("svg", "png"):
            save_figure(figure, out / _FOLDER / f"{name}.{ending}")
        drawn.append((caption, f"{_FOLDER}/{name}.svg"))
    return drawn


def _figures(results: Results) -> Iterator[tuple[str, str, "Figure"]]:
    if any(len(found) > 1 for found in _fractions(results).values()):
        yield "masking", "F1 by the fraction of hidden labels", masking_figure(results)
    if any("threshold-size" in record for record in results.records):
        yield (
            "threshold-size",
            "F1 by the number of dev sentences that the threshold is fitted on",
            threshold_figure(results),
        )
    if any(len(record.get("epochs", ())) > 1 for record in results.records):
        yield "epochs", "F1 on dev data by epoch", epochs_figure(results)
    for column in results.columns:
        missampling = _missampling(results, column)
        if missampling:
            caption = f"Missampling by epoch, {column}"
            yield _file_name(f"missampling-{column}"), caption, missampling_figure(missampling)
        for encoder, uncertainty in _uncertainty(results, column).items():
            also = f", {encoder}" if results.several_encoders else ""
            caption = f"F1 by uncertainty of the negatives, {column}{also}"
            yield _file_name(f"uncertainty-{column}{also}"), caption, uncertainty_figure(uncertainty)
        o_values = _o_values(results, column)
        if o_values:
            after = min(_AFTER, *(len(run.epochs) for runs in o_values.values() for run in runs))
            yield _file_name(f"o-values-{column}"), f"O-values, {column}", o_value_figure(o_values, after)
        vectors = _vectors(results, column)
        if vectors:
            yield _file_name(f"vectors-{column}"), f"Span vectors (t-SNE), {column}", vector_figure(vectors)


def _file_name(name: str) -> str:
    """A file name for a dataset, whose name may be a path."""
    return re.sub(r"[^\w.-]+", "-", name)


def masking_figure(results: Results) -> "Figure":
    """F1 on test data by the fraction of hidden labels, with a panel per dataset and encoder."""
    panels: dict[str, _Curves] = {}
    fractions = _fractions(results).items()
    for data, fraction in ((data, each) for data, found in fractions if len(found) > 1 for each in found):
        for title, name, records in _curves(results, column_name(data, fraction), data):
            values = [f1 for f1 in map(test_f1, records) if f1 is not None]
            if values:
                panels.setdefault(title, {}).setdefault(name, []).append((100 * fraction, values))
    return _curve_figure(results, panels, "hidden (%)", "test F1 (%)", stays=False)


def epochs_figure(results: Results) -> "Figure":
    """F1 on dev data by epoch, with a panel per column and encoder."""
    panels: dict[str, _Curves] = {}
    for column in results.columns:
        for title, name, records in _curves(results, column, column):
            histories = [record["epochs"] for record in records if record.get("epochs")]
            if histories:
                panels.setdefault(title, {})[name] = [
                    (epoch + 1, [100 * history[epoch] for history in histories if epoch < len(history)])
                    for epoch in range(max(map(len, histories)))
                ]
    figure = _curve_figure(results, panels, "epoch", "dev F1 (%)")
    for axes in figure.axes:
        axes.locator_params(axis="x", integer=True, nbins=6)
    return figure


def threshold_figure(results: Results) -> "Figure":
    """F1 on test data by the number of dev sentences used to fit the threshold, with a panel per column and encoder."""
    panels: dict[str, _Curves] = {}
    bases: dict[str, dict[str, list[float]]] = {}
    for column in results.columns:
        for title, name, records in _curves(results, column, column):
            measured = [record["threshold-size"] for record in records if "threshold-size" in record]
            values: dict[int, list[float]] = {}
            for one in (one for sizes in measured for one in sizes):
                values.setdefault(one["sentences"], []).extend(100 * f1 for f1 in one["f1"])
            if measured:
                bases.setdefault(title, {})[name] = values.pop(0)
                panels.setdefault(title, {})[name] = sorted(values.items())
    figure = _curve_figure(results, panels, "dev sentences", "test F1 (%)")
    looks = _looks(results)
    for (title, curves), axes in zip(panels.items(), figure.axes, strict=True):
        axes.set_xscale("log")
        ticks = sorted({x for points in curves.values() for x, _ in points})
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks], rotation=45)
        axes.minorticks_off()
        for name, unfitted in bases[title].items():
            axes.axhline(mean(unfitted), color=looks[name].color, linestyle=":", linewidth=1.5, zorder=2)
            axes.annotate(
                "no threshold", (0.02, mean(unfitted)), xycoords=("axes fraction", "data"), xytext=(0, 4),
                textcoords="offset points", color=looks[name].color, fontsize=12,
            )  # fmt: skip
    return figure


def vector_figure(vectors: Mapping[str, Sequence[Mapping[str, Any]]]) -> "Figure":
    """Points in the plane, colored by label, with a panel per row; non-entities are gray."""
    labels = sorted({point["label"] for points in vectors.values() for point in points})
    outside, inside = [label for label in labels if label == "O"], [label for label in labels if label != "O"]
    with look():
        figure, grid = _panels(len(vectors))
        for (row, points), axes in zip(vectors.items(), grid, strict=False):
            for label in outside:
                chosen = [point for point in points if point["label"] == label]
                axes.scatter([p["x"] for p in chosen], [p["y"] for p in chosen], 10, color="0.75", label="no entity")
            for label, (color, marker, _) in zip(inside, styles(len(inside)), strict=True):
                chosen = [point for point in points if point["label"] == label]
                axes.scatter(
                    [p["x"] for p in chosen], [p["y"] for p in chosen], 22, color=color, marker=marker, label=label
                )
            axes.set(title=row, xticks=[], yticks=[])
            axes.grid(visible=False)
        _legend(figure, grid, [*("no entity" for _ in outside), *inside])
    return figure


def _panels(count: int, room: tuple[float, float] = (0.0, 0.0)) -> tuple["Figure", list[Any]]:
    """Create axes, at most three per row; four form a square.

    Args:
        count: number of axes.
        room: extra width per axis and minimum height for labels, in inches.
    """
    wide = 2 if count == 4 else min(_WIDE, count)
    high = math.ceil(count / wide)
    figure, axes = canvas(high, wide)
    width, height = (4.5 if wide > 1 else 7) + room[0], max(3.8, room[1] + 1.2)
    figure.set_size_inches(1 + width * wide, 0.4 + height * high)
    flat = list(axes.flat) if wide * high > 1 else [axes]
    for unused in flat[count:]:
        unused.remove()
    return figure, flat[:count]


def _curves(results: Results, column: str, title: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the curves of a column: panel title (per encoder), name, and records."""
    for row in results.rows:
        records = results.cells.get((row, column), [])
        if records and (is_trained(records[0]) or not results.several_encoders):
            encoder = f"\n{records[0]['encoder']}" if results.several_encoders else ""
            yield f"{title}{encoder}", results.curve(records[0]), records


def _curve_figure(
    results: Results, panels: "Mapping[str, _Curves]", xlabel: str, ylabel: str, stays: bool = True
) -> "Figure":
    """Draw each curve in the same style in all panels, labeled at its end (``stays``: see :func:`label_ends`)."""
    looks = _looks(results)
    sizes = [label_size(list(curves)) for curves in panels.values()]
    with look():
        figure, grid = _panels(len(panels), (max(width for width, _ in sizes), max(height for _, height in sizes)))
        for (title, curves), axes in zip(panels.items(), grid, strict=True):
            for name, points in curves.items():
                _line(axes, name, [x for x, _ in points], [values for _, values in points], looks[name])
            axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
            axes.set_ylim(0, max(axes.get_ylim()[1], _LEAST))
        figure.draw_without_rendering()  # panel heights are known from now on
        for curves, axes in zip(panels.values(), grid, strict=True):
            ends = {name: (points[-1][0], mean(points[-1][1])) for name, points in curves.items()}
            label_ends(axes, ends, looks, stays)
    return figure


def _looks(results: Results) -> dict[str, LineStyle]:
    """The line style of every curve of the results."""
    return method_styles({name: _method_of(results, name.removesuffix(ALL_LABELS)) for name in results.curves})


def _method_of(results: Results, name: str) -> str:
    """The method of a curve; a recipe may have several variants of one method, with a suffix after a comma."""
    recipe = results.title.recipe
    own = (method for method in recipe.methods if f"{name}, ".startswith(f"{method}, "))
    return recipe.method_of(max(own, key=len, default=name))[0].rstrip(",")


def _line(
    axes: Any, name: str, positions: Sequence[float], values: Sequence[Sequence[float]], style: LineStyle
) -> None:
    """Mean over seeds as a line, standard deviation as a band."""
    middle = [mean(same) for same in values]
    axes.plot(positions, middle, label=name, markevery=max(1, len(middle) // 8), **style.plotted)
    if any(len(same) > 1 for same in values):
        half = [stdev(same) if len(same) > 1 else 0.0 for same in values]
        low, high = ([m + sign * h for m, h in zip(middle, half, strict=True)] for sign in (-1, 1))
        alpha = 0.2 if style.is_bold else 0.08
        axes.fill_between(positions, low, high, color=style.color, alpha=alpha, linewidth=0, zorder=2)


def _legend(figure: "Figure", grid: Sequence[Any], names: Sequence[str]) -> None:
    """A shared legend below all panels, in as many columns as fit."""
    known = {label: handle for axes in grid for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    entries = {name: known[name] for name in names}
    for columns in range(min(_LEGEND_COLUMNS, len(entries)), 0, -1):
        legend = figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False, handlelength=3
        )
        size = legend.get_window_extent()
        if size.width <= figure.bbox.width or columns == 1:
            width, height = figure.get_size_inches()
            figure.set_size_inches(max(width, size.width / figure.dpi), height + size.height / figure.dpi)
            return
        legend.remove()


def _fractions(results: Results) -> dict[str, list[float]]:
    """The fractions of hidden labels of each dataset."""
    fractions: dict[str, set[float]] = {}
    for record in results.records:
        if record["hidden"] and "test" in record:
            fractions.setdefault(record["data"], set()).add(record["hidden"])
    return {data: sorted(found) for data, found in fractions.items()}


def _missampling(results: Results, column: str) -> dict[str, list[EpochMissampling]]:
    """Mean over the seeds of each row."""
    found = {}
    for row in results.rows:
        runs = [r["missampling"] for r in results.cells.get((row, column), ()) if r.get("missampling")]
        if runs:
            found[row] = [
                EpochMissampling(**{name: mean(epoch[name] for epoch in same) for name in same[0]})
                for same in zip(*runs, strict=False)
            ]
    return found


def _uncertainty(results: Results, column: str) -> dict[str, list[UncertaintyRun]]:
    """The runs of each encoder, by seed; its bands are separate rows of the results."""
    runs: dict[str, dict[int, UncertaintyRun]] = {}
    for row in results.rows:
        for record in results.cells.get((row, column), ()):
            if "uncertainty" in record:
                band = BandResult(record["uncertainty"], record["negatives"], record["dev"]["f1"], record["test"]["f1"])
                empty = UncertaintyRun(record["seed"], record["ratio"], record["oracle_dev_f1"], {})
                run = runs.setdefault(record["encoder"], {}).setdefault(record["seed"], empty)
                run.bands[record["method"].removesuffix("-k")] = band
    return {encoder: [run for _, run in sorted(seeds.items())] for encoder, seeds in runs.items()}


def _o_values(results: Results, column: str) -> dict[str, list[OValueRun]]:
    """The training runs of each row."""
    found: dict[str, list[OValueRun]] = {}
    for row in results.rows:
        for record in results.cells.get((row, column), ()):
            if "o_values" in record:
                found.setdefault(row, []).append(OValueRun.from_dict(record["o_values"]))
    return found


def _vectors(results: Results, column: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The points of the first seed of each row."""
    cells = {row: results.cells.get((row, column), []) for row in results.rows}
    return {row: records[0]["vectors"] for row, records in cells.items() if records and "vectors" in records[0]}
