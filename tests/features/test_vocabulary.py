import copy
import json
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner.features.vocabulary import PADDING, UNKNOWN, Vocabulary, WordInputs, find_key, word_keys


def spelling(vocabulary: Vocabulary, inputs: WordInputs, row: int, column: int) -> str:
    """What the encoder sees of a word, as characters; ``?`` for unknown ones."""
    numbers = inputs.characters[inputs.forms[row, column]].tolist()
    shown = {UNKNOWN: "?"} | dict(enumerate(vocabulary.characters, 2))
    return "".join(shown[number] for number in numbers if number != PADDING)


def test_a_word_is_looked_up_as_it_stands_then_in_lower_case_then_without_digits() -> None:
    assert word_keys("Boeing747") == ("Boeing747", "boeing747", "boeing000")
    assert find_key("Boeing747", {"boeing000", "boeing747"}) == "boeing747"
    assert find_key("Boeing747", {"boeing000", "Boeing747"}) == "Boeing747"
    assert find_key("Boeing747", {"boeing"}) is None


def test_case_and_digits_do_not_make_another_word() -> None:
    vocabulary = Vocabulary.build([["Turin", "1986"]])
    known = vocabulary.word_number("Turin")
    assert known != UNKNOWN
    assert vocabulary.word_number("TURIN") == vocabulary.word_number("turin") == known
    assert vocabulary.word_number("2024") == vocabulary.word_number("1986") != known


def test_a_word_that_training_lacks_is_unknown() -> None:
    vocabulary = Vocabulary.build([["Turin"]])
    assert vocabulary.word_number("Milan") == UNKNOWN


def test_a_word_that_only_the_vector_file_has_is_known() -> None:
    vocabulary = Vocabulary.build([["Turin", "fell"]], vector_words=["milan", "turin", "Rome"])
    assert vocabulary.words[: vocabulary.trained] == ("fell", "turin")
    assert vocabulary.words[vocabulary.trained :] == ("milan", "Rome")
    assert vocabulary.word_number("Milan") == 2 + vocabulary.words.index("milan")
    assert vocabulary.word_number("rome") == UNKNOWN, "the file has it in upper case only"


def test_every_word_of_the_corpus_is_found_under_the_key_it_was_counted_under() -> None:
    tokens = ["Apple", "apple", "APPLE", "B2", "b2", "3,5", "İzmir"]
    for vector_words in ([], ["Apple", "apple", "b2"]):
        vocabulary = Vocabulary.build([tokens], vector_words)
        for token in tokens:
            assert UNKNOWN < vocabulary.word_number(token) < 2 + vocabulary.trained


def test_padding_unknown_and_words_have_different_numbers() -> None:
    vocabulary = Vocabulary.build([["a", "b", "c"]], ["d"])
    numbers = [PADDING, UNKNOWN, *map(vocabulary.word_number, "abcd")]
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_words_seen_once_are_rare_unless_a_vector_file_knows_them() -> None:
    vocabulary = Vocabulary.build([["a", "a", "b", "c"]], ["c", "d"])
    rare = vocabulary.rare_words()
    assert len(rare) == vocabulary.trained + 2
    assert rare.nonzero().flatten().tolist() == [vocabulary.word_number("b")]


def test_characters_keep_their_case_and_lose_their_digits() -> None:
    vocabulary = Vocabulary.build([["Turin", "turin", "R2"]])
    inputs = vocabulary.collate([["Turin", "turin", "R9"]])
    assert inputs.words[0, 0] == inputs.words[0, 1]
    assert [spelling(vocabulary, inputs, 0, column) for column in range(3)] == ["Turin", "turin", "R0"]


def test_a_character_that_training_lacks_is_unknown() -> None:
    vocabulary = Vocabulary.build([["Turin"]])
    assert spelling(vocabulary, vocabulary.collate([["Tür"]]), 0, 0) == "T?r"


def test_shorter_sentences_are_padded() -> None:
    vocabulary = Vocabulary.build([["a", "b"]])
    inputs = vocabulary.collate([["a"], ["b", "a", "c"], []])
    assert inputs.lengths.tolist() == [1, 3, 0]
    assert inputs.words.tolist() == [[2, PADDING, PADDING], [3, 2, UNKNOWN], [PADDING] * 3]


def test_a_word_is_spelled_once_however_often_it_occurs() -> None:
    vocabulary = Vocabulary.build([["a", "b"]])
    inputs = vocabulary.collate([["a", "b", "a"], ["a", "a"]])
    assert len(inputs.characters) == 2
    assert spelling(vocabulary, inputs, 1, 1) == "a"


def test_of_a_very_long_word_both_ends_are_spelled() -> None:
    word = "a" * 24 + "b" * 100_000 + "c" * 24
    vocabulary = Vocabulary.build([[word]])
    inputs = vocabulary.collate([[word]])
    assert spelling(vocabulary, inputs, 0, 0) == "a" * 24 + "c" * 24
    assert vocabulary.word_number(word) != UNKNOWN


def test_a_word_of_ordinary_length_is_spelled_in_full() -> None:
    word = "abcdefghijklmnopqrstuvwxyz" + "abcdefghijklmnopqrstuv"
    vocabulary = Vocabulary.build([[word]])
    assert len(word) == 48
    assert spelling(vocabulary, vocabulary.collate([[word]]), 0, 0) == word


def test_batches_do_not_depend_on_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [["a", "Turin", "b2"], ["Turin", "c", "a"]]
    vocabulary = Vocabulary.build([["a", "turin", "b0"]])
    first = vocabulary.collate(sentences)
    monkeypatch.setattr("lacuner.features.vocabulary._REMEMBERED", 2)
    forgetful = Vocabulary.build([["a", "turin", "b0"]])
    for used in (vocabulary, forgetful, copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))):
        again = used.collate(sentences)
        assert all(one.equal(other) for one, other in zip(vars(again).values(), vars(first).values(), strict=True))
    assert len(forgetful._entries) <= 2
    assert forgetful == vocabulary


@pytest.mark.parametrize("sentences", [[[]], [[], []], []])
def test_a_batch_without_words_has_no_columns(sentences: list[list[str]]) -> None:
    vocabulary = Vocabulary.build([["a"]])
    inputs = vocabulary.collate(sentences)
    assert inputs.words.shape == inputs.forms.shape == (len(sentences), 0)
    assert inputs.lengths.tolist() == [0] * len(sentences)
    assert inputs.characters.dtype == torch.long


@given(st.lists(st.lists(st.text(st.sampled_from("aB1٣é🙂\ud800\n"), max_size=60), min_size=1), min_size=1))
def test_words_are_spelled_character_by_character(sentences: list[list[str]]) -> None:
    vocabulary = Vocabulary.build([["aB", "é0🙂"]])
    batch = vocabulary.collate(sentences)
    numbers = {character: number for number, character in enumerate(vocabulary.characters, 2)}
    for row, words in enumerate(sentences):
        for column, word in enumerate(words):
            kept = word if len(word) <= 48 else word[:24] + word[-24:]
            expected = [numbers.get("0" if character.isdigit() else character, UNKNOWN) for character in kept]
            spelled = batch.characters[batch.forms[row, column]].tolist()
            assert spelled == expected + [PADDING] * (len(spelled) - len(expected))
        assert (batch.words[row, len(words) :] == PADDING).all()


def test_an_empty_word_is_spelled_as_padding() -> None:
    inputs = Vocabulary.build([["a"]]).collate([[""]])
    assert inputs.words.tolist() == [[UNKNOWN]]
    assert inputs.characters.tolist() == [[PADDING]]


def test_a_sentence_costs_its_words() -> None:
    vocabulary = Vocabulary.build([["a"]])
    assert vocabulary.lengths([["a", "b", "c"], []]) == [3, 0]


def test_a_vocabulary_survives_json() -> None:
    vocabulary = Vocabulary.build([["Turin", "fell", "fell", "1986", '"']], ["milan", "turin"])
    restored = Vocabulary.from_dict(json.loads(json.dumps(vocabulary.as_dict())))
    assert restored == vocabulary
    assert restored.rare_words().tolist() == vocabulary.rare_words().tolist()
    sentences = [["Milan", "FELL", "in", "1999"]]
    assert restored.collate(sentences).words.tolist() == vocabulary.collate(sentences).words.tolist()
