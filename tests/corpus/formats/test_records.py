import pytest

from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.records import (
    entity_from_record,
    entity_to_record,
    sentence_from_record,
    sentence_to_record,
)
from lacuner.errors import DataError

FULL = {
    "text": "Ada left  Turin",
    "tokens": ["Ada", "left", "Turin"],
    "entities": [
        {"start": 0, "end": 1, "label": "PER", "text": "Ada", "score": 0.5, "source": "model"},
        {"start": 2, "end": 3, "label": "LOC", "source": "human"},
    ],
    "non_entities": [{"start": 0, "end": 2, "source": "reviewer"}, {"start": 1, "end": 2}],
    "complete": True,
    "annotated_labels": ["LOC", "PER"],
    "unknown_tokens": [0, 1],
}


def sentence_of(record, report=None):
    return sentence_from_record(record, "data.jsonl", 7, report)


def error_of(record):
    with pytest.raises(DataError) as raised:
        sentence_of(record)
    return str(raised.value)


def test_a_record_says_everything_about_a_sentence():
    sentence = sentence_of(FULL)
    assert sentence == Sentence(
        ("Ada", "left", "Turin"),
        (Entity(0, 1, "PER"), Entity(2, 3, "LOC")),
        (Span(0, 2), Span(1, 2)),
        complete=True,
        annotated_labels=frozenset({"LOC", "PER"}),
        unknown_tokens=frozenset({0, 1}),
        text="Ada left  Turin",
    )
    assert [entity.source for entity in sentence.entities] == ["model", "human"]
    assert (sentence.entities[0].text, sentence.entities[0].score) == ("Ada", 0.5)
    assert [span.source for span in sentence.non_entities] == ["reviewer", None]
    assert sentence_to_record(sentence) == FULL


def test_a_record_is_silent_about_what_is_as_usual():
    assert sentence_to_record(Sentence(("Ada",))) == {"tokens": ["Ada"], "entities": []}
    assert sentence_of({"tokens": ["Ada"]}) == Sentence(("Ada",))


def test_looking_for_no_label_is_not_looking_for_all():
    assert sentence_to_record(Sentence((), annotated_labels=()))["annotated_labels"] == []
    assert sentence_of({"tokens": [], "annotated_labels": []}).annotated_labels == frozenset()
    assert sentence_of({"tokens": [], "annotated_labels": None}).annotated_labels is None


def test_a_score_is_written_with_six_digits():
    assert entity_to_record(Entity(0, 1, "PER", score=1 / 3))["score"] == 0.333333


@pytest.mark.parametrize(
    "item",
    [
        [2, 5, "PER"],
        {"start": 2, "end": 5, "label": "PER"},
        {"id": 1, "start_offset": 2, "end_offset": 5, "label": "PER"},
        {"start": 2, "end": 5, "label": "PER", "token_start": 0, "token_end": 1},
    ],
)
def test_entities_are_written_in_several_ways(item):
    assert entity_from_record(item, "data.jsonl", 1) == Entity(2, 5, "PER")


def test_rejected_spans_may_be_pairs():
    assert sentence_of({"tokens": ["a", "b"], "non_entities": [[0, 2]]}).non_entities == (Span(0, 2),)


def test_a_span_may_have_two_labels():
    entities = [[0, 1, "LOC"], [0, 1, "ORG"]]
    assert sentence_of({"tokens": ["Turin"], "entities": entities}).entities == (
        Entity(0, 1, "LOC"),
        Entity(0, 1, "ORG"),
    )


def test_an_entity_that_is_annotated_twice_is_counted_and_kept_once():
    report = ReadingReport()
    sentence = sentence_of({"tokens": ["Ada"], "entities": [[0, 1, "PER"], [0, 1, "PER"]]}, report)
    assert sentence.entities == (Entity(0, 1, "PER"),)
    assert report.counts == {"duplicate entities": 1}
    assert report.examples["duplicate entities"] == (
        "data.jsonl:7: Entity(start=0, end=1, label='PER') is annotated twice"
    )


def test_entities_that_overlap_an_earlier_one_are_counted_and_kept():
    report = ReadingReport()
    entities = [[0, 4, "ORG"], [0, 1, "PER"], [2, 3, "LOC"], [4, 5, "LOC"]]
    assert len(sentence_of({"tokens": list("abcde"), "entities": entities}, report).entities) == 4
    assert report.counts == {"overlapping entities": 2}


def test_strict_refuses_duplicates_and_overlaps():
    for entities in ([[0, 1, "A"], [0, 1, "A"]], [[0, 2, "A"], [1, 2, "B"]]):
        with pytest.raises(DataError, match=r"^data\.jsonl:7: "):
            sentence_of({"tokens": ["a", "b"], "entities": entities}, ReadingReport(strict=True))


def test_a_text_that_lacks_the_words_is_left_out_and_counted():
    report = ReadingReport()
    sentence = sentence_of({"tokens": ["``", "Ada"], "text": '"Ada'}, report)
    assert sentence.text is None
    assert report.counts == {"texts left out": 1}


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"tokens": ["Ada", ""]}, '"tokens" must be a list of non-empty strings'),
        ({"tokens": ["Ada", 5]}, '"tokens" must be a list of non-empty strings'),
        ({"tokens": "Ada"}, '"tokens" must be a list of non-empty strings'),
        ({"text": 5}, '"text" must be a string'),
        ({"complete": "false"}, '"complete" must be true or false'),
        ({"entities": {}}, '"entities" must be a list'),
        ({"non_entities": "no"}, '"non_entities" must be a list'),
        ({"annotated_labels": "PER"}, '"annotated_labels" must be a list of strings'),
        ({"annotated_labels": [1]}, '"annotated_labels" must be a list of strings'),
        ({"unknown_tokens": 0}, '"unknown_tokens" must be a list of whole numbers'),
        ({"unknown_tokens": ["a"]}, '"unknown_tokens" must be a list of whole numbers'),
        ({"unknown_tokens": [3]}, "unknown_tokens points outside the sentence"),
        ({"entities": [[0, 3, "PER"]]}, "Entity(start=0, end=3, label='PER') ends after the last of 2 words"),
        (
            {"entities": [[0, 1, "PER"]], "non_entities": [[0, 1]]},
            "Entity(start=0, end=1, label='PER') is annotated and rejected at once",
        ),
    ],
)
def test_a_broken_record_is_refused(fields, what):
    assert error_of({"tokens": ["Ada", "left"]} | fields) == f"data.jsonl:7: {what} — correct the record"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"start": 0, "label": "PER"}, "an entity lacks 'end' — give it start, end and label"),
        ({"start": 0, "end": 1}, "an entity lacks 'label' — give it start, end and label"),
        (
            [1, 1, "PER"],
            "[1, 1, 'PER'] is not an entity (a span needs 0 <= start < end, not [1, 1))"
            " — write [start, end, label] with start < end",
        ),
        (
            ["0", 1, "PER"],
            "['0', 1, 'PER'] is not an entity ('0' is not a whole number) — write [start, end, label] with start < end",
        ),
        (
            [0, True, "PER"],
            "[0, True, 'PER'] is not an entity (True is not a whole number)"
            " — write [start, end, label] with start < end",
        ),
        (
            [0, 1, 2],
            "[0, 1, 2] is not an entity (2 is not a string) — write [start, end, label] with start < end",
        ),
        (
            [0, 1, "O"],
            "[0, 1, 'O'] is not an entity ('O' cannot be the label of an entity)"
            " — write [start, end, label] with start < end",
        ),
    ],
)
def test_a_broken_entity_is_refused(item, message):
    assert error_of({"tokens": ["Ada", "left"], "entities": [item]}) == f"data.jsonl:7: {message}"


@pytest.mark.parametrize("item", [[0, 1], "PER", None, 5, {"start": 0.5, "end": 1, "label": "PER"}])
def test_what_is_no_entity_at_all_is_refused(item):
    assert error_of({"tokens": ["Ada"], "entities": [item]}).startswith("data.jsonl:7: ")


@pytest.mark.parametrize("item", [[1, 1], [0], "ab", {"start": 0}, None])
def test_a_broken_span_is_refused(item):
    message = error_of({"tokens": ["Ada", "left"], "non_entities": [item]})
    assert message.startswith(f"data.jsonl:7: {item!r} is not a span (")
    assert message.endswith(") — write [start, end] with start < end")
