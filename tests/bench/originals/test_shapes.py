import json
import zipfile
from pathlib import Path

import pytest

from lacuner import Entity, Sentence
from lacuner.bench.originals.shapes import (
    read_columns,
    read_labels_and_names,
    read_names,
    read_raw_words,
    read_spans,
    read_tag_numbers,
    read_tagged_texts,
    read_texts,
    read_vectors,
    read_zipped_columns,
)
from lacuner.errors import DataError


@pytest.fixture
def file(tmp_path: Path):
    """Writes a file with this content."""

    def write(content: str, name: str = "original") -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_tokens_that_are_white_space_become_visible(file) -> None:
    assert read_columns(file(" \tO\n\u3000\tB-X\n\nA\tO\n"))[0] == Sentence(("␣", "␣"), (Entity(1, 2, "X"),))
    assert read_spans(file(json.dumps([{"tokens": [" ", "a"], "entities": []}])))[0].tokens == ("␣", "a")


def test_several_column_files_are_one_corpus(file) -> None:
    corpus = read_columns(file("A B-X\n\n", "one"), file("B O\n\n", "two"))
    assert corpus.tokens == (("A",), ("B",))


def test_a_file_without_a_single_b_is_still_read_as_its_authors_tagged_it(file) -> None:
    assert read_columns(file("a I-X\nb I-X\nc I-Y\n"))[0].entities == (Entity(0, 2, "X"), Entity(2, 3, "Y"))


def test_last_words_of_spans_belong_to_them(file) -> None:
    records = [{"tokens": ["New", "York", "!"], "entities": [[0, 1, "LOC"]]}]
    assert read_spans(file(json.dumps(records)))[0].entities == (Entity(0, 2, "LOC"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "original: it cannot be read as JSON"),
        ("{}", "original: it holds a dict, not a list"),
        (
            '[{"tokens": ["a"], "entities": []}, {"tokens": ["a"]}]',
            "original: sentence 2 has another form than expected",
        ),
        (
            '[{"tokens": ["a"], "entities": [[0, 1, "X"]]}]',
            "original: sentence 1 has another form .* ends after the last",
        ),
        ('[{"tokens": ["a"], "entities": [[0]]}]', "original: sentence 1 has another form than expected"),
    ],
)
def test_spans_of_another_form_are_refused(file, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_spans(file(content))


def test_numbers_of_tags_are_looked_up(file, caplog) -> None:
    numbers = file('{"O": 0, "B-X": 1, "I-X": 2, "I-Y": 3}', "numbers")
    tweets = [{"str_words": ["a", "b", "c"], "tags": [1, 2, 3], "chars": []}]
    assert read_tag_numbers(file(json.dumps(tweets)), numbers)[0].entities == (Entity(0, 2, "X"), Entity(2, 3, "Y"))
    assert "repaired tags: 1" in caplog.text
    with pytest.raises(
        DataError, match=r"sentence 1 has another form than expected \(ValueError: 1 tags for 2 words\)"
    ):
        read_tag_numbers(file('[{"str_words": ["a", "b"], "tags": [0]}]'), numbers)
    with pytest.raises(DataError, match=r"sentence 1 has another form than expected \(KeyError: 9\)"):
        read_tag_numbers(file('[{"str_words": ["a"], "tags": [9]}]'), numbers)


def test_texts_and_tags_belong_together_line_by_line(file) -> None:
    texts = file("Ada left New\u00a0York\nBob\n", "texts")
    corpus = read_tagged_texts(texts, file("B-PER O I-LOC\nO\n", "tags"))
    assert corpus[0] == Sentence(("Ada", "left", "New\u00a0York"), (Entity(0, 1, "PER"), Entity(2, 3, "LOC")))
    assert corpus.tokens == read_texts(texts).tokens


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("O O\n", "tags: 1 lines of tags for 2 sentences"),
        ("O O\nO\n", "tags:2: 1 tags for 2 words"),
        ("O O\nO PER\n", "tags:2: the tag 'PER' is neither O nor"),
    ],
)
def test_tags_of_other_texts_are_refused(file, tags: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_tagged_texts(file("a b\nc d\n", "texts"), file(tags, "tags"))


def test_names_are_kept_in_their_order_and_once_for_each_label(file) -> None:
    read = read_names(("X", "Y"))
    assert read(file("b\n a c \n\nb", "one"), file("b\r\n", "two")) == ["b\tX", "a c\tX", "b\tY"]


def test_a_dictionary_with_labels_first_is_turned_around(file) -> None:
    assert read_labels_and_names(file("X\tb c\nX\ta\nX\tb c\n")) == ["b c\tX", "a\tX"]
    with pytest.raises(DataError, match=r"original:2: 1 columns instead of a label and a name"):
        read_labels_and_names(file("X\tb\nc\n"))


def test_words_a_line_become_sentences_a_line(file) -> None:
    assert read_raw_words(file("a\nb\n\n\nc\n\nd")) == ["a b", "c", "d"]


def test_vectors_say_first_how_many_they_are_and_how_long(file) -> None:
    assert read_vectors(file("a\t1\t2\nb\t3\t4\n")) == ["2 2", "a 1 2", "b 3 4"]
    with pytest.raises(DataError, match="original: vectors of 2 different lengths"):
        read_vectors(file("a\t1\t2\nb\t3\n"))


def test_an_archive_without_the_training_set_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "MSRA.zip", "w") as archive:
        archive.writestr("MSRA/msra_test_bio", "a\tO\n")
    with pytest.raises(DataError, match=r"MSRA\.zip: there is no msra_train_bio in the archive"):
        read_zipped_columns(tmp_path / "MSRA.zip")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "MSRA.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("MSRA/msra_train_bio", "a\tO\n" * 100)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a\tO", b"b\tO", 1))
    with pytest.raises(DataError, match=r"MSRA\.zip: MSRA/msra_train_bio cannot be unpacked \(Bad CRC-32"):
        read_zipped_columns(path)
