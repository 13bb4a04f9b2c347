import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem

from lacuner.corpus.display.colors import HUES, Palette
from lacuner.corpus.display.marks import Mark
from lacuner.corpus.display.terminal import bracketed

PALETTE = Palette.of(["PER", "LOC", "ORG"])
COLORED = [ColorSystem.STANDARD, ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(
    ("text", "marks", "shown"),
    [
        ("Ada moved to Turin.", [Mark(0, 3, "PER"), Mark(13, 18, "LOC")], "[Ada PER] moved to [Turin LOC]."),
        ("New York Times", [Mark(0, 8, "LOC"), Mark(0, 14, "ORG")], "[[New York LOC] Times ORG]"),
        ("abc", [Mark(0, 2, "X"), Mark(1, 3, "Y")], "[a[b Y …] X][c Y]"),
        ("\x1b[2J!", [Mark(0, 4, "\x07")], "[␛[2J ␇]!"),
    ],
)
@pytest.mark.parametrize("colors", [None, *COLORED])
def test_entities_and_labels_are_seen_without_colors(text, marks, shown, colors):
    drawn = bracketed(text, marks, PALETTE, colors)
    assert plain(drawn) == shown
    assert ("\x1b" in drawn) == (colors is not None)


@given(st.text(), st.sampled_from(COLORED))
def test_no_text_reaches_the_terminal_as_a_command(text, colors):
    drawn = bracketed(text + "x", [Mark(0, len(text) + 1, text + "x")], PALETTE, colors)
    assert not re.search(r"[\0-\x08\x0b\x0e-\x1f\x7f-\x9f]", plain(drawn))


@pytest.mark.parametrize("colors", COLORED)
def test_colors_differ_in_every_terminal(colors):
    palette = Palette.of([f"L{number}" for number in range(len(HUES))])
    assert sorted(palette.numbers.values()) == [*range(len(HUES))]
    drawn = [bracketed("x", [Mark(0, 1, label)], palette, colors) for label in palette.numbers]
    assert len({each.partition("m")[0] for each in drawn}) == len(HUES)


def test_a_color_ends_with_the_line():
    drawn = bracketed("New\nYork", [Mark(0, 8, "LOC")], PALETTE, ColorSystem.EIGHT_BIT)
    assert all(line.count("\x1b[0m") == line.count("\x1b[") / 2 for line in drawn.split("\n"))
