import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.prodigy import write_prodigy
from lacuner.errors import DataError

TOKENS = [{"text": "Bo", "start": 9, "end": 11, "id": 0, "ws": False, "tag": "NNP"}]
RECORD = {
    "text": "Bobo met Bo",
    "tokens": TOKENS,
    "spans": [{"start": 9, "end": 11, "label": "PER", "token_start": 0, "token_end": 0, "id": "s1", "source": "rules"}],
    "meta": {"page": 3},
    "answer": "accept",
    "_task_hash": 4,
}


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with these records."""

    def read_records(*records, format="prodigy"):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        corpus = Corpus.read(path, format)
        read_records.counts = corpus.report.counts
        return list(corpus)

    path = tmp_path / "data.jsonl"
    return read_records


def written(*sentences):
    file, options = io.StringIO(), WriteOptions()
    write_prodigy(sentences, file, options)
    written.losses = dict(options.losses)
    return [json.loads(line) for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("format", ["prodigy", "jsonl"])
def test_a_record_comes_back_with_everything_in_it(read, format):
    (again,) = written(*read(RECORD, format=format))
    del TOKENS[0]["ws"]  # the text says it
    assert again == RECORD
    TOKENS[0]["ws"] = False


def test_what_is_known_about_a_sentence_comes_back(read):
    sentence = Sentence(
        ("😀", "New York", "left"),
        (Entity(1, 2, "LOC", source="human", score=0.25),),
        (Span(2, 3, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"LOC"}),
        unknown_tokens=frozenset({0}),
        text="😀  New York left",
    )
    (record,) = written(sentence)
    assert (record["spans"][0]["start"], record["spans"][0]["token_start"]) == (3, 1)
    (again,) = read(record)
    assert again == sentence
    assert (again.entities[0].source, again.entities[0].score) == ("human", 0.25)


def test_the_best_score_is_shown_with_the_text():
    scored = [
        Sentence(("a", "b"), (Entity(0, 1, "X", score=0.5), Entity(1, 2, "X", score=0.75)), extra={"meta": {"n": 1}})
    ]
    assert written(*scored)[0]["meta"] == {"n": 1, "score": 0.75}
    assert "meta" not in written(Sentence(("a",)))[0]


@pytest.mark.parametrize("format", ["prodigy", "jsonl"])
@pytest.mark.parametrize(
    "fields",
    [
        {"answer": "ignore"},
        {"answer": "reject", "_view_id": "ner_manual"},
        {"answer": "reject", "spans": []},
        {"answer": "reject", "spans": RECORD["spans"] * 2},
    ],
)
def test_what_tells_nothing_about_single_spans_is_left_out_and_counted(read, fields, format):
    assert read(RECORD | fields, format=format) == []
    assert read.counts == {"unaccepted records": 1}


@pytest.mark.parametrize("format", ["prodigy", "jsonl"])
@pytest.mark.parametrize("view", [{}, {"_view_id": "ner"}])
def test_a_single_span_that_was_rejected_is_no_entity(read, view, format):
    (sentence,) = read(RECORD | view | {"answer": "reject"}, format=format)
    assert (sentence.entities, sentence.non_entities) == ((), (Span(0, 1),))
    (rejected,) = sentence.non_entities
    assert rejected.source == "human"
    assert rejected.extra == {"label": "PER", "id": "s1", "suggested_by": "rules"}
    assert not read.counts
    (again,) = read(*written(sentence))
    assert again == sentence
    assert "answer" not in again.extra


def test_a_field_that_prodigy_has_a_use_for_is_left_out_and_said():
    assert written(Sentence(("Ada",), extra={"spans": {}}))[0]["spans"] == []
    assert written.losses == {"the field 'spans', which Prodigy has a use for": 1}


def test_what_has_no_text_is_refused(read):
    with pytest.raises(DataError, match=r'data.jsonl:1: "text" \(a string\) is not there — export with prodigy db-out'):
        read({"tokens": ["Ada"]})
