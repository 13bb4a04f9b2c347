from pathlib import Path

import pytest
from handmade import record, results

from lacuner.bench.folder import write_results
from lacuner.bench.pages import read_scores, renew_tables, with_tables
from lacuner.errors import ConfigError

PAGE = "# Mine\n\n<!-- lacuner bench: one two; uniform; full, all labels -->\n\n| old |\n| --- |\n\nAfter it.\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page beside the results of two benches; the second has two encoders."""
    one = results([record("uniform", 0.5), record("uniform", 0.7, 2), record("full", 0.9, complete=True)], naive="full")
    two = results(
        [record("uniform", 0.4, hidden=0.8), record("uniform", 0.8, hidden=0.8, encoder="bert")],
        encoders=["recurrent", "bert"],
    )
    for name, found in (("one", one), ("two", two)):
        (tmp_path / name).mkdir()
        found.title.write(tmp_path / name)
        write_results(tmp_path / name, found.records, {})
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_table_is_made_again_from_the_results_and_nothing_else_changes(page: Path) -> None:
    assert renew_tables(page) == 1
    assert page.read_text() == PAGE.replace(
        "| old |\n| --- |\n",
        "|  | toy 0.5 | toy 0.8 | mean |\n| --- | --: | --: | --: |\n"
        "| `uniform` | 60.0 ± 14.1 | 40.0 | 50.0 |\n| `full`, all labels | 90.0 |  |  |\n",
    )
    again = page.read_text()
    assert with_tables(again, page.parent) == (again, 1)


def test_rows_of_other_encoders_have_its_name(page: Path) -> None:
    assert read_scores(page.parent / "two") == {"toy 0.8": {"uniform": [40.0], "uniform · bert": [80.0]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Nothing\n", r"page\.md: it has no comment <!-- lacuner bench: FOLDER; METHOD; METHOD -->"),
        (PAGE.replace("uniform;", "magic;"), r"no result has a row 'magic' — choose from: uniform; full, all labels"),
        (PAGE.replace("one two", "three"), r"three/recipe\.json: .* — give the folder that a bench has written"),
    ],
)
def test_what_cannot_be_made_is_said_and_the_page_stays_as_it_is(page: Path, text: str, message: str) -> None:
    page.write_text(text)
    with pytest.raises(ConfigError, match=message):
        renew_tables(page)
    assert page.read_text() == text


def test_a_page_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.md: .* — give a Markdown file"):
        renew_tables(tmp_path / "none.md")
