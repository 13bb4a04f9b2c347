"""The reports below docs/results/ are what their results say."""

import re
from pathlib import Path

import pytest

from lacuner.bench.folder import RESULTS, read_results
from lacuner.bench.report import REPORT, report
from lacuner.bench.results import Results, Title

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "docs" / "results").glob(f"*/{RESULTS}"))

LINK = re.compile(r"\]\(([^)#]+\.md)\)")
FIGURE = re.compile(r"\d+\.\d+")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_report_is_made_of_the_results(folder: Path) -> None:
    text = (folder / REPORT).read_text(encoding="utf-8")
    figures = [line[2:-1].split("](") for line in text.splitlines() if line.startswith("![")]
    assert all((folder / file).is_file() for _, file in figures)
    results = Results.of(Title.read(folder), read_results(folder / RESULTS))
    assert figures or not any("epochs" in record or "o_values" in record for record in results.records)
    assert report(results, [(caption, file) for caption, file in figures]) == text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_path_of_a_machine_is_in_the_results(folder: Path) -> None:
    for name in (RESULTS, "recipe.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert "/site-packages/" not in text
        assert "/tmp/" not in text


def test_there_are_some() -> None:
    assert FOLDERS


@pytest.mark.parametrize("name", ["results/README.md", "audit.md", "review.md", "training.md", "methods/lacuner.md"])
def test_what_a_page_quotes_stands_in_the_reports(name: str) -> None:
    page = ROOT / "docs" / name
    quoted = 0
    for line in page.read_text(encoding="utf-8").splitlines():
        linked = [page.parent / link for link in LINK.findall(line)]
        reports = "".join(path.read_text(encoding="utf-8") for path in linked if "results" in path.parts)
        if reports:
            for figure in FIGURE.findall(line):
                assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", reports), (figure, line)
                quoted += 1
    assert quoted > 3
