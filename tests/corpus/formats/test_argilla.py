import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.formats.argilla import write_argilla
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

ADA, TURIN = {"start": 0, "end": 3, "label": "PER"}, {"start": 9, "end": 14, "label": "LOC"}
RECORD = {
    "id": "a7",
    "fields": {"text": "Ada left Turin"},
    "metadata": {"page": 3},
    "suggestions": {"entities": {"value": [ADA, TURIN], "score": [0.9, 0.5], "agent": "my-model"}},
    "responses": {},
    "vectors": {},
    "status": "pending",
    "_server_id": "1d5d4bd6",
}
ANSWERED = RECORD | {
    "responses": {
        "entities": [
            {"value": [ADA], "user_id": "u1", "status": "discarded"},
            {"value": [TURIN], "user_id": "u2", "status": "draft"},
            {"value": [ADA], "user_id": "u3", "status": "submitted"},
            {"value": [ADA, TURIN], "user_id": "u4", "status": "submitted"},
        ]
    },
    "status": "completed",
}


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with this content."""

    def read_content(content, format="argilla", strict=False):
        path.write_text(json.dumps(content), encoding="utf-8")
        corpus = Corpus.read(path, format, strict=strict)
        read_content.report = corpus.report
        return list(corpus)

    path = tmp_path / "data.json"
    return read_content


def records_of(*sentences, **options):
    file, chosen = io.StringIO(), WriteOptions(**options)
    write_argilla(sentences, file, chosen)
    assert file.getvalue().isascii()
    records_of.losses = dict(chosen.losses)
    return json.loads(file.getvalue())


def test_a_sentence_is_a_record_with_suggestions_that_count_characters():
    sentence = Sentence(("😀", "Turin"), (Entity(1, 2, "LOC", score=0.12345),), text="😀 Turin")
    value = [{"start": 2, "end": 7, "label": "LOC"}]
    assert records_of(sentence) == [
        {
            "fields": {"text": "😀 Turin"},
            "metadata": {},
            "suggestions": {"entities": {"value": value, "score": [0.12345], "agent": "lacuner"}},
        }
    ]


def test_there_are_as_many_scores_as_spans_or_none():
    (record,) = records_of(Sentence(("Ada", "Bo"), (Entity(0, 1, "X", score=0.5), Entity(1, 2, "X"))))
    assert "score" not in record["suggestions"]["entities"]
    assert record["lacuner"]["entities"] == [{"score": 0.5}, {}]


def test_identifier_and_metadata_are_those_of_the_sentence():
    (record,) = records_of(Sentence(("Ada",), extra={"id": 17, "metadata": {"page": 3}}))
    assert (record["id"], record["metadata"]) == ("17", {"page": 3})


@pytest.mark.parametrize("format", ["argilla", None])
def test_suggestions_are_entities_of_a_model_with_scores(read, format):
    (sentence,) = read([RECORD], format)
    assert sentence == Sentence(
        ("Ada", "left", "Turin"), (Entity(0, 1, "PER"), Entity(2, 3, "LOC")), text=sentence.text
    )
    assert [(entity.source, entity.score) for entity in sentence.entities] == [("model", 0.9), ("model", 0.5)]
    assert (sentence.extra["id"], sentence.extra["metadata"]) == ("a7", {"page": 3})
    assert not read.report.counts
    (again,) = records_of(sentence)
    assert {key: again[key] for key in again if key in RECORD} == {
        key: RECORD[key] for key in RECORD if key not in ("responses", "vectors")
    }


def test_the_first_submitted_response_is_what_a_person_says(read):
    (sentence,) = read([ANSWERED])
    assert sentence.entities == (Entity(0, 1, "PER"),)
    assert sentence.entities[0].source == "human"
    assert read.report.counts == {
        "discarded responses": 1,
        "draft responses": 1,
        "further annotations": 1,
        "predictions beside annotations": 1,
    }
    (again,) = records_of(sentence)
    assert again["responses"] == {"entities": [ANSWERED["responses"]["entities"][2]]}
    (suggested,) = records_of(sentence, suggestions=True)
    assert suggested["suggestions"]["entities"] == {"value": [ADA], "agent": "lacuner"}
    with pytest.raises(DataError, match=r"data.json:1: a response is discarded; the 1 spans in it are left out"):
        read([ANSWERED], strict=True)


def test_a_response_without_a_status_is_submitted(read):
    responses = {"entities": [{"value": [TURIN], "user_id": "u"}]}
    (sentence,) = read([RECORD | {"responses": responses, "suggestions": {}}])
    assert sentence.entities == (Entity(2, 3, "LOC"),)
    assert not read.report.counts


@pytest.mark.parametrize("format", ["argilla", None])
def test_other_shapes_of_a_dataset_are_the_same_records(read, format):
    wanted = [sentence_to_record(sentence) for sentence in read([ANSWERED, ANSWERED])]
    columns = {key: [ANSWERED[key], ANSWERED[key]] for key in ANSWERED}
    assert [sentence_to_record(sentence) for sentence in read(columns, format)] == wanted
    assert [sentence_to_record(sentence) for sentence in read({"a7": ANSWERED, "a8": ANSWERED}, format)] == wanted
    suggestion, responses = ANSWERED["suggestions"]["entities"], ANSWERED["responses"]["entities"]
    flat = {
        "id": "a7",
        "status": "completed",
        "_server_id": "1d5d4bd6",
        "text": "Ada left Turin",
        "page": 3,
        "entities.responses": [response["value"] for response in responses],
        "entities.responses.users": [response["user_id"] for response in responses],
        "entities.responses.status": [response["status"] for response in responses],
        "entities.suggestion": suggestion["value"],
        "entities.suggestion.score": suggestion["score"],
        "entities.suggestion.agent": suggestion["agent"],
    }
    assert [sentence_to_record(sentence) for sentence in read([flat], format)] == wanted[:1]


def test_the_folder_of_a_dataset_is_known_and_read(tmp_path):
    folder = tmp_path / "dataset"
    (folder / ".argilla").mkdir(parents=True)
    (folder / ".argilla" / "settings.json").write_text("{}")
    (folder / "records.json").write_text(json.dumps([RECORD]))
    assert len(Corpus.read(folder)[0].entities) == 2


def test_fields_and_questions_besides_are_handed_on(read):
    record = RECORD | {
        "fields": {"article": "Ada left Turin", "picture": {"url": "x"}},
        "suggestions": {"spans": {"value": [ADA], "score": None, "agent": "m"}, "topic": {"value": "x", "score": 0.5}},
        "responses": {"topic": [{"value": "y", "user_id": "u"}]},
    }
    (sentence,) = read([record])
    assert read.report.unread["answers to topic"] == 1
    (again,) = records_of(sentence)
    assert again["fields"] == record["fields"]
    assert again["suggestions"] == {"spans": {"value": [ADA], "agent": "m"}, "topic": record["suggestions"]["topic"]}
    assert again["responses"] == record["responses"]


@pytest.mark.parametrize(
    ("start", "end"),
    [(2, 8), (3, 9), (2, 5)],
    ids=["characters", "code units", "neither"],
)
def test_offsets_of_responses_may_be_those_of_the_page(read, start, end):
    span = {"start": start, "end": end, "label": "X"}
    responses = {"entities": [{"value": [span], "user_id": "u", "status": "submitted"}]}
    record = RECORD | {"fields": {"text": "🚀 rocket r"}, "responses": responses, "suggestions": {}}
    (sentence,) = read([record])
    (entity,) = sentence.entities
    assert sentence.text_of(entity.start, entity.end) == "rocket"
    assert read.report.counts == ({"entities moved to word borders": 1} if end == 5 else {})


def test_offsets_that_fit_in_both_ways_are_counted(read):
    responses = {"entities": [{"value": [{"start": 3, "end": 4, "label": "X"}], "user_id": "u"}]}
    (sentence,) = read([RECORD | {"fields": {"text": "🚀 a,b"}, "responses": responses, "suggestions": {}}])
    assert sentence.tokens[sentence.entities[0].start] == "a"
    assert read.report.counts == {"offsets that may count otherwise": 1}


def test_offsets_of_responses_that_we_write_count_characters(read):
    responses = {"entities": [{"value": [{"start": 0, "end": 1, "label": "X"}], "user_id": "u"}]}
    (first,) = read([RECORD | {"fields": {"text": "O 😀 😀 _ ?"}, "responses": responses, "suggestions": {}}])
    wider = Sentence(first.tokens, (Entity(0, 4, "X", source="human"),), text=first.text, extra=first.extra)
    (again,) = read(records_of(wider))
    assert again == wider
    assert not read.report.counts


def test_what_argilla_has_no_place_for_comes_back(read):
    sentence = Sentence(
        ("😀", "New York", "left"),
        (Entity(1, 2, "LOC", source="dictionary", score=0.25, extra={"id": 7}), Entity(2, 3, "X")),
        (Span(0, 1, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"LOC"}),
        unknown_tokens=frozenset({0}),
        text="😀  New York left",
        extra={"id": 5, "metadata": [1], "author": "Bo", "argilla": "mine"},
    )
    (again,) = read(records_of(sentence))
    assert sentence_to_record(again) == sentence_to_record(sentence)
    assert not records_of.losses


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "Ada"}, '"fields" with "suggestions" or "responses" is not there'),
        (
            RECORD | {"fields": {"a": "x", "b": "y"}},
            "the record has 2 texts (a, b), and nothing tells which is annotated",
        ),
        (RECORD | {"fields": {"a": 3}}, "the record has no text"),
        (RECORD | {"responses": [{"values": {}}]}, '"responses" must be an object'),
        (RECORD | {"suggestions": [{"question_id": "x"}]}, '"suggestions" must be an object'),
        (
            RECORD | {"suggestions": {"a": {"value": [ADA]}, "b": {"value": [ADA]}}},
            "there are spans as answers to two questions, 'a' and 'b' — keep the intended one",
        ),
        (
            RECORD | {"suggestions": {"entities": {"value": [ADA | {"end": 99}]}}},
            "Entity(start=0, end=99, label='PER', source='model') ends after the text's 14 characters",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(read, record, message):
    with pytest.raises(DataError) as raised:
        read([record])
    assert f"data.json:1: {message}" in str(raised.value)
