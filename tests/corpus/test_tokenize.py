from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lacuner.corpus import tokenize
from lacuner.corpus.tokenize import (
    SPLITTINGS,
    cut_words,
    guess_splitting,
    is_mostly_unspaced,
    is_unspaced,
    split_passages,
    split_words,
)

# Spaces of all kinds, marks that belong to the letter before them, scripts without spaces, and what a keyboard has.
TEXTS = st.text(alphabet=st.one_of(st.sampled_from(" \t\n\u00a0\u3000.'’-,:_5aé\u0301\u200d東ア👩"), st.characters()))


def words(text, how="words"):
    return [text[start:end] for start, end in split_words(text, how)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada Lovelace, 36, left.", ["Ada", "Lovelace", ",", "36", ",", "left", "."]),
        ("Ada's we’ll don't", ["Ada", "'s", "we", "’ll", "don", "'t"]),
        ("the U.S. e.g. end.", ["the", "U.S.", "e.g.", "end", "."]),
        ("1,250.75 at 12:30, 3rd", ["1,250.75", "at", "12:30", ",", "3rd"]),
        ("Paris-based", ["Paris", "-", "based"]),
        ("東京タワー2号", ["東", "京", "タ", "ワ", "ー", "2", "号"]),
        ("Zoë Zoe\u0308", ["Zoë", "Zoe\u0308"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Köln–Bonn", ["Köln", "–", "Bonn"]),
        ("so 😀🎉 !", ["so", "😀", "🎉", "!"]),
        ("@ada #ner", ["@", "ada", "#", "ner"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_words_are_split_as_one_would_by_hand(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize("how", SPLITTINGS)
@given(text=TEXTS)
@example(text="Ada's\x1c12:30\u2003U.S.\x85’ll")
def test_words_without_offsets_are_the_same_words(how, text):
    assert list(cut_words(text, how)) == words(text, how)
    assert list(cut_words(text, how)) == words(text, how), "and so when they are remembered"


def test_a_name_never_ends_inside_a_word():
    for text, name in (
        ("Ada's", "Ada"),
        ("Paris-based", "Paris"),
        ("(WHO)", "WHO"),
        ("在东京都", "东"),
        ("Turin.", "Turin"),
    ):
        assert name in words(text)


def test_whitespace_splits_at_spaces_only():
    assert words("Ada's\tParis-based\u00a0東京 .", "whitespace") == ["Ada's", "Paris-based", "東京", "."]


def test_characters_are_words_of_their_own():
    assert words("Ab 東。", "single-characters") == ["A", "b", "東", "。"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他2026年买iPhone15。", ["他", "2026", "年", "买", "iPhone15", "。"]),
        ("Wi-Fi 3.5", ["Wi", "-", "Fi", "3", ".", "5"]),
        ("東京タワーのWiFi", [*"東京タワーの", "WiFi"]),
        ("ﾜｰﾄﾞ２０２６年", [*"ﾜｰﾄﾞ", "２０２６", "年"]),
        ("อาดาไปกรุงเทพ LINE", [*"อาดาไปกรุงเทพ", "LINE"]),
        ("انتقلت آدا إلى تورينو", ["انتقلت", "آدا", "إلى", "تورينو"]),
        ("كِتَاب Zoe\u0308", ["كِتَاب", "Zoe\u0308"]),
        ("서울에서 Ada", ["서울에서", "Ada"]),
    ],
)
def test_letters_and_digits_that_stand_together_are_one_word_among_characters(text, expected):
    assert words(text, "characters") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他买iPhone", True),
        ("東京タワー", True),
        ("อาดาย้ายไปกรุงเทพ Bangkok", True),
        ("انتقلت آدا إلى تورينو", False),
        ("서울", False),
        ("Ada met 张三 in Turin", False),
        ("2026 !", False),
        ("", False),
    ],
)
def test_scripts_without_spaces_are_told_apart(text, expected):
    assert is_mostly_unspaced(text) is expected


@pytest.mark.parametrize(
    "text", ["他2026年买iPhone15手机。张三也买了WiFi路由器。", "東京のAdaさん、Linuxを使う。", "อาดาใช้Linux"]
)
@pytest.mark.parametrize("how", ["characters", "single-characters"])
def test_words_tell_how_they_were_cut(text, how):
    assert guess_splitting([words(text, how)]) == how


@pytest.mark.parametrize(
    "sentences",
    [
        [["Ada", "left", "."]],
        [["上海", "是", "城市"]],
        [["他", "花", "了", "3.5", "元"], ["他", "买", "了", "2", "个"]],
        [["انتقلت", "آدا"]],
        [["a"], ["b"]],
        [],
    ],
)
def test_words_that_are_no_characters_are_words(sentences):
    assert guess_splitting(sentences) == "words"


@pytest.mark.parametrize("how", SPLITTINGS)
@given(text=TEXTS)
@settings(deadline=None)
@example(text="\x1c\x1d\x85 a\u200d\ufe0f")
def test_words_are_ordered_disjoint_and_leave_only_spaces_behind(how, text):
    position = 0
    for start, end in split_words(text, how):
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert not any(character.isspace() for character in text[start:end])
        position = end
    assert not text[position:].strip()


@given(text=TEXTS, longest=st.integers(1, 7))
@settings(deadline=None)
def test_every_word_belongs_to_one_passage_and_all_are_short_enough(text, longest):
    offsets = split_words(text)
    passages = split_passages(text, offsets, longest)
    assert [word for p in passages for word in range(p.own_begin, p.own_end)] == list(range(len(offsets)))
    assert all(p.end - p.begin <= longest for p in passages)
    assert all(p.begin <= p.own_begin <= p.own_end <= p.end for p in passages)


def cut(text, longest):
    offsets = split_words(text, "whitespace")
    return [" ".join(text[a:b] for a, b in offsets[p.begin : p.end]) for p in split_passages(text, offsets, longest)]


def test_a_short_text_is_one_passage():
    assert cut("Ada left . Bob stayed .", 6) == ["Ada left . Bob stayed ."]


def test_a_passage_ends_with_a_sentence_or_a_paragraph():
    assert cut("Ada left . Bob stayed here .", 6) == ["Ada left .", "Bob stayed here ."]
    assert cut("Ada left\n\nBob stayed here now", 5) == ["Ada left", "Bob stayed here now"]
    assert cut("雨 。 東 京 へ 行", 5) == ["雨 。", "東 京 へ 行"]
    assert cut("هل جاءت آدا؟ نعم جاءت", 4) == ["هل جاءت آدا؟", "نعم جاءت"]


def test_a_passage_is_as_long_as_it_may_be():
    assert cut("aaa bbb . Ccc ddd . Eee fff . Ggg hhh .", 6) == ["aaa bbb . Ccc ddd .", "Eee fff . Ggg hhh ."]


def test_a_line_break_or_an_abbreviation_does_not_part_a_name():
    assert cut("She went home . He left New\nYork for Dr. Ada Lovelace", 10) == [
        "She went home .",
        "He left New York for Dr. Ada Lovelace",
    ]


def test_a_sentence_longer_than_the_limit_is_covered_by_overlapping_passages():
    offsets = split_words("a b c d e f g h", "whitespace")
    passages = split_passages("a b c d e f g h", offsets, 6)
    assert [(p.begin, p.end) for p in passages] == [(0, 6), (4, 8)]
    assert [(p.own_begin, p.own_end) for p in passages] == [(0, 5), (5, 8)]


def test_threads_that_share_what_is_remembered_find_the_same_words(monkeypatch):
    monkeypatch.setattr(tokenize, "_REMEMBERED", 3)
    monkeypatch.setattr(tokenize, "_GATHERED", {2})
    texts = [f"Ada{number % 50}'s {number % 7},500 x-y." for number in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(cut_words, texts))
    assert found == [tuple(text[a:b] for a, b in split_words(text)) for text in texts]


@pytest.mark.parametrize(
    ("character", "expected"), [("円", True), ("あ", True), ("A", False), ("é", False), ("5", False), (".", False)]
)
def test_chinese_and_japanese_have_no_spaces_between_words(character: str, expected: bool) -> None:
    assert is_unspaced(character) is expected


def test_short_words_are_cut_once_and_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = tokenize._Pieces()
    long = "Ada-" * 11
    assert pieces["Ada's"] == ("Ada", "'s")
    assert pieces[long] == ("Ada", "-") * 11
    assert dict(pieces) == {"Ada's": ("Ada", "'s")}
    monkeypatch.setattr(tokenize, "_REMEMBERED", 2)
    for word in ("Bo", "Cy"):
        assert pieces[word] == (word,)
    assert dict(pieces) == {"Cy": ("Cy",)}, "all are forgotten when there are too many"


def test_what_is_remembered_is_copied_together_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "_GATHERED", {3})
    pieces, texts = tokenize._Pieces(), ["Ada", "Bo's", "Cy", "Di"]
    for text in texts[:2]:
        assert "".join(pieces[text]) == text
    before = list(pieces)
    for text in texts[2:]:
        assert "".join(pieces[text]) == text
    assert list(pieces) == texts
    assert all(old is not new for old, new in zip(before, pieces, strict=False)), "they are copies"
    assert [words[0] is text for text, words in pieces.items()] == [True, False, True, True], "a word is kept once"
