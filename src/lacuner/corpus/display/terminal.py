"""A text and its entities in a terminal: ``[Ada Lovelace PER] moved to [Turin LOC].``, in color if supported."""

import colorsys
from collections.abc import Iterable
from functools import cache

from rich.color import Color, ColorSystem
from rich.style import Style

from lacuner.corpus.display.colors import ANSI_COLORS, HUES, LIGHT, Palette
from lacuner.corpus.display.marks import Closing, Mark, Opening, lay_out, printable


def bracketed(text: str, marks: Iterable[Mark], palette: Palette, colors: ColorSystem | None = None) -> str:
    """The text with entities in brackets, with the label before the closing one; nested entities have nested brackets.

    Args:
        text: to show. Control characters are replaced by symbols.
        marks: its entities.
        palette: their colors.
        colors: color system of the terminal; none by default.
    """
    within: list[Mark] = []
    shown = []
    for piece in lay_out(text, marks):
        if isinstance(piece, Opening):
            within.append(piece.mark)
            shown.append(_painted("[", within, palette, colors))
        elif isinstance(piece, Closing):
            label = f" {printable(piece.mark.name)}{'' if piece.last else ' …'}]"
            shown.append(_painted(label, within, palette, colors, label=True))
            within.pop()
        else:
            shown.append(_painted(printable(piece), within, palette, colors))
    return "".join(shown)


def _painted(text: str, within: list[Mark], palette: Palette, colors: ColorSystem | None, label: bool = False) -> str:
    """Use the color of the innermost mark."""
    if colors is None or not within:
        return text
    style = _style(palette.number(within[-1].label), colors, label)
    # Reset the color at line ends, where the terminal would otherwise fill the rest of the line.
    return "\n".join(style.render(line, color_system=colors) for line in text.split("\n"))


@cache
def _style(number: int | None, colors: ColorSystem, label: bool) -> Style:
    """Dark text on a light background, whatever the terminal's theme."""
    if colors in (ColorSystem.STANDARD, ColorSystem.WINDOWS):
        background = "white" if number is None else ANSI_COLORS[number]
        return Style(color="black", bgcolor=background, bold=label)
    if number is None:
        return Style(color=LIGHT["on-tint"], bgcolor=LIGHT["none-tint"], bold=label)
    return Style(color=LIGHT["on-tint"], bgcolor=_tint(HUES[number]), bold=label)


def _tint(hue: int) -> Color:
    """More saturated than on a page, so that hues remain distinct with 256 colors."""
    red, green, blue = (255 * part for part in colorsys.hls_to_rgb(hue / 360, 0.75, 0.9))
    return Color.from_rgb(red, green, blue)
