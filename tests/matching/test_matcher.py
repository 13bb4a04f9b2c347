from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity
from lacuner.corpus.tokenize import cut_words
from lacuner.errors import ConfigError
from lacuner.matching import Dictionary, Entry, Matcher

Found = list[tuple[int, int, str | None]]


def matched(matcher: Matcher, *sentences: Sequence[str], texts: Sequence[str] | None = None) -> list[Found]:
    found: list[Found] = [[] for _ in sentences]
    for row, start, end, label, _ in zip(*matcher.find(sentences, texts), strict=True):
        found[row].append((start, end, label))
    return found


def dictionary(*entries: tuple[str, ...]) -> Dictionary:
    return Dictionary(tuple(Entry(*entry) for entry in entries))  # type: ignore[arg-type]


def slow_search(names: dict[tuple[str, ...], str], words: Sequence[str]) -> Found:
    """From left to right, at each word the longest name that stands there."""
    found: Found = []
    position = 0
    while position < len(words):
        ends = [end for end in range(len(words), position, -1) if tuple(words[position:end]) in names]
        if ends:
            found.append((position, ends[0], names[tuple(words[position : ends[0]])]))
        position = ends[0] if ends else position + 1
    return found


WORDS = st.sampled_from(["a", "b", "ab", "ba", "A", "é", "中", "."])


@settings(max_examples=max(300, settings().max_examples))
@given(
    st.dictionaries(
        st.lists(WORDS, min_size=1, max_size=4).map(tuple), st.sampled_from(["X", "Y"]), min_size=1, max_size=8
    ),
    st.lists(st.lists(WORDS, max_size=12), max_size=4),
)
def test_the_leftmost_longest_names_are_found(names: dict[tuple[str, ...], str], sentences: list[list[str]]) -> None:
    entries = dictionary(*((" ".join(words), label) for words, label in names.items()))
    known = {tuple(entry.surface.split()): entry.label for entry in entries.entries}
    assert matched(Matcher(entries), *sentences) == [slow_search(known, words) for words in sentences]


def test_names_are_found_in_whole_words_only() -> None:
    matcher = Matcher(dictionary(("Ann", "PER"), ("New York", "LOC"), ("New York Ti", "ORG"), ("he", "PER")))
    assert matched(matcher, ["Anna", "the", "New", "York", "Times"]) == [[(2, 4, "LOC")]]


def test_names_side_by_side_are_all_found() -> None:
    matcher = Matcher(dictionary(("Ada", "PER"), ("Turin", "LOC")))
    assert matched(matcher, ["Ada", "Turin", "Ada", "Ada"]) == [
        [(0, 1, "PER"), (1, 2, "LOC"), (2, 3, "PER"), (3, 4, "PER")]
    ]


def test_names_do_not_reach_into_the_next_sentence() -> None:
    matcher = Matcher(dictionary(("New York", "LOC")))
    assert matched(matcher, ["in", "New"], ["York"], [], ["New", "York"]) == [[], [], [], [(0, 2, "LOC")]]


@pytest.mark.parametrize("characters", [False, True])
def test_chinese_needs_no_borders_between_words(characters: bool) -> None:
    matcher = Matcher(dictionary(("邓小平", "PER"), ("上海", "LOC")), characters=characters)
    assert matched(matcher, list("邓小平在上海")) == [[(0, 3, "PER"), (4, 6, "LOC")]]


def test_a_text_that_is_cut_into_characters_is_searched_for_characters() -> None:
    names = dictionary(("iPhone 手机", "PRODUCT"))
    sentence = list("买iPhone手机")
    assert matched(Matcher(names, characters=True), sentence) == [[(1, 9, "PRODUCT")]]
    assert matched(Matcher(names), sentence) == [[]]


def test_case_matters_unless_it_is_ignored() -> None:
    names, sentence = dictionary(("Ada Lovelace", "PER")), ["ADA", "lovelace"]
    assert matched(Matcher(names), sentence) == [[]]
    assert matched(Matcher(names, ignore_case=True), sentence) == [[(0, 2, "PER")]]
    assert matched(Matcher(dictionary(("STRASSE", "LOC")), ignore_case=True), ["Straße", "x"]) == [[(0, 1, "LOC")]]


def test_a_name_can_insist_on_its_case() -> None:
    names = dictionary(("US", "LOC", "exact"), ("Ada", "PER"))
    matcher = Matcher(names, ignore_case=True)
    assert matched(matcher, ["us", "US", "ADA"]) == [[(1, 2, "LOC"), (2, 3, "PER")]]
    names = dictionary(("ada", "PER", "ignore"), ("US", "LOC"))
    assert matched(Matcher(names), ["us", "US", "ADA"]) == [[(1, 2, "LOC"), (2, 3, "PER")]]


def test_what_does_not_match_in_its_case_hides_nothing() -> None:
    """The longer name is found only in its own case; otherwise the shorter one inside it is."""
    matcher = Matcher(dictionary(("New York Times", "ORG", "exact"), ("york", "LOC")), ignore_case=True)
    assert matched(matcher, ["NEW", "YORK", "TIMES"], ["New", "York", "Times"]) == [[(1, 2, "LOC")], [(0, 3, "ORG")]]


@settings(max_examples=max(150, settings().max_examples))
@given(
    st.dictionaries(
        st.lists(st.sampled_from("aAbB"), min_size=1, max_size=3).map(tuple),
        st.sampled_from(["exact", "ignore"]),
        min_size=1,
    ),
    st.lists(st.sampled_from("aAbB"), max_size=10),
)
def test_exact_and_other_names_together_are_leftmost_longest(
    cases: dict[tuple[str, ...], str], words: list[str]
) -> None:
    entries = dictionary(*((" ".join(name), "X", case) for name, case in cases.items()))
    found = [(start, end) for start, end, _ in matched(Matcher(entries), words)[0]]
    folded = {tuple(w.lower() for w in name) for name, case in cases.items() if case == "ignore"}
    exact = {name for name, case in cases.items() if case == "exact"}
    expected, position = [], 0
    while position < len(words):
        ends = [
            end
            for end in range(len(words), position, -1)
            if tuple(words[position:end]) in exact or tuple(w.lower() for w in words[position:end]) in folded
        ]
        expected += [(position, ends[0])] if ends else []
        position = ends[0] if ends else position + 1
    assert found == expected


def test_a_name_with_two_labels_is_dropped_decided_or_left_open() -> None:
    names = dictionary(("Paris Hilton", "PER"), ("Paris Hilton", "ORG"), ("Paris", "LOC"))
    sentence = ["Paris", "Hilton"]
    assert matched(Matcher(names, ambiguous="drop"), sentence) == [[(0, 1, "LOC")]]
    assert matched(Matcher(names, ambiguous="first"), sentence) == [[(0, 2, "PER")]]
    assert matched(Matcher(names, ambiguous="both-unknown"), sentence) == [[(0, 2, None)]]
    assert Matcher(names).ambiguous_entries == 1
    with pytest.raises(ConfigError, match="choose drop, first, both-unknown"):
        Matcher(names, ambiguous="guess")  # type: ignore[arg-type]


def test_two_names_that_differ_in_case_only_are_ambiguous_where_case_is_ignored() -> None:
    names = dictionary(("Turkey", "LOC"), ("turkey", "FOOD"))
    assert matched(Matcher(names), ["Turkey", "turkey"]) == [[(0, 1, "LOC"), (1, 2, "FOOD")]]
    assert matched(Matcher(names, ignore_case=True), ["Turkey", "turkey"]) == [[]]


def test_other_punctuation_is_found_if_wanted() -> None:
    names = dictionary(("Al-Qaeda", "ORG"), ("U.S.", "LOC"))
    sentence = ["Al", "Qaeda", "in", "the", "US"]
    assert matched(Matcher(names), sentence) == [[]]
    assert matched(Matcher(names, variants=True), sentence) == [[(0, 2, "ORG"), (4, 5, "LOC")]]


@pytest.mark.parametrize("words", [["Al-Qaeda"], ["Al", "-", "Qaeda"]])
def test_however_the_text_was_cut_into_words_the_name_is_found(words: list[str]) -> None:
    assert matched(Matcher(dictionary(("Al-Qaeda", "ORG"))), words) == [[(0, len(words), "ORG")]]


def test_accents_may_be_composed_or_not() -> None:
    assert matched(Matcher(dictionary(("Ren\u00e9", "PER"))), ["Rene\u0301"]) == [[(0, 1, "PER")]]
    assert matched(Matcher(dictionary(("Rene\u0301", "PER"))), ["Ren\u00e9"]) == [[(0, 1, "PER")]]


@pytest.mark.parametrize(
    "odd",
    ["\x00", "\x01", "\x02", "Ada\x02", "\x01Ada", "\x02\n\x01", "\n", "", " ", "ß", "e\u0301", "\ud800", "\x01\ud83d"],
)
def test_odd_words_do_not_shift_what_comes_behind_them(odd: str) -> None:
    for matcher in (Matcher(dictionary(("Ada", "PER"))), Matcher(dictionary(("Ada", "PER")), ignore_case=True)):
        assert matched(matcher, [odd, "Ada", odd, odd, "Ada"], [odd], [], ["Ada"]) == [
            [(1, 2, "PER"), (4, 5, "PER")],
            [],
            [],
            [(0, 1, "PER")],
        ]


def test_names_with_odd_characters_are_found() -> None:
    matcher = Matcher(dictionary(("a\x01b", "ODD"), ("Straße", "STREET")), ignore_case=True)
    assert matched(matcher, ["a\x01b", "STRASSE", "b"], ["a", "b"]) == [[(0, 1, "ODD"), (1, 2, "STREET")], []]


def test_a_name_of_a_hundred_words_is_found() -> None:
    words = [f"word{number}" for number in range(100)]
    matcher = Matcher(dictionary((" ".join(words), "LONG"), ("word50", "SHORT")))
    assert matched(matcher, words, words[:99]) == [[(0, 100, "LONG")], [(50, 51, "SHORT")]]


def names_of(matcher: Matcher, *words: str) -> list[tuple[int, ...]]:
    return [matcher.names(spelling) for spelling in matcher.find([words]).spellings]


def test_the_numbers_of_the_names_are_told() -> None:
    matcher = Matcher(dictionary(("Ada", "PER"), ("Turin", "LOC")))
    assert names_of(matcher, "Turin", "Ada") == [(1,), (0,)]
    alike = dictionary(("Apple", "ORG"), ("APPLE", "ORG"), ("US", "LOC", "exact"), ("us", "LOC"))
    assert names_of(Matcher(alike, ignore_case=True), "apple", "US", "us") == [(0, 1), (2, 3), (3,)]
    for ambiguous in ("first", "both-unknown"):
        matcher = Matcher(dictionary(("Ada", "PER"), ("Ada", "ORG")), ambiguous=ambiguous)  # type: ignore[arg-type]
        assert names_of(matcher, "Ada") == [(0, 1)]
    matcher = Matcher(dictionary(("U.S.", "LOC"), ("US", "LOC")), variants=True)
    assert names_of(matcher, "U.S.", "US") == [(0,), (0, 1)]


def test_names_with_several_labels_are_counted_as_they_stand_in_the_list() -> None:
    matcher = Matcher(dictionary(("Al-Qaeda", "ORG"), ("Al-Qaeda", "PER"), ("Ada", "PER")), variants=True)
    assert (matcher.ambiguous_entries, matcher.dropped) == (1, {0, 1})
    matcher = Matcher(dictionary(("U.S.", "LOC"), ("US", "ORG")), variants=True)
    assert (matcher.ambiguous_entries, matcher.dropped) == (1, {1})
    matcher = Matcher(dictionary(("Turkey", "LOC"), ("turkey", "FOOD")), ignore_case=True, ambiguous="first")
    assert (matcher.ambiguous_entries, matcher.dropped) == (1, frozenset())


@pytest.mark.parametrize(
    ("ambiguous", "expected"),
    [
        ("drop", [(1, 2, "ORG"), (2, 3, "ORG")]),
        ("first", [(0, 1, "LOC"), (1, 2, "ORG"), (2, 3, "ORG"), (3, 5, "LOC")]),
        ("both-unknown", [(0, 1, None), (1, 2, "ORG"), (2, 3, "ORG"), (3, 5, None)]),
    ],
)
def test_an_exact_spelling_that_another_label_has_in_any_case_is_ambiguous(ambiguous: str, expected: Found) -> None:
    exact, plain = [("US", "LOC", "exact"), ("US Man", "LOC", "exact")], [("us", "ORG"), ("us man", "ORG")]
    names = dictionary(*exact, *plain)
    matcher = Matcher(names, ignore_case=True, ambiguous=ambiguous)  # type: ignore[arg-type]
    found = matched(matcher, ["US", "us", "Us", "US", "Man"])
    assert found == [expected]
    assert matcher.ambiguous_entries == 2
    assert matcher.dropped == ({0, 1} if ambiguous == "drop" else frozenset())


def test_inside_an_exact_spelling_with_several_labels_a_shorter_name_may_stand() -> None:
    names = dictionary(("Paris Hilton", "PER", "exact"), ("paris hilton", "ORG"), ("paris", "LOC"))
    matcher = Matcher(names, ignore_case=True)
    assert matched(matcher, ["Paris", "Hilton"], ["PARIS", "HILTON"]) == [[(0, 1, "LOC")], [(0, 2, "ORG")]]


def test_a_stopped_name_is_not_found_as_the_spelling_of_another() -> None:
    names = dictionary(("U.S.", "LOC"), ("Jose\u0301", "PER"), ("Al-Qaeda", "ORG"))
    matcher = Matcher(names, variants=True, stopped=["us", "JOS\u00c9", "Al\u2010Qaeda"])
    assert matched(matcher, ["US", "U.S.", "José", "Al-Qaeda", "Al", "Qaeda"]) == [[(1, 2, "LOC"), (4, 6, "ORG")]]


@pytest.mark.parametrize("dash", "-\u2010\u2011\u2012\u2013\u2014\u2212")
def test_dashes_are_alike_if_wanted(dash: str) -> None:
    for surface in ("Al-Qaeda", f"Al{dash}Qaeda"):
        matcher = Matcher(dictionary((surface, "ORG")), variants=True)
        assert matched(matcher, [f"Al{dash}Qaeda"], ["Al", dash, "Qaeda"]) == [[(0, 1, "ORG")], [(0, 3, "ORG")]]
    if dash != "-":
        assert matched(Matcher(dictionary(("Al-Qaeda", "ORG"))), [f"Al{dash}Qaeda"]) == [[]]


@pytest.mark.parametrize("sign", "'\u2019\u02bc\u2018")
def test_apostrophes_are_alike_if_wanted(sign: str) -> None:
    matcher = Matcher(dictionary(("Macy's", "ORG"), ("O'Brien", "PER")), variants=True)
    for text in (f"Macy{sign}s", f"O{sign}Brien"):
        for words in ([text], cut_words(text)):
            assert matcher.find([words])[:3] == ([0], [0], [len(words)])


def test_a_text_of_characters_is_searched_for_whole_words() -> None:
    matcher = Matcher(
        dictionary(("IT", "ORG"), ("T恤", "THING"), ("New York", "LOC"), ("10月", "DATE")), characters=True
    )
    assert matched(matcher, list("WITH"), list("IT人"), list("买IT恤"), list("110月")) == [
        [],
        [(0, 2, "ORG")],
        [(1, 3, "ORG")],
        [],
    ]
    assert matched(matcher, list("在NewYork")) == [[(1, 8, "LOC")]]
    texts = ["WITH IT NewYorker", "in New York", "do I T"]
    words = [list("".join(text.split())) for text in texts]
    found = matched(matcher, *words, texts=texts)
    assert found == [[(4, 6, "ORG")], [(2, 9, "LOC")], []]


def test_a_text_of_characters_may_have_longer_words_and_accents() -> None:
    matcher = Matcher(dictionary(("1998年", "DATE"), ("Ren\u00e9", "PER")), characters=True)
    sentences = ["在", "1998", "年"], list("在Rene\u0301家"), list("在\u3000René\u3000家")
    assert matched(matcher, *sentences) == [[(1, 3, "DATE")], [(1, 6, "PER")], [(2, 6, "PER")]]


def test_scripts_without_spaces_have_no_words_to_be_inside_of() -> None:
    matcher = Matcher(dictionary(("กรุงเทพ", "LOC")), characters=True)
    assert matched(matcher, list("ในกรุงเทพฯ")) == [[(2, 9, "LOC")]]


def test_nothing_is_found_in_nothing() -> None:
    assert Matcher(dictionary(("Ada", "PER"))).find([]).rows == []
    assert Matcher(dictionary(("Ada", "PER"), ("Ada", "ORG"))).find([["Ada"]]).rows == []


def test_where_all_exact_names_are_ambiguous_the_others_are_still_leftmost_longest() -> None:
    exact = [Entry("Ada", label, "exact") for label in ("PER", "ORG")]
    matcher = Matcher(Dictionary((*exact, Entry("New York", "LOC"), Entry("York", "LOC"))), ignore_case=True)
    assert matched(matcher, ["Ada", "NEW", "YORK"]) == [[(1, 3, "LOC")]]


def test_matches_are_entities_of_their_sentences_and_names_with_several_labels_are_none() -> None:
    names = dictionary(("Ada", "PER"), ("Paris", "LOC"), ("Paris", "PER"))
    matcher = Matcher(names, ambiguous="both-unknown")
    found = matcher.entities([["Paris", "greets", "Ada"], [], ["Paris"]])
    assert found == [[Entity(2, 3, "PER")], [], []]
    assert (found[0][0].source, found[0][0].score) == ("dictionary", None)


def test_the_sentences_tell_whether_names_are_cut_into_characters() -> None:
    names = dictionary(("上海", "LOC"), ("ADA", "PER"))
    characters = Matcher.for_sentences(names, [list("我在上海"), list("他也在")])
    assert characters.entities([list("我在上海")]) == [[Entity(2, 4, "LOC")]]
    words = Matcher.for_sentences(names, iter([["Ada", "sleeps"]]), ignore_case=True)
    assert words.entities([["Ada", "sleeps"]]) == [[Entity(0, 1, "PER")]]


def test_the_path_of_a_list_is_no_dictionary() -> None:
    with pytest.raises(TypeError, match=r"such as Dictionary.read\('names.tsv'\), but not 'names.tsv'$"):
        Matcher("names.tsv")  # type: ignore[arg-type]
