import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.display.marks import Closing, Mark, Opening, lay_out, marks_of, marks_of_sentence, printable

TEXT = "abcdefghij"
SPANS = st.tuples(st.integers(0, 9), st.integers(1, 10)).filter(lambda pair: pair[0] < pair[1])
MARKS = st.lists(st.builds(lambda span, label: Mark(*span, label), SPANS, st.sampled_from("XYZ")), max_size=8)


def drawn(text: str, marks: list[Mark]) -> str:
    signs = []
    for piece in lay_out(text, marks):
        if isinstance(piece, str):
            signs.append(piece)
        elif isinstance(piece, Opening):
            signs.append("(" if piece.first else "<")
        else:
            signs.append(piece.mark.label + (")" if piece.last else ">"))
    return "".join(signs)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], "abcdefghij"),
        ([Mark(0, 10, "X")], "(abcdefghijX)"),
        ([Mark(5, 7, "Y"), Mark(1, 3, "X")], "a(bcX)de(fgY)hij"),
        ([Mark(1, 3, "X"), Mark(3, 4, "Y")], "a(bcX)(dY)efghij"),
        ([Mark(2, 4, "Y"), Mark(1, 6, "X")], "a(b(cdY)efX)ghij"),
        ([Mark(1, 3, "X"), Mark(1, 3, "Y")], "a((bcY)X)defghij"),
        ([Mark(0, 3, "X"), Mark(2, 5, "Y")], "(ab(cY>X)<deY)fghij"),
        ([Mark(8, 99, "X")], "abcdefgh(ijX)"),
    ],
)
def test_marks_are_nested_and_crossing_ones_have_two_parts(marks, expected):
    assert drawn(TEXT, marks) == expected


@given(MARKS)
def test_the_text_is_whole_and_every_character_is_in_its_marks(marks):
    within: list[Mark] = []
    around: list[list[Mark]] = []
    begun, ended, text = [], [], ""
    for piece in lay_out(TEXT, marks):
        if isinstance(piece, str):
            text += piece
            around += [list(within)] * len(piece)
        elif isinstance(piece, Opening):
            within.append(piece.mark)
            begun += [piece.mark] * piece.first
        elif isinstance(piece, Closing):
            assert within.pop() == piece.mark, "what is opened last is closed first"
            ended += [piece.mark] * piece.last
    assert text == TEXT
    assert within == []
    assert sorted(map(repr, begun)) == sorted(map(repr, ended)) == sorted(map(repr, marks))
    for index, inside in enumerate(around):
        assert sorted(map(repr, inside)) == sorted(repr(m) for m in marks if m.start <= index < m.end)


def test_entities_of_words_are_found_in_the_text():
    sentence = Sentence(
        ("New", "York", "is", "May"), (Entity(0, 2, "LOC", score=0.5, source="me"),), (Span(3, 4),), text="New  York is May"
    )  # fmt: skip
    assert marks_of_sentence(sentence) == [Mark(0, 9, "LOC", 0.5, "me"), Mark(13, 16, "O")]
    assert Mark(13, 16, "O").name == "no entity"
    assert marks_of([Entity(13, 16, "DATE")]) == [Mark(13, 16, "DATE")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nand more", "plain\ttext\nand more"),
        ("\x1b[2Jgone\x07", "␛[2Jgone␇"),
        ("a\0b\x7f\x9b", "a␀b␡\ufffd"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("half \ud83d of it", "half \ufffd of it"),
        ("\ufffe\U0001ffff", "\ufffd\ufffd"),
        ("é e\u0301 👩‍🔬 שלום \u202egnp", "é e\u0301 👩‍🔬 שלום \u202egnp"),
    ],
)
def test_what_would_steer_a_terminal_or_break_a_page_is_shown_as_a_picture(text, shown):
    assert printable(text) == shown
