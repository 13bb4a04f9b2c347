from pathlib import Path
from typing import Any

import pytest
from handmade import counts, recipe, record, results, table
from hypothesis import given
from hypothesis import strategies as st

from lacuner.bench.report import headline, report, write_report
from lacuner.bench.results import Results, Title, spread, summary
from lacuner.bench.tables import (
    best_seed_table,
    cost_table,
    difference_table,
    gap_table,
    main_table,
    markdown_table,
    missampling_table,
    o_value_table,
    precision_table,
    threshold_table,
)
from lacuner.errors import ConfigError

GOOD = counts([2] * 60, [2] * 60, [2] * 60)
BAD = counts([1] * 60, [2] * 60, [2] * 60)


def test_a_table_holds_mean_and_deviation_over_the_seeds() -> None:
    found = results([record("full", f1, seed) for seed, f1 in enumerate((0.5, 0.6, 0.7))])
    text = main_table(found)
    assert table(text) == {("`full`", "toy 0.5"): "60.0 ± 10.0"}
    assert text.endswith("F1 on test data in percent, mean ± standard deviation over seeds.")


def test_a_single_seed_has_no_deviation() -> None:
    assert table(main_table(results([record("full", 0.512)]))) == {("`full`", "toy 0.5"): "51.2"}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_the_order_of_seeds_does_not_matter(values: list[float]) -> None:
    assert spread(values) == spread(values[::-1])
    assert ("±" in spread(values)) == (len(values) > 1)


def test_rows_stand_in_the_order_of_the_recipe_and_columns_in_that_of_the_cells() -> None:
    records = [record(run, hidden=hidden) for hidden in (0.6, 0.2) for run in ("crf", "full")]
    found = results(records, methods=["full", "crf"])
    assert (found.rows, found.columns) == (["full", "crf"], ["toy 0.6", "toy 0.2"])


def test_columns_stand_in_the_order_of_the_recipe_whatever_is_done_first() -> None:
    records = [record(data=data, hidden=hidden) for data, hidden in (("b", 0.5), ("a", 0.5), ("a", 0.2))]
    assert results(records, data=["a", "b"], hidden=[0.2, 0.5]).columns == ["a 0.2", "a 0.5", "b 0.5"]


def test_what_a_run_has_more_than_one_row_of_stands_together() -> None:
    names = ("uniform", "uniform, reviewed", "full", "full, reviewed")
    rows = {name: {"test": {"f1": 0.5}} for name in names}
    records = [
        record(run, None, rows={n: r for n, r in rows.items() if n.startswith(run)}) for run in ("uniform", "full")
    ]
    assert tuple(results(records).rows) == names


def test_all_labels_alone_are_reported_too(tmp_path: Path) -> None:
    found = results([record("full", 0.9, hidden=0.0, complete=True, epochs=[0.5, 0.9])], hidden=[0.5], naive="full")
    assert table(main_table(found)) == {("`full`, all labels", "toy"): "90.0"}
    write_report(found, tmp_path)
    assert (tmp_path / "figures" / "epochs.svg").is_file()


def test_several_columns_have_a_mean_where_none_is_empty() -> None:
    records = [record("full", 0.5, hidden=0.2), record("full", 0.7, hidden=0.0), record("crf", 0.9, hidden=0.2)]
    assert table(main_table(results(records))) == {
        ("`full`", "toy 0.2"): "50.0",
        ("`full`", "toy"): "70.0",
        ("`full`", "mean"): "60.0",
        ("`crf`", "toy 0.2"): "**90.0**",
        ("`crf`", "toy"): "",
        ("`crf`", "mean"): "",
    }


def test_what_the_paper_reports_stands_in_brackets() -> None:
    paper = {"full": {"toy 0.5": 61.25, "toy": 99.0}, "crf": {"toy": 1.0}}
    text = main_table(results([record("full", 0.5), record("crf", 0.4)], paper=paper, hidden=[0.0, 0.5]))
    assert table(text) == {("`full`", "toy 0.5"): "**50.0** (61.3)", ("`crf`", "toy 0.5"): "40.0"}
    assert "In brackets: what the paper reports." in text
    assert "brackets" not in main_table(results([record("crf", 0.4)], paper={"crf": {"toy": 1.0}}, hidden=[0.0, 0.5]))


@pytest.mark.parametrize(("figure", "shown"), [(46.55, "46.6"), (50.65, "50.7"), (66.17, "66.2"), (46.54, "46.5")])
def test_figures_of_papers_are_rounded_as_people_do(figure: float, shown: str) -> None:
    """46.55 is a little less as a binary number, and Python rounds what is exactly half to the even digit."""
    text = main_table(results([record("full", 0.5)], paper={"full": {"toy 0.5": figure}}))
    assert table(text) == {("`full`", "toy 0.5"): f"50.0 ({shown})"}


def test_the_note_says_what_the_papers_figures_were_made_with() -> None:
    of_bert = {"paper": {"full": {"toy 0.5": 61.0}}, "paper_encoder": "models with BERT"}
    assert "In brackets: what the paper reports, for models with BERT." in main_table(
        results([record("full")], **of_bert)
    )


def test_a_dictionary_that_did_not_make_the_labels_is_no_lower_bound() -> None:
    records = [record("kb", 0.4, encoder="", data=data, hidden=0.0) for data in ("toy", "news")]
    found = results([*records, record("full", hidden=0.0)], dataset={"news": {"other_dictionary": True}})
    assert (
        "The training labels of news were not made with the dictionary of `kb`, which is only another source"
        in main_table(found)
    )
    assert "elsewhere" not in main_table(results(records))


def test_the_report_says_what_a_simple_remedy_does_alone() -> None:
    records = [
        *seeds("base", 0.5, BAD),
        *seeds("simple", 0.6, GOOD),
        *seeds("good", 0.7, GOOD),
        *seeds("base", 0.9, GOOD, hidden=0.0, complete=True),
    ]
    text = report(results(records, baseline="base", naive="base", reference="simple"))
    assert "`simple` alone closes 25% in toy 0.5; a method has to close more." in text
    (section,) = [part for part in text.split("## ") if part.startswith("Differences to `simple`")]
    assert table(section)["`good`", "toy 0.5"] == "+0.0 [0.0, 0.0] 1.000"
    assert "has to close more" not in report(results(records, baseline="base", naive="base"))


def test_the_paper_may_report_something_else_for_each_encoder() -> None:
    records = [record("full", 0.5, encoder=encoder) for encoder in ("flat", "recurrent")]
    paper = {"full": {"toy 0.5": 61.0}, "full · flat": {"toy 0.5": 72.0}}
    found = table(main_table(results(records, encoders=["recurrent", "flat"], paper=paper)))
    assert found == {("`full` · recurrent", "toy 0.5"): "50.0 (61.0)", ("`full` · flat", "toy 0.5"): "50.0 (72.0)"}


def test_what_the_paper_reports_is_not_about_all_labels() -> None:
    records = [record("full", 0.5), record("full", 0.8, hidden=0.0, complete=True)]
    found = table(main_table(results(records, paper={"full": {"toy 0.5": 61.0, "toy": 62.0}})))
    assert found["`full`, all labels", "toy 0.5"] == "80.0"


def seeds(method: str, f1: float, found: dict[str, str], count: int = 3, **more: Any) -> list[dict[str, Any]]:
    """The results of so many seeds, all alike."""
    return [record(method, f1, seed, counts=found, **more) for seed in range(1, count + 1)]


def test_signs_say_what_differs_from_the_baseline() -> None:
    records = [
        *seeds("base", 0.5, BAD),
        *seeds("same", 0.5, BAD),
        *seeds("good", 1.0, GOOD),
        *(record("unknown", 0.9, seed) for seed in (1, 2, 3)),
    ]
    text = main_table(results(records, baseline="base"))
    assert {row: cell for (row, _), cell in table(text).items()} == {
        "`base`": "50.0 ± 0.0", "`same`": "50.0 ± 0.0", "`good`": "**100.0 ± 0.0**↑", "`unknown`": "90.0 ± 0.0",
    }  # fmt: skip
    assert (
        "↑ better and ↓ worse than `base`, p < 0.05 (paired bootstrap over sentences, Student's t over seeds; 2,000 resamples)."
        in text
    )
    worse = main_table(results(records, baseline="good"))
    assert table(worse)["`base`", "toy 0.5"] == "50.0 ± 0.0↓"
    assert "bootstrap" not in main_table(results(records))


def test_signs_stand_before_the_papers_figure() -> None:
    records = [*seeds("base", 0.5, BAD), *seeds("good", 1.0, GOOD)]
    found = table(main_table(results(records, baseline="base", paper={"good": {"toy 0.5": 98.0}})))
    assert found["`good`", "toy 0.5"] == "**100.0 ± 0.0**↑ (98.0)"


@pytest.mark.parametrize(("count", "is_tested"), [(1, False), (2, False), (3, True)])
def test_nothing_is_said_about_significance_for_fewer_than_three_seeds(count: int, is_tested: bool) -> None:
    records = [*seeds("base", 0.5, BAD), *seeds("good", 1.0, GOOD, count)]
    found = results(records, baseline="base")
    text = report(found)
    assert (found.differences != {}) == ("↑" in text) == ("## Differences to `base`" in text) == is_tested
    assert ("Significance is not tested with fewer than 3 seeds." in text) == (not is_tested)


def test_what_is_not_trained_is_compared_with_every_seed_of_the_baseline() -> None:
    listed = record("kb", 1.0, encoder="", counts=GOOD)
    found = results([*seeds("base", 0.5, BAD), listed], baseline="base")
    assert table(main_table(found)) == {("`base`", "toy 0.5"): "50.0 ± 0.0", ("`kb`", "toy 0.5"): "**100.0**↑"}
    assert "†" not in main_table(found)  # a second seed would find the same
    against = results([*seeds("base", 0.5, BAD), *seeds("base", 0.5, BAD, encoder="flat"), listed], baseline="kb")
    assert against.rows == ["base · recurrent", "kb", "base · flat"]
    assert [round(one.f1, 6) for one in against.differences.values()] == [-0.5, -0.5]


def test_the_best_of_each_column_is_bold_and_all_labels_do_not_compete() -> None:
    scores = {"a": (0.5, 0.8), "b": (0.6, 0.8), "c": (0.6004, 0.7)}
    records = [
        record(name, f1, hidden=h) for name, both in scores.items() for h, f1 in zip((0.2, 0.7), both, strict=True)
    ]
    text = main_table(results([*records, record("a", 0.9, hidden=0.0, complete=True)], naive="a"))
    cells = table(text)
    bold = {cell for cell, shown in cells.items() if "**" in shown}
    assert bold == {
        ("`b`", "toy 0.2"), ("`c`", "toy 0.2"), ("`a`", "toy 0.7"), ("`b`", "toy 0.7"), ("`b`", "mean"),
    }  # fmt: skip
    assert cells["`a`, all labels", "toy 0.2"] == "90.0"
    assert "Bold: the best of its column." in text
    assert "**" not in main_table(results([record("a"), record("b")]))  # nobody has won


def test_what_was_still_getting_better_is_marked_and_listed() -> None:
    rising = [0.1, 0.2, 0.3, 0.4, 0.5]
    records = [
        record("full", 0.5, 1, epochs=rising, planned_epochs=5),
        record("full", 0.5, 2, epochs=[0.5] * 5, planned_epochs=5),
        record("crf", 0.4, 1, epochs=rising, planned_epochs=9),  # patience was over
        record("crf", 0.4, 2, epochs=rising),
    ]
    text = report(results(records))
    assert table(text) == {("`full`", "toy 0.5"): "**50.0 ± 0.0**‡", ("`crf`", "toy 0.5"): "40.0 ± 0.0"}
    assert "‡ not converged: dev F1 was still rising when its epochs were over, or it stayed 0." in text
    assert (
        "## Not converged\n\nDev F1 rose by more than 1 point, and by more than its standard error, in the last" in text
    )
    assert [line for line in text.splitlines() if line.startswith("* ")] == [
        "* toy 0.5, full, seed 1: +10.0 points in the last 1 of 5 epochs"
    ]
    assert "onverged" not in report(results(records[1:]))


def test_a_model_that_never_finds_anything_is_marked_and_listed() -> None:
    """A table of zeros is no result about methods."""
    nothing = [record("full", 0.0, hidden=0.0, complete=True, epochs=[0.0] * 3, planned_epochs=3)]
    text = report(results([*nothing, record("full", 0.0, epochs=[0.0] * 3, planned_epochs=3)], naive="full"))
    assert table(text) == {("`full`", "toy 0.5"): "0.0‡", ("`full`, all labels", "toy 0.5"): "0.0‡"}
    assert "* toy 0.5, full, seed 1: no entity of the dev data is found in any of 3 epochs" in text


def test_differences_are_those_of_seeds_that_both_have_and_of_the_same_encoder() -> None:
    records = [
        *seeds("base", 0.5, BAD),
        *seeds("base", 0.5, GOOD, encoder="flat"),
        *seeds("good", 0.5, GOOD),
        record("good", seed=4, counts=BAD),
        *seeds("good", 0.5, GOOD, encoder="flat"),
        *(record("good", seed=seed, counts=GOOD, hidden=0.7) for seed in (4, 5, 6)),
        *seeds("base", 0.5, BAD, hidden=0.7),
    ]
    found = results(records, baseline="base", encoders=["recurrent", "flat"])
    assert {place: round(one.f1, 6) for place, one in found.differences.items()} == {
        ("good · recurrent", "toy 0.5"): 0.5,
        ("good · flat", "toy 0.5"): 0.0,
    }


def test_models_that_were_tested_on_other_sentences_are_not_compared() -> None:
    records = [*seeds("base", 0.5, BAD), *seeds("good", 0.5, counts([1], [1], [1]))]
    assert results(records, baseline="base").differences == {}
    assert difference_table(results(records, baseline="base"), "base") == ""


def test_the_table_of_differences_has_their_interval_and_p() -> None:
    mixed = counts([2, 0] * 30, [2] * 60, [2] * 60)
    records = [*seeds("base", 0.5, BAD), *seeds("good", 0.5, GOOD), *seeds("mixed", 0.5, mixed)]
    found = table(difference_table(results(records, baseline="base"), "base"))
    assert found["`good`", "toy 0.5"] == "+50.0 [50.0, 50.0] < 0.001"
    assert found.keys() == {("`good`", "toy 0.5"), ("`mixed`", "toy 0.5")}
    assert found["`mixed`", "toy 0.5"].startswith("+0.0 [-")
    assert found["`mixed`", "toy 0.5"].endswith("1.000")


def naive_records(ours: float, naive: float, all_labels: float, **more: Any) -> list[dict[str, Any]]:
    return [
        record("naive", naive, **more),
        record("ours", ours, **more),
        record("naive", all_labels, **more | {"hidden": 0.0, "complete": True}),
    ]


@pytest.mark.parametrize(
    ("ours", "naive", "all_labels", "cell"),
    [
        (0.5, 0.5, 0.9, "0%"),
        (0.9, 0.5, 0.9, "100%"),
        (0.6, 0.5, 0.9, "25%"),
        (0.4, 0.5, 0.9, "-25%"),
        (0.6, 0.5, 0.5, "—"),
        (0.6, 0.5, 0.4, "—"),
        (0.6, 0.5, 0.549, "—"),
    ],
)
def test_the_gap_is_between_naive_with_gaps_and_with_all_labels(
    ours: float, naive: float, all_labels: float, cell: str
) -> None:
    text = gap_table(results(naive_records(ours, naive, all_labels), naive="naive"))
    assert table(text) == {("`ours`", "toy 0.5"): cell}
    assert "0 %: `naive` trained on labels with gaps; 100 %: `naive` trained on all labels." in text
    assert ("—: the gaps cost less than 5 points" in text) == (cell == "—")


def test_the_gap_is_measured_with_the_same_encoder_and_the_mean_of_seeds() -> None:
    records = [
        *naive_records(0.6, 0.5, 0.9),
        *naive_records(0.8, 0.5, 0.9, seed=2),
        *naive_records(0.3, 0.2, 0.4, encoder="flat"),
    ]
    found = results(records, naive="naive", encoders=["recurrent", "flat"])
    assert table(gap_table(found)) == {
        ("`ours` · recurrent", "toy 0.5"): "50%",
        ("`ours` · flat", "toy 0.5"): "50%",
    }


def test_without_all_labels_there_is_no_gap() -> None:
    records = naive_records(0.6, 0.5, 0.9)
    assert gap_table(results(records)) == ""
    assert gap_table(results(records[:2], naive="naive")) == ""
    more = [*records, *naive_records(0.6, 0.5, 0.9, data="other")[:2]]
    assert table(gap_table(results(more, naive="naive"))) == {("`ours`", "toy 0.5"): "25%", ("`ours`", "other 0.5"): ""}


def test_with_several_encoders_every_row_says_which() -> None:
    records = [record(run, encoder=encoder) for run in ("full", "crf") for encoder in ("flat", "recurrent")]
    found = results(records, encoders=["recurrent", "flat"])
    assert found.rows == ["full · recurrent", "crf · recurrent", "full · flat", "crf · flat"]
    assert [row for row, _ in table(main_table(found))] == [
        "`full` · recurrent", "`crf` · recurrent", "`full` · flat", "`crf` · flat",
    ]  # fmt: skip


def test_all_labels_stand_in_all_columns_of_their_dataset_and_in_no_other() -> None:
    names = ("toy", "toy two", "toy two three")
    records = [
        one
        for number, data in enumerate(names)
        for one in (
            *(record("full", 0.5, data=data, hidden=hidden) for hidden in (0.0, 0.2, 0.7)),
            record("full", 0.6 + number / 10, data=data, hidden=0.0, complete=True),
        )
        if data != "toy two" or not one["complete"]
    ]
    found = results(records, data=list(names))
    assert len(found.columns) == 9
    assert found.rows == ["full", "full, all labels"]
    cells = table(main_table(found))
    assert {column: cells["`full`, all labels", column] for column in found.columns} == {
        "toy": "60.0", "toy 0.2": "60.0", "toy 0.7": "60.0",
        "toy two": "", "toy two 0.2": "", "toy two 0.7": "",
        "toy two three": "80.0", "toy two three 0.2": "80.0", "toy two three 0.7": "80.0",
    }  # fmt: skip


def test_the_bands_of_uncertainty_are_rows() -> None:
    def cell(seed: int, *scores: float) -> dict[str, Any]:
        rows = {
            name: {"test": {"f1": f1}, "dev": {"f1": f1}, "uncertainty": 0.1, "negatives": 3}
            for name, f1 in zip(("top-k", "middle-k", "bottom-k"), scores, strict=True)
        }
        return record("uniform", None, seed, rows=rows)

    cells = [cell(1, 0.8, 0.7, 0.6), cell(2, 0.9, 0.8, 0.7)]
    found = results(cells, experiment="uncertainty", paper={"top-k": {"toy 0.5": 88.82}})
    assert list(table(main_table(found)).items()) == [
        (("`top-k`", "toy 0.5"), "**85.0 ± 7.1** (88.8)"),
        (("`middle-k`", "toy 0.5"), "75.0 ± 7.1"),
        (("`bottom-k`", "toy 0.5"), "65.0 ± 7.1"),
    ]


def test_o_values_have_a_row_for_each_epoch() -> None:
    def measured(run: str, seed: int, *precisions: float) -> dict[str, Any]:
        return record(run, None, seed, o_values={"epochs": [{"average_precision": one} for one in precisions]})

    found = results([measured("crf", 1, 0.2, 0.3), measured("crf", 2, 0.4, 0.3), measured("token", 1, 0.9)])
    assert main_table(found) == ""
    assert table(o_value_table(found)) == {
        ("`crf`, epoch 1", "toy 0.5"): "30.0 ± 14.1",
        ("`crf`, epoch 2", "toy 0.5"): "30.0 ± 0.0",
        ("`token`, epoch 1", "toy 0.5"): "90.0",
        ("`token`, epoch 2", "toy 0.5"): "",
    }
    assert o_value_table(results([record()])) == ""


def test_missampling_is_the_mean_of_the_epochs_in_percent() -> None:
    records = [
        record("full", seed=1, missampling=[{"rate": 0.01}, {"rate": 0.03}]),
        record("full", seed=2, missampling=[{"rate": 0.04}]),
        record("crf", hidden=0.2),
    ]
    assert table(missampling_table(results(records))) == {
        ("`full`", "toy 0.5"): "3.000 ± 1.414",
        ("`full`", "toy 0.2"): "",
    }
    assert missampling_table(results([record()])) == ""


def test_thresholds_have_a_row_for_each_number_of_dev_sentences() -> None:
    def sized(sentences: int, *f1: float) -> dict[str, Any]:
        return {"sentences": sentences, "thresholds": [0.5] * len(f1), "f1": f1}

    def measured(seed: int, whole: int, **more: Any) -> dict[str, Any]:
        sizes = [sized(0, 0.1), sized(25, 0.2, 0.4), sized(whole, 0.5)]
        return record("full", None, seed, **more) | {"threshold-size": sizes}

    found = results([measured(1, 90), measured(2, 90), measured(1, 70, data="other"), record("crf")])
    cells = table(threshold_table(found))
    assert {(row, column): cell for (row, column), cell in cells.items() if column == "toy 0.5"} == {
        ("`full`, no threshold", "toy 0.5"): "10.0 ± 0.0",
        ("`full`, 25 dev sentences", "toy 0.5"): "30.0 ± 11.5",
        ("`full`, all dev sentences", "toy 0.5"): "50.0 ± 0.0",
    }
    assert cells["`full`, all dev sentences", "other 0.5"] == "50.0"
    assert threshold_table(results([record()])) == ""


def test_the_cost_is_the_mean_of_seconds_and_the_greatest_memory() -> None:
    records = [
        record("full", seed=1, cpu_seconds=1000.4, peak_memory_mb=1500),
        record("full", seed=2, cpu_seconds=2000, peak_memory_mb=1740),
        record("crf", hidden=0.1),
    ]
    assert table(cost_table(results(records))) == {("`full`", "toy 0.5"): "1,500 s, 1.7 GB", ("`full`", "toy 0.1"): ""}
    assert cost_table(results([record()])) == ""


def test_precision_and_recall_are_means_over_the_seeds() -> None:
    found = results([record("full", 0.5, 1), record("full", 0.7, 2), record("crf", None)])
    assert table(precision_table(found)) == {("`full`", "toy 0.5"): "60.0 / 30.0"}


def test_missing_cells_are_empty_and_failures_are_listed() -> None:
    title = Title("test", "quick", recipe(methods=["full", "crf"], naive="full", baseline="full"))
    records = [record("full", 0.5), record("crf", 0.6, hidden=0.7)]
    text = report(Results.of(title, records, {"1": "toy 0.7, full: it broke", "2": "toy 0.5, crf: no memory"}))
    cells = table(text)
    assert cells["`full`", "toy 0.7"] == cells["`crf`", "toy 0.5"] == ""
    assert text.endswith("## Failed\n\n* toy 0.7, full: it broke\n* toy 0.5, crf: no memory\n")
    assert "## Failed" not in report(Results.of(title, records))


def test_a_report_says_how_it_was_made_and_has_only_sections_with_something_in_them() -> None:
    title = Title("mine", "quick", recipe(title="Two methods", about="\nWhy they differ.\n"))
    text = report(Results.of(title, [record("full", seed=2), record("full", seed=10), record("uniform", seed=2)]))
    head, about, made, *_ = text.split("\n\n")
    assert (head, about) == ("# Two methods", "Why they differ.")
    assert made.startswith("`lacuner bench mine --profile quick`: 3 results, seeds 2, 10, lacuner 0.1. ")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Two methods", "## Precision and recall"]


def test_figures_are_shown_with_their_captions() -> None:
    assert "\n## Figures\n\n![A curve](figures/curve.svg)\n" in report(
        results([record()]), [("A curve", "figures/curve.svg")]
    )


def test_figures_can_be_left_out(tmp_path: Path) -> None:
    found = results([record(epochs=[0.1, 0.2])])
    assert write_report(found, tmp_path, figures=False) == tmp_path / "report.md"
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == report(found)


def test_the_main_table_for_machines_has_fractions() -> None:
    found = summary(results([record("full", 0.5, 1), record("full", 0.7, 2), record("crf", 0.25), record("eer", None)]))
    same = {"encoder": "recurrent", "column": "toy 0.5"}
    assert found["results"] == 4
    assert found["table"] == [
        {"method": "full", "row": "full", "f1": 0.6, "deviation": pytest.approx(0.02**0.5), "seeds": 2, **same},
        {"method": "crf", "row": "crf", "f1": 0.25, "deviation": None, "seeds": 1, **same},
    ]


def test_a_markdown_table_is_one() -> None:
    assert markdown_table(["", "a", "b"], [["x", "1", ""]]) == "|  | a | b |\n| --- | --: | --: |\n| x | 1 |  |"


def test_a_title_is_written_and_read_again(tmp_path: Path) -> None:
    title = Title(
        "mine", "full", recipe(paper={"full": {"toy": 1.5}}, when=[{"hidden": [0.0], "settings": {"a": [1]}}])
    )
    title.write(tmp_path)
    assert Title.read(tmp_path) == title


@pytest.mark.parametrize("content", [None, "{", "{}", '{"name": "x", "profile": "full", "recipe": 3}', "[1]"])
def test_a_folder_that_no_bench_has_written_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(ConfigError, match=r"recipe\.json: .* — give a folder written by lacuner bench run"):
        Title.read(tmp_path)


def test_a_report_says_how_many_runs_are_still_to_come() -> None:
    records = [record("full", seed=1), record("full", seed=2)]
    assert "**2 of 6 runs so far**, seeds 1, 2" in report(results(records, runs=6))
    assert ": 2 results, seeds 1, 2" in report(results(records, runs=2))
    assert ": 2 results, seeds 1, 2" in report(results(records))


def test_a_mean_of_fewer_seeds_is_marked() -> None:
    text = main_table(results([record("full", seed=1), record("full", seed=2), record("crf", seed=1)]))
    assert table(text) == {("`full`", "toy 0.5"): "50.0 ± 0.0", ("`crf`", "toy 0.5"): "50.0†"}
    assert "† fewer seeds than the others." in text
    assert "†" not in main_table(results([record("full"), record("crf")]))


def test_a_report_without_results_says_so() -> None:
    text = report(results([], methods=["full"], data=["toy"], hidden=[0.0]))
    assert "no run has a result yet." in text
    assert "|" not in text


def test_figures_of_dev_data_are_called_so() -> None:
    dataset = {"dev": "dev.conll", "test": "dev.conll"}
    on_dev = record("full", config={"dataset": dataset})
    text = report(results([on_dev]))
    assert "Epochs are selected on the reported dev data itself." in text
    assert "F1 on dev data in percent" in text
    mixed = report(results([on_dev, record("full", data="b", config={"dataset": dataset | {"test": "test.conll"}})]))
    assert "F1 on test data in percent, mean ± standard deviation over seeds. toy 0.5: on dev data." in mixed
    assert "tested once. In toy 0.5, epochs are selected on the reported data itself." in mixed


def test_the_table_that_is_shown_says_something_in_every_experiment() -> None:
    audit = {"precision": {"100": 0.5, "500": 0.4, "1000": 0.3}, "average_precision": 0.2}
    assert headline(results([record("full", None, audit=audit)], experiment="audit")).startswith("|  |  | toy 0.5 |")
    assert headline(results([record("full")])).startswith("|  | toy 0.5 |")


def test_a_recipe_of_another_version_says_which_file_it_is_in(tmp_path: Path) -> None:
    results([record()]).title.write(tmp_path)
    path = tmp_path / "recipe.json"
    path.write_text(path.read_text().replace('"title":', '"color": "red", "title":'))
    with pytest.raises(ConfigError, match=r"recipe\.json: there is no setting color"):
        Title.read(tmp_path)


def test_a_bar_in_a_name_does_not_end_its_cell() -> None:
    assert main_table(results([record("a|b")])).splitlines()[2] == "| `a\\|b` | 50.0 |"


def test_of_three_seeds_the_one_is_shown_that_is_best_on_dev_data() -> None:
    dev = (0.5, 0.7, 0.6)

    def seeds(method: str, count: int, hidden: float) -> list[dict[str, Any]]:
        test = (0.8, 0.61, 0.9)[:count]
        return [record(method, f1, seed, dev={"f1": dev[seed]}, hidden=hidden) for seed, f1 in enumerate(test)]

    found = results([*seeds("full", 3, 0.0), *seeds("crf", 2, 0.0)], methods=["full", "crf"])
    assert table(best_seed_table(found)) == {("`full`", "toy"): "61.0"}
    assert best_seed_table(results(seeds("crf", 2, 0.0))) == ""
    assert best_seed_table(results(seeds("full", 3, 0.5))) == "", "each seed hides other labels"
