"""The reports below docs/results/ are what their results say, and no page has a figure that no report has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lacuner.bench.folder import RESULTS, read_results
from lacuner.bench.recipe import known_recipes
from lacuner.bench.report import REPORT, report
from lacuner.bench.results import Results, Title

ROOT = Path(__file__).parents[2]
HOME = ROOT / "docs" / "results"
FOLDERS = sorted(path for path in HOME.iterdir() if path.is_dir())
"""None, as long as nothing is measured."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent not in FOLDERS)

LINK = re.compile(r"\]\(([^)#]+\.md)\)")
FIGURE = re.compile(r"\d+\.\d+")
DEVIATION, INTERVAL = re.compile(r" ± \d+\.\d+"), re.compile(r"\[-?\d+\.\d+, -?\d+\.\d+\]")
WHOLE_SPREAD = re.compile(r"\d+\.\d+ ± \d+\.\d+")
SPREAD = re.compile(r"\d ± \d")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BORDER = re.compile(r"\n\s*\n|\n(?=\s*(?:\||[*-] |\d+\. ))")
"""Between two paragraphs, items of a list, or rows of a table."""
MADE = re.compile(r"^<!-- lacuner bench: [^\n]+ -->\n+(?:\|.*\n)*", re.MULTILINE)
"""A table that ``lacuner bench tables`` makes; test_results.py compares it with the results."""


def written_paragraphs(page: Path) -> Iterator[tuple[str, list[Path]]]:
    """Paragraphs, items of lists and rows of tables that a person has written, and the reports that each of them links."""
    text = MADE.sub("", CODE.sub("", page.read_text(encoding="utf-8")))
    for paragraph in filter(str.strip, BORDER.split(text)):
        linked = ((page.parent / link).resolve() for link in LINK.findall(paragraph))
        yield paragraph, [path for path in linked if path.name == REPORT]


def quotable(report: str) -> str:
    """What a page may mean with a figure: not a deviation, the border of an interval, or a cost, which are there by chance."""
    return INTERVAL.sub("", DEVIATION.sub("", report.split("\n## Cost\n", maxsplit=1)[0]))


def misquoted(page: Path) -> list[tuple[str, str]]:
    """Figures in paragraphs that link a report, which the report does not have; and means ± deviations without a report."""
    wrong = []
    for paragraph, linked in written_paragraphs(page):
        whole = "".join(path.read_text(encoding="utf-8") for path in linked)
        wrong += [(spread, paragraph) for spread in WHOLE_SPREAD.findall(paragraph) if linked and spread not in whole]
        reports = "".join(quotable(path.read_text(encoding="utf-8")) for path in linked)
        quoted = FIGURE.findall(DEVIATION.sub("", paragraph)) if linked else SPREAD.findall(paragraph)
        wrong += [
            (figure, paragraph)
            for figure in quoted
            if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", reports)
        ]
    return wrong


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


def test_the_table_of_results_links_every_folder_and_names_recipes_that_exist() -> None:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^\| recipe \| folder \| state \|\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    linked = {HOME / Path(link).parent for link in LINK.findall(section)}
    assert linked == set(FOLDERS)
    questions = re.findall(
        r"^\| [^|\n]+ \| ([^|\n]*`[^|\n]+) \|", text.split("## Questions to the papers")[1], re.MULTILINE
    )
    assert len(questions) > 20
    named = re.findall(r"^\| `([a-z-]+)`", section, re.MULTILINE) + re.findall(r"`([a-z-]+)`", " ".join(questions))
    assert set(named) <= known_recipes().keys()


def test_every_question_to_a_paper_has_a_verdict_and_a_verdict_has_its_report() -> None:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(
        r"^\| a paper says \| recipe \| verdict \|\n\|[^\n]+\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL
    )
    for line in section.splitlines():
        _, _, recipe, verdict, _ = line.split("|")
        if not verdict.startswith(" not yet"):
            assert verdict.startswith((" **reproduced**", " **partly**", " **not at this scale**")), line
            assert "/report.md)" in recipe, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_quotes_stands_in_the_reports(page: Path) -> None:
    assert misquoted(page) == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("F1 52.0 ± 2.6 ([report](distant/report.md)).", []),
        ("F1 52.1 ± 2.6 ([report](distant/report.md)).", ["52.1 ± 2.6", "52.1"]),
        ("F1 2.0 ([report](distant/report.md)).", ["2.0"]),
        ("F1 2.6 ([report](distant/report.md)).", ["2.6"]),
        ("F1 52.0 ± 2.7 ([report](distant/report.md)).", ["52.0 ± 2.7"]),
        ("F1 3.4 ([report](distant/report.md)).", ["3.4"]),
        ("F1 52.0, of which\n12.3 are new\n([report](distant/report.md)).", ["12.3"]),
        ("* F1 52.0 ([report](distant/report.md)),\n  not 12.3.\n* Version 4.5 is another item.", ["12.3"]),
        ("F1 52.0 ([report](distant/report.md)).\n\nVersion 4.5 is another paragraph.", []),
        ("F1 52.0 ± 2.6, as everybody knows.", ["0 ± 2"]),
        ("The paper reports 91.41.", []),
        ("<!-- lacuner bench: distant; full -->\n\n| `full` | 52.0 ± 2.6 |\n", []),
        ("<!-- lacuner bench: distant; full -->\n\n| `full` | 1 |\n\n| `crf` | 52.0 ± 2.6 |\n", ["0 ± 2"]),
        ("```text\n52.0 ± 2.6\n```\n", []),
    ],
)
def test_a_figure_that_no_report_has_is_noticed(tmp_path: Path, line: str, wrong: list[str]) -> None:
    (tmp_path / "distant").mkdir()
    (tmp_path / "distant" / REPORT).write_text("| full | 52.0 ± 2.6 |\n\n## Cost\n\n| full | 3.4 |\n", encoding="utf-8")
    (tmp_path / "page.md").write_text(f"# A page\n\n{line}\n", encoding="utf-8")
    assert [figure for figure, _ in misquoted(tmp_path / "page.md")] == wrong
