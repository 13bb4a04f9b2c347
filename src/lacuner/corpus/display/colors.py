"""Label colors, the same in all outputs, with readable text in light and dark mode."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lacuner.corpus.sentence import OUTSIDE

HUES = (210, 25, 140, 320, 48, 265, 185, 0)
"""Hue of each color in degrees, as in ``review.css``."""
ANSI_COLORS = (
    "bright_blue", "yellow", "bright_green", "bright_magenta", "bright_yellow", "magenta", "bright_cyan", "bright_red",
)  # fmt: skip
"""The same for terminals with sixteen colors."""
LIGHT = {
    "tint-s": "85%", "tint-l": "88%", "strong-s": "70%", "strong-l": "28%",
    "on-tint": "#1b1d21", "on-strong": "#fff", "none-tint": "#e3e4e8", "none-strong": "#4b4f58",
}  # fmt: skip
"""Light mode: saturation and lightness of an entity (tint) and its label (strong), the text color, and both for ``O``."""
DARK = {
    "tint-s": "45%", "tint-l": "23%", "strong-s": "75%", "strong-l": "78%",
    "on-tint": "#eceae6", "on-strong": "#14161a", "none-tint": "#34373f", "none-strong": "#c3c7d0",
}  # fmt: skip
"""The same in dark mode."""
_USUAL = (
    ("loc", "location", "gpe", "place", "chemical", "drug"),
    ("misc", "miscellaneous", "disease", "norp", "event"),
    ("org", "organization", "organisation", "corporation", "company", "gene", "protein"),
    ("per", "person", "people", "species"),
    ("date", "time", "money", "product"),
    ("fac", "facility", "law", "language"),
    ("work_of_art", "title", "quantity", "cell_line"),
    ("cardinal", "ordinal", "percent", "number", "mutation"),
)
"""Common labels by color, in order of precedence."""
_USUAL_COLOR = {name: color for color, names in enumerate(_USUAL) for name in names}
_RANK = {name: rank for names in _USUAL for rank, name in enumerate(names)}


@dataclass(frozen=True)
class Palette:
    """The colors of labels, as indices into :data:`HUES`.

    A label's color is derived from its name, unless another label of the set already has it: colors of a set are distinct as
    long as there are enough, and those of adjacent labels in sorted order always are.
    """

    numbers: Mapping[str, int]

    @classmethod
    def of(cls, labels: Iterable[str]) -> "Palette":
        """The palette of a set of labels, independent of their order."""
        ordered = sorted(set(labels) - {OUTSIDE})
        numbers: dict[str, int] = {}
        taken: Counter[int] = Counter()
        for label in sorted(ordered, key=lambda label: _RANK.get(label.casefold(), len(_RANK))):
            numbers[label] = _best(_color_of_name(label), taken, _neighbors(label, ordered, numbers))
            taken[numbers[label]] += 1
        return cls(MappingProxyType({label: numbers[label] for label in ordered}))

    def number(self, label: str) -> int | None:
        """The color of a label, derived from its name if it is not in the set. ``O`` has none."""
        return None if label == OUTSIDE else self.numbers.get(label, _color_of_name(label))


def _color_of_name(label: str) -> int:
    """Deterministic across processes."""
    name = label.casefold()
    return _USUAL_COLOR.get(name, zlib.crc32(name.encode("utf-8", "surrogatepass")) % len(HUES))


def _neighbors(label: str, ordered: list[str], numbers: Mapping[str, int]) -> set[int]:
    index = ordered.index(label)
    beside = ordered[max(0, index - 1) : index] + ordered[index + 1 : index + 2]
    return {numbers[other] for other in beside if other in numbers}


def _best(wanted: int, taken: Counter[int], beside: set[int]) -> int:
    """A least-used color, preferably the wanted one."""
    every = [(wanted + step) % len(HUES) for step in range(len(HUES))]
    return min((color for color in every if color not in beside), key=lambda color: taken[color])
