import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus.formats.surfaces import Named, align, find_surface


def placed(text: str, *listed: tuple[str, str]) -> list[tuple[str, str]]:
    found = align(text, [Named(*pair) for pair in listed])
    return [(text[one.start : one.end], one.named.label) for one in found.placed]


def test_every_occurrence_at_the_borders_of_words_is_found() -> None:
    assert find_surface("Rome, Rome; Romeo, eRome Rome", "Rome") == [(0, 4), (6, 10), (25, 29)]
    assert find_surface("IBM-based (IBM)", "IBM") == [(0, 3), (11, 14)]
    assert find_surface("", "Rome") == find_surface("Rome", " ") == []


@pytest.mark.parametrize(
    ("text", "surface"),
    [
        ("New \n York", "New York"),
        ("Jean\u2013Luc", "Jean-Luc"),
        ("O\u2019Neill", "O'Neill"),
        ("\u201cRex\u201d", '"Rex"'),
        ("C++ (x)", "C++ (x)"),
        ("买iPhone手机", "iPhone"),
        ("住在東京的人", "東京"),
    ],
)
def test_spaces_dashes_and_quotes_may_differ_and_signs_mean_themselves(text: str, surface: str) -> None:
    assert len(find_surface(text, surface)) == 1


def test_another_case_is_found_only_where_the_exact_one_is_not() -> None:
    assert find_surface("apple and Apple", "Apple") == [(10, 15)]
    assert find_surface("apple and APPLE", "Apple") == [(0, 5), (10, 15)]


def test_a_letter_without_its_accent_is_another_letter() -> None:
    assert find_surface("Zoe\u0308", "Zoe") == []


def test_the_longest_of_overlapping_names_stays_and_no_name_is_lost_silently() -> None:
    text = "New York Times of York"
    assert placed(text, ("York", "LOC"), ("New York Times", "ORG")) == [("New York Times", "ORG"), ("York", "LOC")]
    found = align("New York", [Named("York", "LOC"), Named("New York", "LOC"), Named("Oslo", "LOC")])
    assert [named.surface for named in found.absent] == ["Oslo"]
    assert [named.surface for named in found.covered] == ["York"]


def test_one_place_may_have_two_labels_and_the_same_answer_counts_once() -> None:
    assert placed("Turin", ("Turin", "LOC"), ("Turin", "ORG"), ("Turin", "LOC")) == [("Turin", "LOC"), ("Turin", "ORG")]


@given(st.text("ab AB-\u2013'.", max_size=20), st.text("ab AB-'.", min_size=1, max_size=5))
def test_what_is_found_is_the_name_and_never_part_of_a_word(text: str, surface: str) -> None:
    def folded(string: str) -> str:
        return " ".join(string.replace("\u2013", "-").lower().split())

    for start, end in find_surface(text, surface):
        assert folded(text[start:end]) == folded(surface)
        assert start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
        assert end == len(text) or not (text[end - 1].isalnum() and text[end].isalnum())


@given(st.lists(st.sampled_from(["Ada", "New York", "of", "(", "York"]), min_size=1, max_size=8), st.data())
def test_names_cut_out_of_a_text_are_never_absent(words: list[str], data) -> None:
    text = " ".join(words)
    names = data.draw(st.lists(st.sampled_from(words), min_size=1, unique=True))
    found = align(text, [Named(name, "X") for name in names])
    assert found.absent == []
    assert {one.named.surface for one in found.placed} | {named.surface for named in found.covered} == set(names)
