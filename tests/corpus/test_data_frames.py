import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import DataError


def test_an_entity_is_a_row():
    corpus = Corpus(
        [
            Sentence(("nothing",)),
            Sentence(
                ("New", "York", "left"), (Entity(0, 2, "LOC", score=0.5), Entity(1, 2, "X", source="me")), text="New  York left"
            ),
        ]
    )  # fmt: skip
    frame = corpus.to_pandas()
    assert frame.drop(columns=["score", "source"]).to_dict("records") == [
        {"sentence": 1, "start": 0, "end": 2, "start_char": 0, "end_char": 9, "label": "LOC", "text": "New  York"},
        {"sentence": 1, "start": 1, "end": 2, "start_char": 5, "end_char": 9, "label": "X", "text": "York"},
    ]
    assert frame["score"].tolist()[0] == 0.5
    assert frame["source"].tolist()[1] == "me"
    assert frame.isna().to_numpy().sum() == 2
    assert frame["label"].value_counts().to_dict() == {"LOC": 1, "X": 1}


def test_a_corpus_without_entities_has_all_columns():
    frame = Corpus([Sentence(("nothing",))]).to_pandas()
    assert len(frame) == 0
    assert [*frame.columns] == [
        "sentence",
        "start",
        "end",
        "start_char",
        "end_char",
        "label",
        "text",
        "score",
        "source",
    ]
    assert str(frame["start"].dtype) == "int64"


def test_without_pandas_an_install_command_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install pandas"):
        Corpus([]).to_pandas()
