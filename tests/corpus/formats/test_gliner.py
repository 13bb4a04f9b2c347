import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.gliner import write_gliner
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

TOKENS = ["Apple", "Inc.", "hired", "Tim", "Cook"]
RECORD = {"tokenized_text": TOKENS, "ner": [[0, 1, "organization"], [3, 4, "person"]]}


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with this content."""

    def read_content(content, format="gliner"):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return list(Corpus.read(path, format))

    path = tmp_path / "data.json"
    return read_content


def written(*sentences):
    file = io.StringIO()
    write_gliner(sentences, file, WriteOptions())
    return json.loads(file.getvalue())


@pytest.mark.parametrize("format", ["gliner", None])
def test_the_second_number_is_the_last_word(read, format):
    wanted = Sentence(tuple(TOKENS), (Entity(0, 2, "organization"), Entity(3, 5, "person")))
    assert read([RECORD], format) == [wanted]
    assert read(json.dumps(RECORD) + "\n" + json.dumps(RECORD), format) == [wanted, wanted]
    assert read(json.dumps([RECORD], indent=2).replace("\n", "\r\n"), format) == [wanted]


@pytest.mark.parametrize(
    "fields",
    [
        {"ner_labels": ["person", "organization", "place"], "ner_negatives": ["event"]},
        {"label": ["person", "organization", "place"], "negative": ["event"]},
        {"ner_negatives": ["event", "place"]},
    ],
)
def test_labels_and_negatives_are_what_was_looked_for(read, fields):
    (sentence,) = read([RECORD | fields])
    assert sentence.annotated_labels == {"person", "organization", "place", "event"}
    (again,) = written(sentence)
    assert again["ner_labels"] == ["organization", "person"]
    assert again["ner_negatives"] == ["event", "place"]
    assert not sentence.extra


def test_an_example_without_entities_is_one(read):
    assert read([{"tokenized_text": ["Hello"], "ner": []}], None) == [Sentence(("Hello",))]


def test_relations_still_mean_the_same_entities(read):
    record = {"tokenized_text": TOKENS, "ner": [[3, 4, "person"], [0, 1, "organization"]], "relations": [[0, 1, "at"]]}
    (sentence,) = read([record])
    assert [entity.label for entity in sentence.entities] == ["organization", "person"]
    assert sentence.extra["relations"] == [[1, 0, "at"]]
    (again,) = written(sentence)
    assert again["ner"] == [[0, 1, "organization"], [3, 4, "person"]]


def test_what_gliner_has_no_place_for_comes_back(read):
    sentence = Sentence(
        ("😀", "New York", "left"),
        (Entity(1, 2, "LOC", source="human", score=0.25, extra={"id": 7}), Entity(1, 3, "X")),
        (Span(2, 3, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"LOC"}),
        unknown_tokens=frozenset({0}),
        text="😀  New York left",
        extra={"id": 5, "label": "news", "ner": 1},
    )
    (record,) = written(sentence)
    assert record["ner"] == [[1, 1, "LOC"], [1, 2, "X"]]
    assert record["id"] == 5
    (again,) = read([record])
    assert sentence_to_record(again) == sentence_to_record(sentence)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"tokens": ["Ada"]}, '"tokenized_text" (a list of words) is not there'),
        ({"tokenized_text": ["Ada"], "ner": {}}, '"ner" must be a list'),
        ({"tokenized_text": ["Ada"], "ner": [["PER", 0, 0]]}, "['PER', 0, 0] is not an entity"),
        ({"tokenized_text": ["Ada"], "ner": [[0, "0", "PER"]]}, "[0, '0', 'PER'] is not an entity of GLiNER's"),
        (
            {"tokenized_text": ["Ada"], "ner": [[0, 1, "PER"]]},
            "Entity(start=0, end=2, label='PER') ends after the last",
        ),
        ({"tokenized_text": ["Ada"], "ner": [], "ner_labels": "PER"}, '"ner_labels" must be a list of labels'),
    ],
)
def test_what_is_no_record_of_gliner_is_refused(read, record, message):
    with pytest.raises(DataError) as raised:
        read([record])
    assert f"data.json:1: {message}" in str(raised.value)
