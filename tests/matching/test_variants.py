import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.matching.variants import cut, spellings


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        ("Al-Qaeda", {"Al-Qaeda", "Al Qaeda", "AlQaeda"}),
        ("New York", {"New York", "New-York"}),
        ("Ada", {"Ada"}),
        ("AT&T", {"AT&T", "AT & T", "AT and T"}),
        ("O'Brien", {"O'Brien", "O\u2019Brien", "OBrien"}),
        ("Acme, Inc.", {"Acme, Inc.", "Acme, Inc", "Acme Inc.", "Acme Inc"}),
    ],
)
def test_names_are_written_in_several_ways(surface: str, expected: set[str]) -> None:
    assert expected <= spellings(surface)


def test_words_are_not_made_of_a_sentence() -> None:
    assert spellings("the man who knew too much") == {"the man who knew too much"}


@given(st.text(max_size=30))
def test_a_name_is_always_one_of_its_spellings(surface: str) -> None:
    found = spellings(surface)
    normal = " ".join(surface.split())
    assert normal in found or not normal
    assert all(form == " ".join(form.split()) and form for form in found)


@given(st.text(max_size=30), st.booleans())
def test_cutting_loses_nothing_but_spaces(surface: str, characters: bool) -> None:
    for words in cut(surface, characters):
        assert "".join("".join(words).split()) == "".join(surface.split())
        assert all(words)
