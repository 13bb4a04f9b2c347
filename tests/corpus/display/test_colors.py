import colorsys
import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lacuner
from lacuner.corpus.display.colors import ANSI_COLORS, DARK, HUES, LIGHT, Palette

LABELS = st.lists(st.text(min_size=1, max_size=4).filter(lambda label: label != "O"), max_size=30, unique=True)
REVIEW_CSS = Path(lacuner.__file__).parent / "web" / "static" / "review.css"


@given(LABELS, st.randoms())
def test_the_order_of_labels_changes_no_color(labels, random):
    mixed = random.sample(labels, len(labels))
    assert Palette.of(mixed) == Palette.of(labels)


@given(LABELS)
def test_labels_differ_while_there_are_colors_and_neighbors_always(labels):
    palette = Palette.of(labels)
    numbers = [palette.number(label) for label in sorted(labels)]
    assert len(set(numbers)) == min(len(labels), len(HUES))
    assert all(one != other for one, other in pairwise(numbers))
    assert set(numbers) <= set(range(len(HUES)))


@pytest.mark.parametrize("labels", [("LOC", "MISC", "ORG", "PER"), ("Chemical", "Disease")])
def test_usual_labels_have_the_first_colors(labels):
    assert list(Palette.of(labels).numbers.values()) == [*range(len(labels))]


def test_a_label_alone_has_the_color_that_it_has_among_others():
    conll = Palette.of(("PER", "LOC", "ORG", "MISC"))
    assert all(Palette.of([label]).number(label) == conll.number(label) for label in conll.numbers)
    assert Palette.of([]).number("PER") == conll.number("PER")
    assert Palette.of([]).number("O") is None


def test_the_color_of_a_name_is_the_same_in_every_process():
    assert [Palette.of([]).number(name) for name in ("Lacuna", "妖怪", "x\ud800")] == [6, 3, 5]


def luminance(color: tuple[float, float, float]) -> float:
    """Of sRGB, as WCAG 2 has it."""
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def hsl(hue: float, saturation: str, lightness: str) -> tuple[float, float, float]:
    return colorsys.hls_to_rgb(hue / 360, float(lightness[:-1]) / 100, float(saturation[:-1]) / 100)


def rgb(code: str) -> tuple[float, float, float]:
    digits = code[1:] if len(code) == 7 else "".join(2 * digit for digit in code[1:])
    red, green, blue = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return red, green, blue


@pytest.mark.parametrize("paper", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_that_is_written_on_a_color_can_be_read(paper):
    tints = [hsl(hue, paper["tint-s"], paper["tint-l"]) for hue in HUES] + [rgb(paper["none-tint"])]
    strong = [hsl(hue, paper["strong-s"], paper["strong-l"]) for hue in HUES] + [rgb(paper["none-strong"])]
    assert min(contrast(tint, rgb(paper["on-tint"])) for tint in tints) >= 7
    assert min(contrast(color, rgb(paper["on-strong"])) for color in strong) >= 4.5
    assert min(contrast(*pair) for pair in zip(tints, strong, strict=True)) >= 3, "the line below an entity is seen"


def test_the_review_has_the_same_colors():
    style = REVIEW_CSS.read_text(encoding="utf-8")
    assert tuple(int(hue) for hue in re.findall(r'\[data-color="\d"\] \{ --hue: (\d+) \}', style)) == HUES
    for paper, block in zip((LIGHT, DARK), re.findall(r":root \{(.*?)\n *\}", style, re.DOTALL), strict=True):
        there = dict(re.findall(r"--([\w-]+): ([^;]+);", block))
        assert {name: there[name] for name in paper if name != "on-tint"} == {
            name: value for name, value in paper.items() if name != "on-tint"
        }


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.parametrize(
    "labels", [("LOC", "PER"), ("LOC", "MISC", "ORG", "PER"), ("x", "constructor", "O", "a b", "妖")]
)
def test_pages_with_scripts_show_the_same_colors(labels):
    """The server sends the numbers."""
    palette = Palette.of(labels)
    script = f"""
        const source = (await import("node:fs")).readFileSync(process.argv[1]).toString("base64");
        const {{ colorOf }} = await import("data:text/javascript;base64," + source);
        const colors = {json.dumps(dict(palette.numbers))};
        console.log(JSON.stringify({json.dumps([*labels, "toString"])}.map((label) => colorOf(label, colors))));
    """
    run = ["node", "--input-type=module", "-e", script, str(REVIEW_CSS.with_name("sentence.js"))]
    shown = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    expected = ["none" if palette.number(label) is None else str(palette.number(label)) for label in labels]
    assert shown == [*expected, "none"]


def test_terminals_with_few_colors_have_one_for_each():
    assert len(set(ANSI_COLORS)) == len(HUES)
