from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.analysis.line_styles import label_size, method_styles, spread_out
from lacuner.methods.registry import registry

NUMBERS = st.lists(st.tuples(st.floats(-0.2, 1.2), st.floats(0.01, 0.1)), min_size=1, max_size=12)


def test_every_method_has_a_color_of_its_own() -> None:
    names = ["kb", *registry().methods]
    styles = method_styles({name: name for name in names})
    assert len({style.color for style in styles.values()}) == len(names)
    assert [name for name, style in styles.items() if style.is_bold] == ["lacuner"]
    for name in names:  # whoever else is in the figure
        assert method_styles({name: name})[name] == styles[name]


def test_variants_of_a_method_have_other_lines_and_only_the_method_itself_is_bold() -> None:
    names = ["lacuner", "lacuner head=product", "ours", "lacuner · transformer"]
    plain, other, renamed, same = method_styles(dict.fromkeys(names, "lacuner")).values()
    assert same == plain
    assert (plain.is_bold, other.is_bold, renamed.is_bold) == (True, False, False)
    assert len({(style.color, style.line, style.marker) for style in (plain, other, renamed)}) == 3


def test_methods_of_other_packages_have_a_look_too() -> None:
    styles = method_styles({"magic": "magic", "more magic": "more magic", "full": "full"})
    assert len({style.color for style in styles.values()}) == 3


@given(NUMBERS)
def test_labels_are_in_order_and_never_overlap(labels: list[tuple[float, float]]) -> None:
    wanted, heights = zip(*labels, strict=True)
    placed = spread_out(wanted, heights)
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], placed[index]))
    for before, after in pairwise(order):
        assert placed[after] - placed[before] >= (heights[before] + heights[after]) / 2 - 1e-9


@given(NUMBERS)
def test_labels_are_inside_if_they_fit(labels: list[tuple[float, float]]) -> None:
    wanted, heights = zip(*labels, strict=True)
    placed = spread_out(wanted, heights)
    if sum(heights) <= 1:
        assert all(h / 2 - 1e-9 <= y <= 1 - h / 2 + 1e-9 for y, h in zip(placed, heights, strict=True))


def test_labels_with_room_stay_where_they_are_wanted() -> None:
    assert spread_out([0.9, 0.1, 0.5], [0.1, 0.1, 0.1]) == pytest.approx([0.9, 0.1, 0.5])
    assert spread_out([], []) == []


def test_labels_that_crowd_move_as_little_as_possible() -> None:
    assert spread_out([0.5, 0.5, 0.5, 0.9], [0.1] * 4) == pytest.approx([0.4, 0.5, 0.6, 0.9])
    assert spread_out([1.0, 1.0], [0.2, 0.2]) == pytest.approx([0.7, 0.9])


def test_long_names_are_wrapped_and_need_more_height() -> None:
    width, height = label_size(["short"])
    wide, high = label_size(["short and long and longer and longest of all"])
    assert high == pytest.approx(2 * height)
    assert width < wide < 9 * width
