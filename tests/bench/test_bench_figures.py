import colorsys
import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from handmade import record, results
from matplotlib.text import Text

from lacuner.analysis.missampling import EpochMissampling
from lacuner.analysis.o_values import FRACTIONS, Detection, EpochOValues, OValueRun
from lacuner.bench.figures import draw_figures, epochs_figure, masking_figure, threshold_figure, vector_figure
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


def sized() -> Results:
    sizes = [{"sentences": count, "thresholds": [0.5], "f1": [0.5]} for count in (0, 25, 100)]
    return results([record("full") | {"threshold-size": sizes}])


KINDS = {
    "threshold-size": sized,
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


def ends(axes: Any) -> dict[str, tuple[float, float]]:
    """Where the line ends that each name of a panel stands beside."""
    return {text.get_text().replace("\n", " "): pytest.approx(text.xy) for text in axes.texts}


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
    assert ends(axes) == {"full": (3, 40), "crf": (3, 70)}
    assert figure.legends == []


def test_curves_can_be_told_apart_without_colours() -> None:
    (axes,) = epochs_figure(learned()).axes
    lines = axes.get_lines()
    assert len({line.get_marker() for line in lines}) == len({str(line.get_linestyle()) for line in lines}) == 2


@pytest.mark.parametrize("length", [4, 30, 160])
@pytest.mark.parametrize("count", [6, 20])
def test_names_have_room_however_long_and_many_they_are(length: int, count: int) -> None:
    names = [f"{number} {'long ' * (length // 5)}".strip() for number in range(count)]
    figure = epochs_figure(results([record(name, 0.5, epochs=[0.1, 0.2]) for name in names]))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    panel = axes.get_window_extent()
    assert min(panel.width, panel.height) / figure.dpi > 2
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == count
    assert all(panel.x1 < box.x0 < box.x1 <= figure.bbox.width + 1 for box in boxes)
    assert all(-1 <= box.y0 < box.y1 <= figure.bbox.height + 1 for box in boxes)
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))


def test_curves_that_stay_at_zero_are_not_magnified() -> None:
    (axes,) = epochs_figure(results([record("full", 0.0, epochs=[0.0, 0.0])])).axes
    assert axes.get_ylim() == (0, 5)


def test_a_curve_that_ends_early_stays_where_it_is() -> None:
    (axes,) = epochs_figure(results([record("full", epochs=[0.1, 0.3]), record("crf", epochs=[0.1, 0.2, 0.5])])).axes
    assert ends(axes) == {"full": (3, 30), "crf": (3, 50)}
    (level,) = (path.vertices.tolist() for group in axes.collections for path in group.get_paths())
    assert level == [[2, 30], [3, 30]]


def test_a_curve_by_share_that_ends_early_is_not_said_to_go_on() -> None:
    records = [record("full", 0.6, hidden=0.2), *(record("crf", 0.5, hidden=hidden) for hidden in (0.2, 0.9))]
    (axes,) = masking_figure(results(records)).axes
    assert ends(axes) == {"full": (20, 60), "crf": (90, 50)}, "a dotted line leads from its own end to its name"
    assert not axes.collections
    assert [text.arrow_patch.get_linestyle() for text in axes.texts] == [":", "-"]


def test_a_method_has_the_same_color_in_all_figures_and_ours_is_bold() -> None:
    few = epochs_figure(results([record("crf", epochs=[0.1, 0.2]), record("lacuner", epochs=[0.1, 0.2])]))
    records = [record(name, hidden=h) for name in ("lacuner", "full", "kb", "crf") for h in (0.2, 0.5)]
    many = masking_figure(results(records))
    first, second = ({line.get_label(): line for line in figure.axes[0].get_lines()} for figure in (few, many))
    for name in ("crf", "lacuner"):
        assert first[name].get_color() == second[name].get_color()
    assert len({line.get_color() for line in second.values()}) == 4
    assert all(
        line.get_linewidth() < second["lacuner"].get_linewidth()
        for line in second.values()
        if line is not second["lacuner"]
    )
    weights = {text.get_text(): text.get_fontweight() for text in many.axes[0].texts}
    assert weights == {"lacuner": "bold", "full": "normal", "kb": "normal", "crf": "normal"}


def test_a_variant_of_a_method_is_recognized_by_its_color() -> None:
    method = {"half": {"method": "uniform"}}
    names = ["uniform", "half", "uniform, 200 findings reviewed", "crf"]
    found = results(
        [record(name, epochs=[0.1, 0.2]) for name in names], methods=["uniform", "half", "crf"], method=method
    )
    (axes,) = epochs_figure(found).axes
    colors = {line.get_label(): tint(line.get_color()) for line in axes.get_lines()}
    assert colors["uniform"] == pytest.approx(colors["half"], abs=0.02) == colors["uniform, 200 findings reviewed"]
    assert colors["crf"] != pytest.approx(colors["uniform"], abs=0.02)


def tint(color: str) -> float:
    """The hue of a color."""
    red, green, blue = (int(color[begin : begin + 2], 16) / 255 for begin in (1, 3, 5))
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def test_thresholds_are_drawn_by_the_number_of_dev_sentences() -> None:
    sizes = [
        {"sentences": 0, "thresholds": [0.0], "f1": [0.1]},
        {"sentences": 25, "thresholds": [0.5, 1.0], "f1": [0.2, 0.4]},
        {"sentences": 60, "thresholds": [0.5], "f1": [0.5]},
    ]
    (axes,) = threshold_figure(results([record("full", seed=seed) | {"threshold-size": sizes} for seed in (1, 2)])).axes
    assert curves(axes)["full"] == ([25, 60], approx(30, 50))
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["25", "60"]
    assert [line.get_ydata() for line in axes.get_lines() if line.get_label() != "full"] == [approx(10, 10)]
    assert {text.get_text() for text in axes.texts} == {"full", "no threshold"}


def test_what_is_not_trained_is_in_no_panel_of_an_encoder() -> None:
    kb = [record("kb", 0.3, encoder="", hidden=h) for h in (0.2, 0.6)]
    small, large = ([record("full", 0.5, encoder=name, hidden=h) for h in (0.2, 0.6)] for name in ("small", "large"))
    assert list(curves(masking_figure(results([*kb, *small])).axes[0])) == ["kb", "full"]
    both = masking_figure(results([*kb, *small, *large], encoders=["small", "large"]))
    assert [list(curves(axes)) for axes in both.axes] == [["full"], ["full"]]


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
        assert [list(ends(axes)) for axes in (small, large)] == [["full", "crf"], ["crf"]]


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
