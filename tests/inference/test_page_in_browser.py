"""The page of ``predict --out x.html`` in a real browser."""

import re
import shutil
from pathlib import Path

import pytest

from lacuner import Entity
from lacuner.inference.output import OutputOptions, PredictionInput, PredictionReport

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; make setup installs it")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; make setup installs it where it can")

LABELS = ["A", "B", "C", "D", "E", "F", "G", "H", "<script>document.title = 1</script>"]
TEXTS = [
    *((f"Ada {label} slept", [Entity(0, 3, label, score=0.5)]) for label in LABELS),
    ("<img src=x onerror='document.title = 2'>", []),
    ("נולד בתל אביב", [Entity(6, 13, "A")]),
    ("", []),
    ("New York Times", [Entity(0, 14, "B"), Entity(0, 8, "C")]),
]
COLORS = """
() => [...document.querySelectorAll("mark, .tag")].map((each) => {
  const style = getComputedStyle(each);
  return [style.color, style.backgroundColor];
})
"""


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_a_page_is_whole_readable_and_harmless_in_light_and_dark(tmp_path: Path) -> None:
    output, report = OutputOptions("html", "Names"), PredictionReport()
    writer = output.writer(LABELS, "words")
    shown = [writer.write(n, PredictionInput(text, {}), found, report) for n, (text, found) in enumerate(TEXTS, 1)]
    report.labels.update(LABELS)
    path = tmp_path / "x.html"
    path.write_text(output.beginning() + "".join(shown) + output.end(report), encoding="utf-8")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        backgrounds = []
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(path.as_uri())
            assert (page.title(), asked) == ("Names", [path.as_uri()])
            pairs = page.evaluate(COLORS)
            assert len(pairs) == 2 * 12 + len(LABELS), "an entity and its label, and the labels of the summary"
            assert min(contrast(*pair) for pair in pairs) >= 4.5
            backgrounds.append({background for _, background in pairs})
            tops = page.evaluate(
                "() => [...document.querySelectorAll('li, #summary')].map((e) => e.getBoundingClientRect().top)"
            )
            assert tops == sorted(set(tops)), "one below the other"
            assert page.evaluate("() => getComputedStyle(document.querySelector('#t11 .text')).direction") == "rtl"
            assert page.locator("#t13 mark mark").inner_text().startswith("New York")
        browser.close()
    assert len(backgrounds[0]) == len(backgrounds[1]) == 16
    assert backgrounds[0].isdisjoint(backgrounds[1])
