import json

import pytest
from any_sentence import any_sentences
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError


@pytest.fixture
def read(tmp_path):
    def read_rows(*rows, strict=False):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Corpus.read(path, "ner_tags", strict=strict)

    return read_rows


def taggable(sentence):
    return all("#" not in entity.label for entity in sentence.entities)


@given(corpus=st.lists(any_sentences().filter(taggable), max_size=3))
def test_any_corpus_comes_back_with_everything_that_is_known(tmp_path_factory, corpus):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    write_sentences(corpus, path, "ner_tags")
    again = list(stream_sentences(path, "ner_tags"))
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]


def test_rows_are_what_others_expect(tmp_path):
    path = tmp_path / "data.jsonl"
    sentences = [
        Sentence(("Ada", "Lovelace", "left"), (Entity(0, 2, "PER"),), extra={"id": "7"}),
        Sentence(("Ada", "left", "Turin"), (Entity(0, 1, "PER"),), complete=True, unknown_tokens=frozenset({2})),
    ]
    Corpus(sentences).write(path, "ner_tags")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"tokens": ["Ada", "Lovelace", "left"], "ner_tags": ["B-PER", "I-PER", "O"], "id": "7"},
        {"tokens": ["Ada", "left", "Turin"], "ner_tags": ["B-PER", "O", "?"]},
    ]


@pytest.mark.parametrize("column", ["ner_tags", "tags", "ner"])
@pytest.mark.parametrize("words", ["tokens", "words"])
def test_columns_may_have_other_names(read, column, words):
    (sentence,) = read({words: ["Ada", "left"], column: ["B-PER", "O"], "id": 1, "nothing": None})
    assert sentence == Sentence(("Ada", "left"), (Entity(0, 1, "PER"),))
    assert sentence.extra == {"id": 1}


def test_the_scheme_is_that_of_all_rows(read):
    rows = [{"tokens": ["Ada", "Bo", "Cy"], "ner_tags": tags} for tags in (["S-X", "O", "O"], ["O", "B-X", "E-X"])]
    assert [sentence.entities for sentence in read(*rows)] == [(Entity(0, 1, "X"),), (Entity(1, 3, "X"),)]
    bare = [{"tokens": ["Ada", "Bo", "Cy"], "ner_tags": ["person-actor", "person-actor", "O"]}]
    assert read(*bare)[0].entities == (Entity(0, 2, "person-actor"),)


def test_broken_tags_are_repaired_and_counted(read):
    rows = [{"tokens": ["a", "b"], "ner_tags": ["B-X", "I-Y"]}, {"tokens": ["a", "b"], "ner_tags": ["B-X", "I-X"]}]
    corpus = read(*rows)
    assert corpus[0].entities == (Entity(0, 1, "X"), Entity(1, 2, "Y"))
    assert corpus.report.counts == {"repaired tags": 1}
    with pytest.raises(DataError, match=r"data.jsonl:1: I-Y continues nothing"):
        read(*rows, strict=True)


REFUSED = {
    "numbers without names": (
        {"tokens": ["Ada"], "ner_tags": [1]},
        r'"ner_tags" are numbers, and nothing says which tags they stand for — write names \(B-PER, …\)',
    ),
    "too few tags": ({"tokens": ["a", "b"], "ner_tags": ["O"]}, '"ner_tags" must be a list with a tag for each word'),
    "no words": ({"tokens": [1], "ner_tags": ["O"]}, '"tokens" must be a list of words'),
    "an empty word": ({"tokens": [""], "ner_tags": ["O"]}, '"tokens" must be a list of words'),
    "a tag that is none": ({"tokens": ["a"], "ner_tags": [None]}, "the tag 'None' is not one of the 0"),
    "other columns": ({"text": "Ada", "label": 1}, 'only: text, label — call them "tokens" and "ner_tags"'),
    "a label that is O": ({"tokens": ["a"], "ner_tags": ["B-O"]}, "has O as its label"),
    "a record of something else": ({"tokens": ["a"], "ner_tags": ["O"], "lacuner": "x"}, '"lacuner" is not what was'),
}


@pytest.mark.parametrize(("row", "what"), REFUSED.values(), ids=REFUSED)
def test_rows_that_cannot_be_read_are_refused(read, row, what):
    with pytest.raises(DataError, match=what):
        read(row)


def test_what_was_changed_since_counts(read, tmp_path):
    Corpus([Sentence(("Ada", "left"), (Entity(0, 1, "PER", source="me"),), complete=True)]).write(
        tmp_path / "a.jsonl", "ner_tags"
    )
    row = json.loads((tmp_path / "a.jsonl").read_text())
    corpus = read(row | {"ner_tags": ["O", "B-LOC"]})
    assert list(corpus) == [Sentence(("Ada", "left"), (Entity(1, 2, "LOC"),))]
    assert corpus.report.counts == {"changed sentences": 1}


def test_a_label_that_cannot_be_a_tag_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a comment follows the tag: 'B-a #b' — write JSON Lines"):
        Corpus([Sentence(("x",), (Entity(0, 1, "a #b"),))]).write(tmp_path / "a.jsonl", "ner_tags")
