"""Questions before texts."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import processors

from lacuner.errors import ConfigError
from lacuner.features.questions import CHINESE, ENGLISH, QuestionIndex, default_questions
from lacuner.features.subwords import PieceIndex, PieceInputs
from tiny_models import WORDS, word_tokenizer

QUESTIONS = ("Ada moved", "to Turin , Piedmont", "Turin")
TOKENIZER = word_tokenizer(WORDS)
CLS, SEP, PAD = (TOKENIZER.convert_tokens_to_ids(name) for name in ("[CLS]", "[SEP]", "[PAD]"))


def numbers(words: Sequence[str]) -> list[int]:
    return list(TOKENIZER.convert_tokens_to_ids(list(words)))


def rows(inputs: PieceInputs) -> list[list[int]]:
    """The pieces of each window, without padding."""
    return [row[: int(there.sum())].tolist() for row, there in zip(inputs.pieces, inputs.attention, strict=True)]


def test_every_sentence_is_asked_every_question_one_after_the_other() -> None:
    sentences = [("Ada", "moved"), ("Turin",)]
    inputs = QuestionIndex(TOKENIZER, 128, QUESTIONS).collate(sentences)
    expected = [
        [CLS, *numbers(question.split()), SEP, *numbers(words), SEP] for words in sentences for question in QUESTIONS
    ]
    assert rows(inputs) == expected
    assert inputs.lengths.tolist() == [2, 2, 2, 1, 1, 1]


def test_words_are_found_behind_the_question_and_segments_tell_the_two_apart() -> None:
    inputs = QuestionIndex(TOKENIZER, 128, QUESTIONS).collate([("Ada", "moved"), ("Turin",)])
    assert inputs.segments is not None
    pieces = inputs.pieces.flatten()
    assert pieces[inputs.first][:3].tolist() == [numbers(("Ada", "moved"))] * 3
    assert pieces[inputs.first][3:, 0].tolist() == numbers(("Turin",)) * 3
    assert inputs.first.equal(inputs.last)
    for row, segment, there in zip(rows(inputs), inputs.segments, inputs.attention, strict=True):
        question = row.index(SEP) + 1
        assert segment.tolist() == [0] * question + [1] * (len(row) - question) + [0] * int((there == 0).sum())


def test_without_questions_there_are_no_segments_and_batches_move_as_a_whole() -> None:
    plain = PieceIndex(TOKENIZER, 128).collate([("Ada",)])
    assert plain.segments is None
    assert plain.to(torch.device("meta")).segments is None
    asked = QuestionIndex(TOKENIZER, 128, QUESTIONS).collate([("Ada",)]).to(torch.device("meta"))
    assert asked.segments is not None
    assert asked.segments.device.type == asked.pieces.device.type == "meta"


def test_questions_cost_nothing_in_a_batch() -> None:
    """So that batches hold the same sentences, and an epoch has the same steps, as with other methods."""
    sentences = [("Ada", "moved"), ("Turin",)]
    assert QuestionIndex(TOKENIZER, 128, QUESTIONS).lengths(sentences) == PieceIndex(TOKENIZER, 128).lengths(sentences)


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=400), min_size=1, max_size=3))
def test_no_word_of_a_long_sentence_is_lost_and_the_question_is_in_every_window(sentences: list[list[str]]) -> None:
    inputs = QuestionIndex(TOKENIZER, 128, QUESTIONS).collate(sentences)
    assert inputs.pieces.shape[1] <= 128
    pieces = inputs.pieces.flatten()
    openings = [[CLS, *numbers(question.split()), SEP] for question in QUESTIONS]
    for row in range(len(sentences) * len(QUESTIONS)):
        sentence, opening = sentences[row // len(QUESTIONS)], openings[row % len(QUESTIONS)]
        first = inputs.first[row, : len(sentence)]
        assert pieces[first].tolist() == numbers(sentence)
        for window in (first // inputs.pieces.shape[1]).unique().tolist():
            assert rows(inputs)[window][: len(opening)] == opening


def test_a_question_that_leaves_no_room_for_the_text_is_refused() -> None:
    QuestionIndex(TOKENIZER, 128, ["Ada " * 60])
    with pytest.raises(ConfigError, match=r"the question 'Ada Ada .* no room for the text — ask it in fewer words"):
        QuestionIndex(TOKENIZER, 128, ["Turin", "Ada " * 70])


def test_what_a_tokenizer_puts_between_two_texts_is_put_there() -> None:
    tokenizer = word_tokenizer(WORDS)
    ends = [("[CLS]", CLS), ("[SEP]", SEP)]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=ends
    )
    (row,) = rows(QuestionIndex(tokenizer, 128, ["Turin"]).collate([("Ada",)]))
    assert row == [CLS, *numbers(["Turin"]), SEP, SEP, *numbers(["Ada"]), SEP]


def test_known_labels_have_questions_of_their_own_in_the_language_of_the_text() -> None:
    english = default_questions(["PER", "Chemical", "geo-loc"], [["Ada", "left"]])
    assert english == {"PER": ENGLISH["per"], "Chemical": ENGLISH["chemical"], "geo-loc": ENGLISH["geo-loc"]}
    chinese = default_questions(["PER", "pp"], [list("他买苹果")])
    assert chinese == {"PER": CHINESE["per"], "pp": CHINESE["pp"]}


@pytest.mark.parametrize(
    ("label", "question"),
    [
        ("EyeColor", "Find eye color."),
        ("work-shop", "Find work shop."),
        ("B-52_type", "Find b 52 type."),
        ("XYZ", "Find XYZ."),
        ("---", "Find ---."),
    ],
)
def test_other_labels_are_asked_about_by_name(label: str, question: str) -> None:
    assert default_questions([label], ()) == {label: question}
    assert label in default_questions([label], [list("他买苹果")])


def test_questions_of_labels_are_sentences_and_labels_are_in_lower_case() -> None:
    for known, end in ((ENGLISH, "."), (CHINESE, "。")):
        assert all(label == label.lower() and question.endswith(end) for label, question in known.items())
