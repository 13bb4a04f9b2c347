import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from lacuner.analysis.bound import SentenceCounts, bound_by_length, theoretical_curve
from lacuner.analysis.figures import (
    bound_figure,
    check_figure_path,
    missampling_figure,
    o_value_figure,
    save_figure,
    sparsity_figure,
    styles,
    uncertainty_figure,
)
from lacuner.analysis.missampling import EpochMissampling
from lacuner.analysis.o_values import DECISIONS, FRACTIONS, Detection, EpochOValues, OValueRun
from lacuner.analysis.sparsity import sparsity_by_length
from lacuner.analysis.uncertainty import BANDS, BandResult, UncertaintyRun
from lacuner.errors import ConfigError, DataError


def epochs(count, f1=None):
    return [EpochMissampling(n, 100, n, n / 100, n / 90, n / 50, f1) for n in range(1, count + 1)]


def run(seed, test=None):
    return UncertaintyRun(seed, 0.35, 0.5, {b: BandResult(0.2, 9, 0.5 + seed / 10, test) for b in BANDS})


def watched(decision, count):
    found = tuple(Detection(fraction, 9, 0.9 - fraction, 2 * fraction) for fraction in FRACTIONS)
    seen = tuple(EpochOValues(n, 1 + n / 3, 2 + n / 2, 0.7, found) for n in range(1, count + 1))
    return OValueRun(decision, 1, 1000, 120, seen)


def o_values(count, *decisions):
    return o_value_figure({name: [watched(name, count)] * 2 for name in decisions}, min(2, count))


FIGURES = {
    "missampling": lambda: missampling_figure({name: epochs(30, 0.7) for name in "abcdefgh"}),
    "missampling of one epoch": lambda: missampling_figure({"uniform": epochs(1)}),
    "uncertainty": lambda: uncertainty_figure([run(1), run(2)]),
    "uncertainty of one seed": lambda: uncertainty_figure([run(1, 0.0)]),
    "O-values": lambda: o_values(30, *DECISIONS),
    "O-values of one epoch": lambda: o_values(1, "angle"),
    "theory": lambda: bound_figure(theoretical_curve(range(1, 50), 0.35), 0.35, "worst case"),
    "one vacuous length": lambda: bound_figure(bound_by_length([SentenceCounts(1, 0, 1)], 0.35), 0.35, "gold"),
    "sparsity": lambda: sparsity_figure(sparsity_by_length([(4, 1), (4, 3), (9, 2)]), 0.96),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
@pytest.mark.filterwarnings("error")
def test_figures_have_titles_labelled_axes_and_large_type(make, tmp_path):
    figure = make()
    save_figure(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (figure.get_size_inches() == (8, 5)).all()
    for axes in figure.axes:
        assert axes.get_title()
        assert axes.get_ylabel()
        texts = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]
        assert min(text.get_fontsize() for text in texts if text.get_text()) >= 14


def test_curves_can_be_told_apart_without_colours():
    figure = missampling_figure({name: epochs(5) for name in ("uniform", "weighted", "top-neg", "nrces")})
    lines = figure.axes[0].get_lines()
    assert [line.get_ydata()[-1] for line in lines] == [5.0] * 4  # percent
    assert len({line.get_marker() for line in lines}) == len({str(line.get_linestyle()) for line in lines}) == 4
    assert [text.get_text() for text in figure.axes[1].texts] == ["uniform", "weighted", "top-neg", "nrces"]
    assert figure.legends == []


def test_a_dozen_curves_have_a_dozen_markers_and_those_of_one_colour_other_lines():
    looks = styles(12)
    assert len({marker for _, marker, _ in looks}) == 12
    assert len({(color, line) for color, _, line in looks}) == 12
    assert len(set(styles(36))) == 36


def test_o_values_are_shown_as_they_are_and_detection_in_percent():
    figure = o_values(5, *DECISIONS)
    left, right = figure.axes
    hidden, outside, *others = left.get_lines()
    assert (hidden.get_ydata()[-1], outside.get_ydata()[-1]) == (1 + 5 / 3, 2 + 5 / 2)
    assert len({(line.get_marker(), line.get_linestyle()) for line in (hidden, outside, *others)}) == 4
    precision, recall = right.get_lines()[:2]
    assert precision.get_xdata()[5] == pytest.approx(10)
    assert (precision.get_ydata()[5], recall.get_ydata()[5]) == (pytest.approx(80), pytest.approx(20))
    assert right.get_lines()[-1].get_ydata()[0] == pytest.approx(12)
    assert right.get_title() == "after epoch 2"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "plain",
        "angle",
        "precision at random",
    ]


def test_the_best_score_stands_beside_the_name():
    figure = missampling_figure({"uniform": [*epochs(2, 0.705), *epochs(1, 0.2)]})
    assert figure.axes[1].texts[0].get_text() == "uniform (dev F1 70.5)"


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for ending in ("png", "svg"):
        for number in (1, 2):
            save_figure(FIGURES["theory"](), tmp_path / f"{number}.{ending}")
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


def test_other_figures_keep_their_look():
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    FIGURES["sparsity"]()
    assert matplotlib.rcParams["font.size"] == before


def test_no_window_is_ever_opened():
    code = (
        "import sys; from lacuner.analysis.bound import theoretical_curve; from lacuner.analysis import figures;"
        "assert 'matplotlib' not in sys.modules and 'torch' not in sys.modules;"
        "figures.bound_figure(theoretical_curve([5, 6], 0.35), 0.35, '');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("a.jpeg", ConfigError, r"--figure a.jpeg: figures end in \.png or \.svg"),
        ("nowhere/a.png", DataError, "nowhere: the folder does not exist — create it first"),
        ("folder.png", DataError, "it is a folder"),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, path, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(error, match=message):
        check_figure_path(Path(path))


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install matplotlib"):
        check_figure_path(tmp_path / "a.png")
