from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus.formats.code_units import character_at, units_before


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_code_units_are_those_of_utf_16(text):
    units = units_before(text)
    wanted = [len(text[:end].encode("utf-16-le")) // 2 for end in range(len(text) + 1)]
    assert (units or list(range(len(text) + 1))) == wanted
    if units is not None:
        assert [character_at(units, unit) for unit in wanted] == list(range(len(text) + 1))


def test_there_is_no_character_inside_another_or_after_the_text():
    units = units_before("a😀b")
    assert units == [0, 1, 3, 4]
    assert [character_at(units, unit) for unit in (2, 5, -1)] == [None, None, None]
