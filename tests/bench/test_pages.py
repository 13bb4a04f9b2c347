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


def table_of(page: Path, comment: str) -> str:
    """The table that a comment makes."""
    page.write_text(f"<!-- lacuner bench: {comment} -->\n\n")
    renew_tables(page)
    return page.read_text().split("-->\n\n")[1].strip()


def test_a_page_chooses_columns_and_the_best_of_each_is_bold(page: Path) -> None:
    columns = ["toy 0.5", "toy 0.8", "new 0.5"]
    scores = {"full": (0.5, 0.9, 0.1), "crf": (0.6, 0.8, 0.2)}
    records = [
        record(name, f1, data=column.split()[0], hidden=float(column.split()[1]))
        for name, values in scores.items()
        for column, f1 in zip(columns, values, strict=True)
    ]
    three = results([*records, record("full", 0.95, hidden=0.0, complete=True)], naive="full")
    (page.parent / "three").mkdir()
    three.title.write(page.parent / "three")
    write_results(page.parent / "three", three.records, {})
    assert table_of(page, "three; columns: toy 0.8, mean, toy 0.5; full; crf; full, all labels") == (
        "|  | toy 0.8 | mean | toy 0.5 |\n| --- | --: | --: | --: |\n"
        "| `full` | **90.0** | 70.0 | 50.0 |\n| `crf` | 80.0 | 70.0 | **60.0** |\n"
        "| `full`, all labels | 95.0 | 95.0 | 95.0 |"
    )


def test_figures_that_a_longer_run_would_change_are_marked(page: Path) -> None:
    rising = results([record("full", 0.5, epochs=[0.1, 0.5], planned_epochs=2), record("crf", 0.4)])
    (page.parent / "rising").mkdir()
    rising.title.write(page.parent / "rising")
    write_results(page.parent / "rising", rising.records, {})
    assert table_of(page, "rising; full; crf").splitlines() == [
        "| ‡ not converged | toy 0.5 |", "| --- | --: |", "| `full` | **50.0**‡ |", "| `crf` | 40.0 |",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PAGE.replace("uniform;", "columns: toy 0.6; uniform;"),
            r"no result has a column 'toy 0\.6' — choose from: toy",
        ),
        (
            PAGE.replace("uniform;", f"columns: {', '.join(['toy 0.5'] * 8)}; uniform;"),
            r"8 columns are chosen, and a page has room for 7 — leave some out",
        ),
        (PAGE.replace("one two", "one one"), r"another folder has 'uniform' in the column 'toy 0\.5', too — name one"),
        ("# Nothing\n", r"page\.md: it has no comment <!-- lacuner bench: FOLDER; METHOD; METHOD -->"),
        (PAGE.replace("uniform;", "magic;"), r"no result has a row 'magic' — choose from: uniform; full, all labels"),
        (PAGE.replace("one two", "three"), r"three/recipe\.json: .* — give a folder written by lacuner bench run"),
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
