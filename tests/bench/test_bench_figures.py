import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from handmade import record, results

from lacuner.analysis.missampling import EpochMissampling
from lacuner.analysis.o_values import FRACTIONS, Detection, EpochOValues, OValueRun
from lacuner.bench.figures import draw_figures, epochs_figure, masking_figure, vector_figure
from lacuner.bench.results import Results
from lacuner.errors import ConfigError


def masked() -> Results:
    scores = {("full", 0.2): (0.6, 0.7), ("full", 0.6): (0.3, 0.5), ("crf", 0.2): (0.8,), ("crf", 0.6): (0.7,)}
    records = [
        record(run, f1, seed, hidden=hidden)
        for (run, hidden), values in scores.items()
        for seed, f1 in enumerate(values)
    ]
    return results([*records, record("full", 0.9, hidden=0.0, complete=True)])


def learned() -> Results:
    histories = {("full", 1): [0.1, 0.2, 0.4], ("full", 2): [0.3, 0.2], ("crf", 1): [0.5, 0.6, 0.7]}
    return results([record(run, 0.5, seed, epochs=history) for (run, seed), history in histories.items()])


def missampled() -> Results:
    def watched(*rates: float) -> list[dict[str, Any]]:
        return [
            asdict(EpochMissampling(number, 100, 3, rate, rate, number / 10, 0.5))
            for number, rate in enumerate(rates, 1)
        ]

    records = [
        record("uniform", seed=1, missampling=watched(0.01, 0.02)),
        record("uniform", seed=2, missampling=watched(0.03, 0.02)),
        record("full", seed=1, missampling=watched(0.05, 0.05)),
    ]
    return results(records)


def uncertain() -> Results:
    rows = {
        f"{band}-k": {"test": {"f1": f1}, "dev": {"f1": f1}, "uncertainty": f1 / 2, "negatives": 9}
        for band, f1 in (("top", 0.8), ("middle", 0.7), ("bottom", 0.4))
    }
    records = [record("uniform", None, seed, rows=rows, ratio=0.35, oracle_dev_f1=0.5) for seed in (1, 2)]
    return results(records, experiment="uncertainty")


def watched_o_values(decision: Any, count: int) -> dict[str, Any]:
    found = tuple(Detection(share, 9, 0.9 - share, 2 * share) for share in FRACTIONS)
    seen = tuple(EpochOValues(n, n / 3, n / 2, 0.7, found) for n in range(1, count + 1))
    return OValueRun(decision, 1, 1000, 120, seen).as_dict()


def o_values(epochs: int = 4) -> Results:
    def measured(run: str, angle: bool) -> dict[str, Any]:
        config = {"settings": {"method": {"head": {"angle": angle}}}}
        return record(run, None, config=config, o_values=watched_o_values("angle" if angle else "plain", epochs))

    return results([measured("token", False), measured("token head.angle=true", True)], experiment="o-values")


def vectors() -> Results:
    points = [{"x": number, "y": -number, "label": ["O", "PER", "LOC"][number % 3]} for number in range(9)]
    return results([record("full", vectors=points), record("uniform", vectors=points[:6])])


KINDS = {
    "masking": masked, "epochs": learned, "missampling-toy-0.5": missampled, "uncertainty-toy-0.5": uncertain,
    "o-values-toy-0.5": o_values, "vectors-toy-0.5": vectors,
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("error")
def test_every_kind_is_drawn_twice_the_same(name: str, tmp_path: Path) -> None:
    written = []
    for number in (1, 2):
        out = tmp_path / str(number)
        drawn = draw_figures(KINDS[name](), out)
        assert [file for _, file in drawn] == [f"figures/{name}.svg"]
        assert all(caption for caption, _ in drawn)
        written.append({path.name: path.read_bytes() for path in (out / "figures").iterdir()})
    assert written[0] == written[1]
    assert written[0].keys() == {f"{name}.svg", f"{name}.png"}
    assert written[0][f"{name}.svg"].startswith(b"<?xml")
    assert written[0][f"{name}.png"].startswith(b"\x89PNG")


def curves(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """The points of every line of a panel, by its label."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


def approx(*values: float) -> Any:
    return pytest.approx(list(values))


def test_curves_by_share_are_means_in_percent_and_all_labels_are_level() -> None:
    figure = masking_figure(masked())
    (axes,) = figure.axes
    assert axes.get_title() == "toy"
    assert curves(axes) == {
        "full": ([20, 60], approx(65, 40)),
        "crf": ([20, 60], approx(80, 70)),
        "full, all labels": ([20, 60], approx(90, 90)),
    }
    (band,) = axes.collections  # only one of them has several seeds
    heights = band.get_paths()[0].get_extents()
    assert heights.ymax == pytest.approx(65 + 50**0.5)
    assert heights.ymin == pytest.approx(40 - 200**0.5)


def test_curves_by_epoch_go_on_with_the_seeds_that_do() -> None:
    figure = epochs_figure(learned())
    (axes,) = figure.axes
    assert curves(axes) == {"full": ([1, 2, 3], approx(20, 20, 40)), "crf": ([1, 2, 3], approx(50, 60, 70))}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["full", "crf"]


def test_curves_can_be_told_apart_without_colours() -> None:
    (axes,) = epochs_figure(learned()).axes
    lines = axes.get_lines()
    assert len({line.get_marker() for line in lines}) == len({str(line.get_linestyle()) for line in lines}) == 2


@pytest.mark.parametrize("length", [4, 30, 160])
def test_the_legend_has_room_however_long_the_names_are(length: int) -> None:
    names = [f"{number} {'long ' * (length // 5)}" for number in range(6)]
    figure = epochs_figure(results([record(name, 0.5, epochs=[0.1, 0.2]) for name in names], runs=names))
    figure.draw_without_rendering()
    place, (axes,) = figure.legends[0].get_window_extent(), figure.axes
    assert -1 <= place.x0 < place.x1 <= figure.bbox.width + 1
    assert place.y1 <= axes.get_window_extent().y0
    assert axes.get_window_extent().height / figure.dpi > 2


def test_the_legend_is_in_the_order_of_the_recipe() -> None:
    records = [record("crf", data="a", epochs=[0.1, 0.2]), record("full", data="b", epochs=[0.1, 0.2])]
    figure = epochs_figure(results(records, methods=["full", "crf"]))
    colors = [line.get_color() for axes in figure.axes for line in axes.get_lines()]
    assert [line.get_color() for line in figure.legends[0].get_lines()] == colors[::-1]


def test_every_encoder_has_a_panel_in_which_runs_look_alike() -> None:
    def of(encoder: str, run: str, f1: float, share: float) -> dict[str, Any]:
        return record(run, f1, hidden=share, encoder=encoder, epochs=[f1 / 2, f1])

    records = [
        of(encoder, run, f1, share)
        for share in (0.2, 0.6)
        for encoder, run, f1 in (("small", "full", 0.2), ("small", "crf", 0.4), ("large", "crf", 0.8))
    ]
    found = results(records, encoders=["small", "large"])
    for figure, titles in (
        (masking_figure(found), ["toy\nsmall", "toy\nlarge"]),
        (epochs_figure(found), ["toy 0.2\nsmall", "toy 0.2\nlarge", "toy 0.6\nsmall", "toy 0.6\nlarge"]),
    ):
        assert [axes.get_title() for axes in figure.axes] == titles
        small, large, *_ = figure.axes
        assert (list(curves(small)), list(curves(large))) == (["full", "crf"], ["crf"])
        assert curves(large)["crf"][1][-1] == pytest.approx(80)
        assert large.get_lines()[0].get_color() == small.get_lines()[1].get_color()
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["full", "crf"]


def test_every_dataset_has_a_panel_and_only_those_with_several_shares() -> None:
    shares = {"a": (0.2, 0.4), "a b": (0.3,), "b": (0.1, 0.5), "c": (0.5, 0.6), "d": (0.1, 0.9)}
    records = [record("full", share, data=data, hidden=share) for data, found in shares.items() for share in found]
    figure = masking_figure(results(records))
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c", "d"]
    assert curves(figure.axes[3]) == {"full": (approx(10, 90), approx(10, 90))}


def test_points_are_coloured_by_label_and_grey_where_there_is_no_entity() -> None:
    points: Sequence[dict[str, Any]] = [{"x": 1, "y": 2, "label": "O"}, {"x": 3, "y": 4, "label": "PER"}]
    figure = vector_figure({"full": points, "uniform": points[1:]})
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == ["full", "uniform"]
    shown = {group.get_label(): group.get_offsets().tolist() for group in left.collections}
    assert shown == {"no entity": [[1, 2]], "PER": [[3, 4]]}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["no entity", "PER"]


def figures_of(found: Results, out: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that would be written, by name."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr("lacuner.bench.figures.save_figure", lambda figure, path: kept.setdefault(path.stem, figure))
    draw_figures(found, out)
    return kept


def test_missampling_is_the_mean_over_the_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = figures_of(missampled(), tmp_path, monkeypatch)["missampling-toy-0.5"].axes
    assert [line.get_ydata() for line in left.get_lines()] == [approx(2, 2), approx(5, 5)]
    assert [line.get_ydata() for line in right.get_lines()] == [approx(10, 20)] * 2


def test_the_bands_of_uncertainty_are_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = figures_of(uncertain(), tmp_path, monkeypatch)["uncertainty-toy-0.5"].axes
    assert [bar.get_height() for bar in axes.patches] == approx(80, 70, 40)
    assert [label.get_text().split()[0] for label in axes.get_xticklabels()] == ["top-k", "middle-k", "bottom-k"]


def test_uncertainty_has_a_figure_for_each_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    small = [{name: value for name, value in one.items() if name != "rows"} for one in uncertain().records]
    large = [one | {"encoder": "large", "test": {"f1": one["test"]["f1"] / 2}} for one in small]
    figures = figures_of(
        results([*small, *large], experiment="uncertainty", methods=["uniform"]), tmp_path, monkeypatch
    )
    heights = {name: [bar.get_height() for bar in figure.axes[0].patches] for name, figure in figures.items()}
    assert heights == {
        "uncertainty-toy-0.5-recurrent": approx(80, 70, 40),
        "uncertainty-toy-0.5-large": approx(40, 35, 20),
    }


def test_points_are_those_of_the_first_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record("full", seed=seed, vectors=[{"x": seed, "y": 0, "label": "PER"}]) for seed in (3, 1, 2)]
    (axes,) = figures_of(results(records), tmp_path, monkeypatch)["vectors-toy-0.5"].axes
    assert [group.get_offsets().tolist() for group in axes.collections] == [[[1, 0]]]


@pytest.mark.parametrize(("epochs", "shown"), [(1, 1), (5, 3)])
def test_o_values_are_shown_after_three_epochs_if_there_are_so_many(
    epochs: int, shown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = figures_of(o_values(epochs), tmp_path, monkeypatch)["o-values-toy-0.5"].axes
    assert right.get_title() == f"after epoch {shown}"
    hidden, outside, *_ = left.get_lines()
    assert (hidden.get_ydata()[-1], outside.get_ydata()[-1]) == (epochs / 3, epochs / 2)


def test_what_is_not_there_is_not_drawn(tmp_path: Path) -> None:
    assert draw_figures(results([record("full", hidden=0.5, epochs=[0.5])]), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_datasets_name_may_be_a_path(tmp_path: Path) -> None:
    points = [{"x": 1, "y": 2, "label": "PER"}]
    drawn = draw_figures(results([record("full", data="news/old ones", vectors=points)]), tmp_path)
    assert [file for _, file in drawn] == ["figures/vectors-news-old-ones-0.5.svg"]
    assert (tmp_path / drawn[0][1]).is_file()


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install matplotlib, or give --no-figures"):
        draw_figures(masked(), tmp_path)
