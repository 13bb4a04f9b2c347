"""The analyses as figures that can be shown: large type, thick lines, colors and markers that everybody can tell apart."""

import importlib.util
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from lacuner.analysis.bound import BoundRow, first_informative_length
from lacuner.analysis.line_styles import LineStyle, label_ends, method_styles
from lacuner.analysis.sparsity import SparsityRow
from lacuner.errors import ConfigError, DataError
from lacuner.storage import new_file, try_writing

if TYPE_CHECKING:  # matplotlib is an extra, and the training code takes seconds to load
    from matplotlib.figure import Figure

    from lacuner.analysis.missampling import EpochMissampling
    from lacuner.analysis.o_values import OValueRun
    from lacuner.analysis.uncertainty import UncertaintyRun

ENDINGS = (".png", ".svg")
_SIZE, _RESOLUTION = (8, 5), 150
_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000"
"""Okabe and Ito's colors."""
_COLORS = (_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _BLACK)
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "h", ">", "p")
"""As many again as there are colors, so that curves of one color have different ones."""
_LOOK: dict[str, Any] = {
    "font.size": 15, "axes.titlesize": 16, "axes.labelsize": 16, "legend.fontsize": 14, "lines.linewidth": 3,
    "lines.markersize": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.35,
    "axes.titleweight": "bold", "axes.linewidth": 1.3, "svg.hashsalt": "lacuner",
}  # fmt: skip
_MAX_MARKERS = 12


@contextmanager
def look() -> Iterator[None]:
    """Our type sizes and line widths, inside this context only."""
    import matplotlib

    settings: Any = _LOOK
    with matplotlib.rc_context(settings):
        yield


def check_figure_path(path: Path) -> None:
    """Say before the work begins, not after it, that a figure cannot be written."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"--figure {path}: figures end in {' or '.join(ENDINGS)}; give such a name")
    if not path.parent.is_dir():
        raise DataError("the folder does not exist", "create it first", path.parent)
    if path.is_dir():
        raise DataError("it is a folder", "give the name of a file", path)
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("--figure needs matplotlib; install it with: pip install matplotlib")
    try_writing(path)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a PNG or SVG file; the same figure gives the same bytes."""
    kind, memory = path.suffix.lower().removeprefix("."), io.BytesIO()
    with look():
        figure.savefig(memory, format=kind, dpi=_RESOLUTION, metadata={"Date": None} if kind == "svg" else None)
    with new_file(path) as file:
        file.write(memory.getvalue())


@look()
def missampling_figure(methods: "Mapping[str, Sequence[EpochMissampling]]") -> "Figure":
    """``γ`` by epoch, and beside it how many hidden entities have been a negative by then."""
    figure, (left, right) = canvas(1, 2)
    looks = method_styles({name: name.split()[0].rstrip(",") for name in methods})
    ends: dict[str, tuple[float, float]] = {}
    labels: dict[str, LineStyle] = {}
    for name, epochs in methods.items():
        best = max((epoch.dev_f1 for epoch in epochs if epoch.dev_f1 is not None), default=None)
        label = name if best is None else f"{name} (dev F1 {100 * best:.1f})"
        numbers = [epoch.epoch for epoch in epochs]
        style = looks[name].plotted | {"label": label, "clip_on": False}
        style["markevery"] = max(1, math.ceil(len(numbers) / _MAX_MARKERS))
        left.plot(numbers, [100 * epoch.rate for epoch in epochs], **style)
        right.plot(numbers, [100 * epoch.ever_drawn for epoch in epochs], **style)
        ends[label], labels[label] = (numbers[-1], 100 * epochs[-1].ever_drawn), looks[name]
    figure.suptitle("Hidden entities that are trained on as negatives", fontsize=17, fontweight="bold")
    left.set(title="in each epoch", ylabel="missampling rate γ (%)")
    right.set(title="so far", ylabel="hidden entities drawn (%)")
    last = max((epochs[-1].epoch for epochs in methods.values() if epochs), default=1)
    for axes in (left, right):
        axes.set(xlabel="epoch", xlim=(1, max(2, last)))
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", integer=True, nbins=6, min_n_ticks=3)
    right.set_ylim(top=max(right.get_ylim()[1], 1))
    figure.draw_without_rendering()  # now it is known how high the panels are
    label_ends(right, ends, labels)
    return figure


@look()
def uncertainty_figure(runs: "Sequence[UncertaintyRun]") -> "Figure":
    """F1 of the three models: the mean of the seeds as a bar, each seed as a dot."""
    figure, axes = canvas()
    bands = list(runs[0].bands)
    on_test = runs[0].bands[bands[0]].test_f1 is not None
    ticks, tops = [], []
    for position, (band, (color, _, _)) in enumerate(zip(bands, styles(len(bands)), strict=True)):
        results = [run.bands[band] for run in runs]
        values = [100 * (r.dev_f1 if r.test_f1 is None else r.test_f1) for r in results]
        deviation = stdev(values) if len(values) > 1 else None
        label = "mean ± standard deviation" if deviation is not None else None
        axes.bar(position, mean(values), 0.62, color=color, zorder=2)
        if deviation is not None:
            axes.errorbar(
                position, mean(values), deviation, color=_BLACK, capsize=9, capthick=2.5, elinewidth=2.5, zorder=3,
                label=label if position == 0 else None,
            )  # fmt: skip
            axes.plot(
                [position + 0.18] * len(values), values, "o", color="white", markeredgecolor=_BLACK, markeredgewidth=2,
                zorder=4, label="one seed" if position == 0 else None,
            )  # fmt: skip
        tops.append(max(*values, mean(values) + (deviation or 0)))
        axes.annotate(
            f"{mean(values):.1f}", (position, tops[-1]), xytext=(0, 8), textcoords="offset points", ha="center",
            fontsize=17, fontweight="bold",
        )  # fmt: skip
        ticks.append(f"{band}-k\nentropy {mean(r.uncertainty for r in results):.2g} nats")
    axes.set_xticks(range(len(bands)), ticks)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, max(1, *tops) * (1.3 if len(runs) > 1 else 1.15))
    axes.set(ylabel=f"{'test' if on_test else 'dev'} F1 (%)")
    axes.set_title(f"F1 by uncertainty of the negatives\n(k = ⌈{runs[0].ratio:g} n⌉ a sentence, none a hidden entity)")
    if len(runs) > 1:
        axes.legend(loc="upper right", ncols=2, frameon=False)
    return figure


@look()
def o_value_figure(results: "Mapping[str, Sequence[OValueRun]]", after: int) -> "Figure":
    """Mean O-values by epoch, and beside it how well the smallest ones after one epoch detect hidden entities.

    Args:
        results: for each decision vector, by name, the training runs with all seeds.
        after: the epoch, from 1.
    """
    from lacuner.analysis.o_values import mean_of_runs

    figure, (left, right) = canvas(1, 2)
    means = {name: mean_of_runs(runs) for name, runs in results.items()}
    for (name, epochs), (color, marker, _) in zip(means.items(), styles(len(means)), strict=True):
        numbers, detection = [epoch.epoch for epoch in epochs], epochs[after - 1].detection
        fractions = [100 * found.fraction for found in detection]
        style: dict[str, Any] = {"color": color, "marker": marker, "zorder": 3, "clip_on": False}
        thinned = style | {"markevery": max(1, math.ceil(len(numbers) / _MAX_MARKERS))}
        left.plot(numbers, [epoch.hidden for epoch in epochs], "-", label=name, **thinned)
        left.plot(numbers, [epoch.outside for epoch in epochs], "--", **thinned)
        right.plot(fractions, [100 * found.precision for found in detection], "-", **style)
        right.plot(fractions, [100 * found.recall for found in detection], "--", **style)
    first = next(iter(results.values()))[0]
    last = max(2, len(first.epochs))
    right.axhline(100 * first.base_rate, color="0.45", linestyle=":", zorder=2, label="precision at random")
    figure.suptitle("Do small O-values give hidden entities away?", fontsize=17, fontweight="bold")
    left.set(title="mean O-value", ylabel="score of O", xlabel="epoch", xlim=(1, last))
    left.locator_params(axis="x", integer=True, nbins=6, min_n_ticks=3)
    left.margins(y=0.2)
    right.set(title=f"after epoch {after}", ylabel="precision, recall (%)", xlabel="smallest picked (%)")
    right.set(xscale="log", ylim=(0, 100))
    right.set_xticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
    right.minorticks_off()
    amid = [epochs[(len(epochs) - 1) // 2] for epochs in means.values()]
    picked = [epochs[after - 1].detection for epochs in means.values()]
    for axes, text, x, y, shift, begin in (
        (left, "outside", (1 + last) / 2, max(epoch.outside for epoch in amid), (-4, 10), "right"),
        (left, "hidden", (1 + last) / 2, min(epoch.hidden for epoch in amid), (4, -26), "left"),
        (right, "precision", fractions[0], 100 * min(found[0].precision for found in picked), (4, -26), "left"),
        (right, "recall", fractions[4], 100 * min(found[4].recall for found in picked), (12, -18), "left"),
    ):
        axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", ha=begin, fontsize=14)
    entries = [axes.get_legend_handles_labels() for axes in (left, right)]
    handles, labels = ([item for entry in entries for item in entry[kind]] for kind in (0, 1))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3 if len(labels) <= 3 else 2, frameon=False, handlelength=2
    )
    return figure


@look()
def bound_figure(rows: Sequence[BoundRow], ratio: float, assumption: str) -> "Figure":
    """The exact probability and its bound by sentence length.

    Args:
        rows: at least one.
        ratio: ``λ``.
        assumption: what is assumed about hidden entities.
    """
    figure, axes = canvas()
    start = first_informative_length(ratio)
    covered = [row for row in rows if row.length >= start]
    lengths, exact = [row.length for row in rows], [row.exact for row in rows]
    style: dict[str, Any] = {"color": _BLUE, "label": "exact probability q", "zorder": 3}
    style |= {"marker": "o", "linewidth": 1.8} if rows[0].sentences else {}
    axes.plot(lengths, exact, **style)
    axes.plot(
        [row.length for row in covered], [row.bound for row in covered], "--", color=_RED, zorder=2,
        label="bound  1 − 4λ√n / (n − 1)",
    )  # fmt: skip
    left, right = max(0, lengths[0] - 1), lengths[-1] + 1
    if left < start - 1:
        axes.axvspan(left, start - 0.5, color="0.85", label=f"n < {start}: the bound says nothing", zorder=0)
    axes.set(xlabel="sentence length n (words)", ylabel="probability", xlim=(left, right), ylim=(0, 1.02))
    axes.set_title(f"How likely no hidden entity is among ⌈{ratio:g} n⌉ negatives\n({assumption})")
    axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    return figure


@look()
def sparsity_figure(rows: Sequence[SparsityRow], sparse: float) -> "Figure":
    """The paper's Figure 3: mean number of entities by sentence length, with bars, against the square root.

    Args:
        rows: at least one.
        sparse: fraction of all sentences that have no more than ``√n`` entities.
    """
    figure, axes = canvas()
    lengths, means = [row.length for row in rows], [row.mean for row in rows]
    half = [row.bar[1] - row.mean for row in rows]
    bars = axes.errorbar(
        lengths, means, half, fmt="o", color=_BLUE, ecolor=_BLUE, elinewidth=2.2, zorder=3,
        label="mean; the bar is 1.6 variances long",
    )  # fmt: skip
    bars[2][0].set_linestyle("--")
    begin, end = max(0, lengths[0] - 1), lengths[-1] + 1
    curve = [begin + (end - begin) * step / 200 for step in range(201)]
    axes.plot(curve, [math.sqrt(n) for n in curve], color=_RED, label="√n", zorder=2)
    axes.set(xlabel="sentence length n (words)", ylabel="entities of a sentence", xlim=(begin, end))
    highest = max([math.sqrt(end), *(row.bar[1] for row in rows)])
    axes.set_ylim(0, 1.3 * highest)
    axes.set_title(f"{100 * sparse:.0f} % of the sentences have at most √n entities")
    axes.legend(loc="upper left", frameon=False)
    return figure


def canvas(rows: int = 1, columns: int = 1) -> "tuple[Figure, Any]":
    """An empty figure and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=_SIZE, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))  # inches
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns)


def styles(count: int) -> list[Any]:
    """Color, marker and line of so many curves; those of one color differ in both others."""
    kinds = len(_COLORS)
    return [
        (_COLORS[number % kinds], _MARKERS[number % len(_MARKERS)], _LINES[(number + number // kinds) % kinds])
        for number in range(count)
    ]
