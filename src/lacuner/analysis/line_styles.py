"""How the curves of methods look: each has one color in all figures, ours is bold, the others are quiet.

Names stand at the ends of the lines, so that nobody has to go back and forth between a legend and fifteen curves.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

OURS = "lacuner"
_LOUD = "#C43E00"
_QUIET: dict[str, tuple[str, str]] = {
    "kb": ("#3F3F46", ":"),
    "full": ("#7D7D86", "--"),
    "uniform": ("#4F83AE", "-."),
    "weighted": ("#7FB0B5", "--"),
    "top-neg": ("#6E9A5B", ":"),
    "nrces": ("#9A7BB0", "-"),
    "scl-rai": ("#B8934A", "-."),
    "selective": ("#5C7A99", "--"),
    "crf": ("#3E7C78", "-"),
    "two-step": ("#B97A8D", "--"),
    "eer": ("#8A8550", "-."),
    "bnpu": ("#6A6BAA", ":"),
    "conf-mpu": ("#57789C", "--"),
    "bond": ("#9C6B57", "-."),
    "cupul": ("#7C8A4A", "-"),
    "autoner": ("#A5714F", "-"),
    "roster": ("#7A5C8E", "-."),
    "mrc": ("#4E8C6A", ":"),
    "partial-crf": ("#86A7A0", "--"),
    "weighted-partial-crf": ("#8E9DC4", "-."),
    "token": ("#A3A38C", ":"),
}
"""Color and line of every method that is not ours; muted, and dark enough to be read as text."""
_OTHERS = ("#7B6D8D", "#6C8E86", "#9B8468", "#8C6D6D", "#6D7F98")
"""Of methods that other packages bring."""
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "h", ">", "p")
_TINTS = (0.0, 0.25, -0.3, 0.4, -0.5, 0.12)
"""Of variants of one method: towards white, or towards black."""
_LETTERS = 26
"""In a line of a name."""
_FONT, _LINE_HEIGHT = 12.0, 1.25
"""Of names at the ends of lines: points, and how many of them a line takes."""


@dataclass(frozen=True)
class LineStyle:
    """The look of a curve."""

    color: str
    marker: str
    line: str
    is_bold: bool

    @property
    def plotted(self) -> dict[str, Any]:
        """For ``Axes.plot``."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.line,
            "linewidth": 4.0 if self.is_bold else 1.8,
            "markersize": 8 if self.is_bold else 5,
            "zorder": 4 if self.is_bold else 3,
        }

    @property
    def written(self) -> dict[str, Any]:
        """For the name at its end."""
        weight = "bold" if self.is_bold else "normal"
        return {"color": _tinted(self.color, -0.2), "fontsize": _FONT, "fontweight": weight, "linespacing": 1.0}


def method_styles(methods: Mapping[str, str]) -> dict[str, LineStyle]:
    """A look for each curve of a figure.

    Args:
        methods: the curves, and the method that each is about. One that is called otherwise is a variant: it has another
            tint of the method's color, and another line. An encoder after `` · `` makes no difference.
    """
    own = [method for method in dict.fromkeys(methods.values()) if method not in _QUIET and method != OURS]
    others = {method: (_OTHERS[number % len(_OTHERS)], "-") for number, method in enumerate(own)}
    looks = {OURS: (_LOUD, "-"), **_QUIET, **others}
    order = list(looks)
    variants = dict.fromkeys(looks, 0)
    styles = {}
    for name, method in methods.items():
        bare = name.partition(" · ")[0]
        variants[method] += bare != method
        variant = variants[method] if bare != method else 0
        color, line = looks[method]
        styles[name] = LineStyle(
            color=_tinted(color, _TINTS[variant % len(_TINTS)]),
            marker=_MARKERS[(order.index(method) + variant) % len(_MARKERS)],
            line=_LINES[(_LINES.index(line) + variant) % len(_LINES)],
            is_bold=bare == OURS,
        )
    return styles


def label_ends(
    axes: Any, ends: Mapping[str, tuple[float, float]], styles: Mapping[str, LineStyle], stays: bool = True
) -> None:
    """Write the names of curves to the right of their ends, none above another; the figure has its layout already.

    Args:
        axes: with the curves, and their final limits.
        ends: the last point of each.
        styles: of each.
        stays: what ends early stays as it is at its end, such as a model that is no longer trained. Otherwise nobody knows how
            it would go on, and a dotted line leads from its end to its name.
    """
    texts = {name: _wrapped(name) for name in ends}
    height = axes.get_window_extent().height / axes.figure.dpi * 72  # points
    heights = [text_height(text) / height for text in texts.values()]
    wanted = [float(axes.transLimits.transform((0, y))[1]) for _, y in ends.values()]
    last = max(x for x, _ in ends.values())
    for (name, (x, y)), where in zip(ends.items(), spread_out(wanted, heights), strict=True):
        color = styles[name].color
        if x < last and stays:
            axes.hlines(y, x, last, color=color, linewidth=0.9, alpha=0.55, zorder=1)
        axes.annotate(
            texts[name], (last if stays else x, y), xytext=(1.06, where), textcoords="axes fraction", ha="left", va="center",
            annotation_clip=False, **styles[name].written,
            arrowprops={
                "arrowstyle": "-", "color": color, "linewidth": 0.9, "alpha": 0.55, "relpos": (0, 0.5), "shrinkA": 2,
                "shrinkB": 4, "linestyle": "-" if stays or x == last else ":",
            },
        )  # fmt: skip


def label_size(names: Sequence[str]) -> tuple[float, float]:
    """Inches that the names take at the right of a panel: how wide the widest is, and how high all of them are."""
    lines = [line for name in names for line in _wrapped(name).splitlines()]
    width = max(map(len, lines), default=0) * 0.58 * _FONT
    return width / 72, sum(text_height(_wrapped(name)) for name in names) / 72


def text_height(text: str) -> float:
    """Points that a name takes."""
    return len(text.splitlines()) * _FONT * _LINE_HEIGHT


def spread_out(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Middles of labels, as near as possible to where they are wanted, without overlaps and inside ``[0, 1]``.

    The sum of squared distances is the least that is possible: between neighbors, distances are fixed where they touch, so
    that this is isotonic regression, solved by pooling those that touch.

    >>> [round(y, 3) for y in spread_out([0.5, 0.5, 0.9], [0.1, 0.1, 0.1])]
    [0.45, 0.55, 0.9]

    Args:
        wanted: the middles, in any order.
        heights: of the labels. If they do not fit at all, they reach beyond 1.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    below = [0.0]  # how far each middle is from the first one, if all touch
    for before, after in pairwise(order):
        below.append(below[-1] + (heights[before] + heights[after]) / 2)
    pools: list[tuple[float, int]] = []  # the sum of their wishes, and how many they are
    for index, offset in zip(order, below, strict=False):
        pools.append((wanted[index] - offset, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            (total, count), (other, more) = pools.pop(), pools.pop()
            pools.append((total + other, count + more))
    moved = [total / count for total, count in pools for _ in range(count)]
    low = heights[order[0]] / 2 if order else 0.0
    high = 1 - heights[order[-1]] / 2 - below[-1] if order else 0.0
    placed = [0.0] * len(wanted)
    for index, offset, start in zip(order, below, moved, strict=False):
        placed[index] = max(low, min(start, high)) + offset
    return placed


def _wrapped(name: str) -> str:
    return textwrap.fill(name, _LETTERS, break_long_words=False, break_on_hyphens=False) or name


def _tinted(color: str, tint: float) -> str:
    parts = [int(color[begin : begin + 2], 16) for begin in (1, 3, 5)]
    towards = 255 if tint > 0 else 0
    return "#" + "".join(f"{round(part + (towards - part) * abs(tint)):02X}" for part in parts)
