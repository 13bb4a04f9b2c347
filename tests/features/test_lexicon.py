from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.errors import DataError
from lacuner.features import lexicon as module
from lacuner.features.lexicon import Cover, LatticeIndex, Lexicon, lexicon_words, read_words
from lacuner.features.vocabulary import Vocabulary

BRIDGE = "南京市长江大桥"
WORDS = ("南京", "南京市", "市长", "长江", "长江大桥", "大桥", "北京")

letters = st.sampled_from("甲乙")
some_words = st.lists(st.text(letters, min_size=2, max_size=5), max_size=8, unique=True)
some_tokens = st.lists(st.one_of(letters, st.text(letters, max_size=3)), max_size=9)


def found(lexicon: Lexicon, tokens: Sequence[str]) -> list[tuple[str, int, int]]:
    return [(lexicon.words[number - 1], begin, end) for number, begin, end in lexicon.match(tokens)]


def by_brute_force(words: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, int, int]]:
    places = [(begin, end) for begin in range(len(tokens)) for end in range(begin + 1, len(tokens) + 1)]
    joined = [("".join(tokens[begin:end]), begin, end) for begin, end in places]
    return [(text, begin, end) for text, begin, end in joined if text in words]


@pytest.mark.parametrize("words", [WORDS, WORDS[::-1]])
def test_all_words_around_a_character_are_found_also_those_that_cross(words: Sequence[str]) -> None:
    assert found(Lexicon(words, len(words)), BRIDGE) == [
        ("南京", 0, 2), ("南京市", 0, 3), ("市长", 2, 4), ("长江", 3, 5), ("长江大桥", 3, 7), ("大桥", 5, 7),
    ]  # fmt: skip


@given(some_words, some_tokens)
def test_a_word_is_found_wherever_it_equals_consecutive_tokens(words: list[str], tokens: list[str]) -> None:
    assert found(Lexicon(words, 0), tokens) == by_brute_force(words, tokens)


def test_a_word_that_ends_inside_a_token_is_not_found() -> None:
    lexicon = Lexicon(WORDS, 0)
    assert found(lexicon, ["南京", "市长", "江", "大桥"]) == [("南京", 0, 1), ("市长", 1, 2), ("大桥", 3, 4)]
    assert found(lexicon, ["南", "京市", "长江大", "桥"]) == [("南京市", 0, 2), ("长江大桥", 2, 4)]


def test_white_space_in_words_does_not_count_and_single_characters_are_no_words() -> None:
    assert lexicon_words(["的", "New York", "长江", " 江 ", "", "NewYork", "长 江"]) == {"NewYork": 1, "长江": 2}
    assert found(Lexicon.build([], ["New York"], True), ["in", "New", "York"]) == [("NewYork", 1, 3)]


def test_no_more_is_looked_up_than_the_longest_word_with_the_same_beginning_needs() -> None:
    class Counting(dict[str, int]):
        asked = 0

        def get(self, key: str, default: int | None = None) -> int | None:
            self.asked += 1
            assert len(key) <= 4
            return super().get(key, default)

    lexicon = Lexicon([*WORDS, "北" * 50], 0)
    lexicon._numbers = counting = Counting(lexicon._numbers)
    lexicon.match(BRIDGE * 1000)
    assert counting.asked <= 1000 * (3 + 2 + 4 + 2), "南京… 市长 长江… 大桥; no other two characters begin a word"


def test_words_of_the_corpus_come_first_and_others_stay_only_with_vectors() -> None:
    sentences = [list("长江大桥"), list("北京")]
    with_vectors = Lexicon.build(sentences, ["南京", *WORDS], have_vectors=True)
    assert with_vectors.words == ("长江", "长江大桥", "大桥", "北京", "南京", "南京市", "市长")
    assert with_vectors.trained == 4
    without = Lexicon.build(sentences, WORDS, have_vectors=False)
    assert without.words == ("长江", "长江大桥", "大桥", "北京")
    assert without.trained == 4
    assert found(with_vectors, "南京市") == [("南京", 0, 2), ("南京市", 0, 3)]
    assert found(without, "南京市") == []


def test_threads_that_share_a_lexicon_find_what_one_thread_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_SIZE", 2)
    lexicon = Lexicon(WORDS, 0)
    sentences = [BRIDGE[number % 7 :] for number in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lexicon.match, sentences))
    assert found == [tuple(lexicon._find(sentence)) for sentence in sentences]


def test_sentences_seen_lately_are_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_SIZE", 3)
    lexicon = Lexicon(WORDS, 0)
    searched = []
    find = lexicon._find
    monkeypatch.setattr(lexicon, "_find", lambda tokens: [searched.append("".join(tokens)), *find(tokens)][1:])
    for _ in range(5):
        assert len(lexicon.match(list(BRIDGE))) == len(lexicon.match(tuple(BRIDGE))) == 6
    assert searched == [BRIDGE]
    for number in range(50):
        lexicon.match([str(number)])
        assert len(lexicon._recent) <= 3
    assert len(lexicon.match(BRIDGE)) == 6


def test_a_lexicon_survives_json() -> None:
    lexicon = Lexicon(WORDS, 3)
    again = Lexicon.from_dict(lexicon.as_dict())
    assert (again.words, again.trained, again.match(BRIDGE)) == (lexicon.words, 3, lexicon.match(BRIDGE))


def test_word_lists_have_one_word_a_line_and_perhaps_a_type(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text("南京\tLOC\n\n长江大桥\nNew York\tLOC\r\n的\n", encoding="utf-8")
    assert read_words(path) == ["南京", "长江大桥", "New York", "的"]


@pytest.mark.parametrize("line", ["南京\tLOC\t3", "\tLOC", " \tLOC"])
def test_a_bad_line_of_a_word_list_is_named_with_its_file(line: str, tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text(f"长江\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_words(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)


@given(some_words, st.lists(some_tokens, min_size=1, max_size=4))
def test_every_token_knows_the_words_that_it_is_part_of(words: list[str], sentences: list[list[str]]) -> None:
    cover = Cover.of(sentences, Lexicon(words, 0))
    assert cover.words[0] == 0
    assert len(set(cover.words.tolist())) == len(cover.words)
    assert cover.index.shape[:2] == (len(sentences), max(map(len, sentences)))
    for row, tokens in enumerate(sentences):
        matches = by_brute_force(words, tokens)
        for place in range(cover.index.shape[1]):
            numbers = cover.words[cover.index[row, place]].tolist()
            expected = [text for text, begin, end in matches if begin <= place < end]
            assert sorted(words[number - 1] for number in numbers if number) == sorted(expected)


def test_a_lattice_has_tokens_and_words_with_their_places() -> None:
    sentences = [list(BRIDGE), list("北京"), ["我"]]
    lexicon, vocabulary = Lexicon(WORDS, 0), Vocabulary.build(sentences)
    index = LatticeIndex(vocabulary, lexicon)
    assert index.lengths(sentences) == [7 + 6, 2 + 1, 1]
    lattice = index.collate(sentences)
    assert lattice.lengths.tolist() == [7, 2, 1]
    assert lattice.tokens[0].tolist() == [vocabulary.word_number(token) for token in BRIDGE]
    rows = zip(lattice.words.tolist(), lattice.begin.tolist(), lattice.end.tolist(), strict=True)
    nodes = [[node for node in zip(*row, strict=True) if node[0]] for row in rows]
    assert nodes == [list(lexicon.match(tokens)) for tokens in sentences]
    assert (lattice.begin < lattice.end).all()
