import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.label_studio import read_label_studio, write_label_studio
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

TEXT = "Ada left Turin"


def region(start, end, label, text=TEXT, **fields):
    value = {"start": start, "end": end, "text": text[start:end], "labels": [label]}
    return {"value": value, "id": f"r{start}", "from_name": "label", "to_name": "text", "type": "labels"} | fields


def annotation(*results, **fields):
    return {"id": 9, "completed_by": 1, "was_cancelled": False, "ground_truth": False, "result": [*results]} | fields


def task(*annotations, **fields):
    return {"id": 7, "data": {"text": TEXT}, "annotations": [*annotations], "predictions": [], "project": 3} | fields


ADA, TURIN = region(0, 3, "PER"), region(9, 14, "LOC")
PREDICTED = {"model_version": "m1", "score": 0.5, "result": [ADA | {"score": 0.75}, TURIN]}


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with this content."""

    def read_content(content, format="label_studio", strict=False):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        corpus = Corpus.read(path, format, strict=strict)
        read_content.report = corpus.report
        return list(corpus)

    path = read_content.path = tmp_path / "data.json"
    return read_content


def tasks_of(*sentences, **options):
    file, chosen = io.StringIO(), WriteOptions(**options)
    write_label_studio(sentences, file, chosen)
    tasks_of.losses = dict(chosen.losses)
    return json.loads(file.getvalue())


def test_a_sentence_is_a_task_with_pre_annotations_that_count_characters():
    sentence = Sentence(("😀", "Turin"), (Entity(1, 2, "LOC", score=0.12345),), text="😀  Turin", extra={"id": 4})
    value = {"start": 3, "end": 8, "text": "Turin", "labels": ["LOC"]}
    result = {"from_name": "label", "to_name": "text", "type": "labels", "value": value, "score": 0.12345}
    assert tasks_of(sentence, agent="lacuner audit") == [
        {
            "data": {"text": "😀  Turin", "id": 4},
            "predictions": [{"model_version": "lacuner audit", "score": 0.1235, "result": [result]}],
        }
    ]


def test_without_scores_none_is_written():
    (written,) = tasks_of(Sentence(("Ada",), (Entity(0, 1, "PER"),)))
    assert written["predictions"][0].keys() == {"model_version", "result"}
    assert "score" not in written["predictions"][0]["result"][0]


def test_scores_of_sentences_may_be_given():
    tasks = tasks_of(Sentence(("Ada",)), Sentence(("Bo",)), scores=[0.5, 0.25])
    assert [written["predictions"][0]["score"] for written in tasks] == [0.5, 0.25]


def test_nothing_is_an_empty_array():
    assert tasks_of() == []


def test_what_people_have_annotated_is_an_annotation_unless_it_is_to_be_suggested():
    sentence = Sentence(("Ada",), (Entity(0, 1, "PER", source="human"),))
    (written,) = tasks_of(sentence)
    assert "predictions" not in written
    assert [result["value"]["labels"] for result in written["annotations"][0]["result"]] == [["PER"]]
    (written,) = tasks_of(sentence, suggestions=True)
    assert "annotations" not in written


@pytest.mark.parametrize("format", ["label_studio", None])
@pytest.mark.parametrize("shape", ["array", "indented", "lines"])
def test_annotations_are_entities_of_people(read, format, shape):
    export = task(annotation(ADA, TURIN))
    shapes = {"array": [export], "indented": json.dumps([export], indent=2), "lines": f"{json.dumps(export)}\n"}
    (sentence,) = read(shapes[shape], format)
    assert sentence.entities == (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))
    assert [entity.source for entity in sentence.entities] == ["human", "human"]
    assert sentence.entities[0].extra == {"id": "r0"}
    assert sentence.extra["id"] == 7
    assert not read.report.counts
    (again,) = tasks_of(sentence)
    assert again["annotations"] == export["annotations"]
    assert (again["id"], again["data"], again["project"]) == (7, {"text": TEXT}, 3)


def test_predictions_are_entities_of_a_model_with_scores(read):
    (sentence,) = read([task(predictions=[PREDICTED])])
    assert [(entity.source, entity.score) for entity in sentence.entities] == [("model", 0.75), ("model", None)]
    (again,) = tasks_of(sentence)
    assert again["predictions"] == [PREDICTED]
    (suggested,) = tasks_of(sentence, suggestions=True, agent="lacuner audit", scores=[0.25])
    assert {key: suggested["predictions"][0][key] for key in ("model_version", "score")} == {
        "model_version": "lacuner audit",
        "score": 0.25,
    }


@pytest.mark.parametrize(
    ("export", "found", "counts"),
    [
        (task(annotation(ADA, was_cancelled=True)), [], {"cancelled annotations": 1}),
        (
            task(annotation(ADA, was_cancelled=True), predictions=[PREDICTED]),
            ["PER", "LOC"],
            {"cancelled annotations": 1},
        ),
        (task(annotation(ADA), annotation(TURIN, completed_by=2)), ["PER"], {"further annotations": 1}),
        (task(annotation(ADA), annotation(TURIN, ground_truth=True)), ["LOC"], {"further annotations": 1}),
        (task(annotation(ADA), predictions=[PREDICTED]), ["PER"], {"predictions beside annotations": 1}),
        (task(predictions=[PREDICTED, PREDICTED]), ["PER", "LOC"], {"further predictions": 1}),
        (task(annotation(ADA), drafts=[annotation(TURIN)]), ["PER"], {"drafts": 1}),
        (task(annotation(ADA), predictions=[4]), ["PER"], {"predictions that are not in the file": 1}),
        ({"data": {"text": TEXT}, "completions": [annotation(ADA)]}, ["PER"], {}),
        ({"data": {"text": TEXT}}, [], {}),
    ],
)
def test_one_annotation_is_read_and_the_others_are_counted(read, export, found, counts):
    (sentence,) = read([export], None)
    assert [entity.label for entity in sentence.entities] == found
    assert read.report.counts == counts
    if counts:
        with pytest.raises(DataError, match=r"data.json:1: "):
            read([export], strict=True)


@pytest.mark.parametrize(("annotator", "label"), [(1, "PER"), (2, "LOC"), ("bo@x.org", "ORG")])
def test_the_annotator_may_be_chosen(read, annotator, label):
    third = annotation(region(0, 3, "ORG"), completed_by={"id": 3, "email": "bo@x.org"})
    read([task(annotation(ADA), annotation(TURIN, completed_by=2), third)])
    (sentence,) = read_label_studio(read.path, ReadingReport(), annotator=annotator)
    assert [entity.label for entity in sentence.entities] == [label]


def test_a_region_with_several_labels_may_have_any_of_them(read):
    both = region(0, 3, "PER")
    both["value"]["labels"] = ["ORG", "PER"]
    (sentence,) = read([task(annotation(both))])
    assert sentence.entities == (Entity(0, 1, "ORG"), Entity(0, 1, "PER"))
    assert read.report.counts["regions with several labels"] == 1
    (again,) = tasks_of(sentence)
    assert again["annotations"][0]["result"] == [both]


def test_a_region_without_a_label_is_counted(read):
    empty = region(0, 3, "PER")
    empty["value"]["labels"] = []
    (sentence,) = read([task(annotation(empty, TURIN))])
    assert len(sentence.entities) == 1
    assert read.report.counts == {"regions without a label": 1}


def test_results_of_other_types_are_named_and_handed_on(read):
    choice = {"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": ["good"]}}
    relation = {"type": "relation", "from_id": "r0", "to_id": "r9", "direction": "right"}
    export = task(annotation(ADA, TURIN, choice, relation))
    (sentence,) = read([export], strict=True)
    assert read.report.unread["results of type choices"] == 1
    assert read.report.unread["results of type relation"] == 1
    (again,) = tasks_of(sentence)
    assert again["annotations"] == export["annotations"]


def test_spans_of_other_types_are_counted(read):
    other = region(0, 3, "PER") | {"type": "hypertextlabels"}
    assert read([task(annotation(other))])[0].entities == ()
    assert read.report.counts == {"annotation that is not read": 1}


MIN = {
    "text": TEXT,
    "id": 7,
    "label": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}],
    "mood": "good",
    "annotator": 1,
    "annotation_id": 9,
    "created_at": "2024-01-01T00:00:00Z",
    "updated_at": "2024-01-01T00:00:00Z",
    "lead_time": 4.2,
}
UNLABELED = {key: value for key, value in MIN.items() if key != "label"} | {"id": 8}


@pytest.mark.parametrize("format", ["label_studio", None])
def test_the_flat_form_is_read(read, format):
    first, second = read([MIN, UNLABELED], format)
    assert first.entities == (Entity(0, 1, "PER"),)
    assert first.entities[0].source == "human"
    assert (first.extra["id"], first.extra["mood"]) == (7, "good")
    assert first.extra["label_studio"]["annotation"]["completed_by"] == 1
    assert second.entities == ()
    assert not read.report.counts
    (written, _) = tasks_of(first, second)
    assert written["annotations"][0]["id"] == 9
    assert written["data"] == {"text": TEXT, "mood": "good"}


def test_the_flat_form_may_have_other_names(read):
    record = {("ner" if key == "label" else "article" if key == "text" else key): value for key, value in MIN.items()}
    (sentence,) = read([record | {"title": "News"}], None)
    assert sentence.text == TEXT
    assert sentence.entities[0].extra == {"from_name": "ner"}
    (again,) = tasks_of(sentence)
    assert again["data"] == {"article": TEXT, "title": "News", "mood": "good"}
    assert again["annotations"][0]["result"][0]["from_name"] == "ner"


def test_another_annotation_of_a_task_in_the_flat_form_is_counted(read):
    assert len(read([MIN, MIN | {"annotator": 2}, MIN | {"id": 8}])) == 2
    assert read.report.counts == {"further annotations": 1}


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({"article": TEXT}, {}),
        ({"article": TEXT, "title": "News", "id": 3}, {}),
        ({"article": TEXT, "copy": TEXT}, {"to_name": "copy"}),
        ({"article": TEXT, "copy": TEXT}, {"source": "$article"}),
        ({"text": "Other", "body": TEXT}, {}),
        ({"text": TEXT, "copy": TEXT}, {}),
    ],
)
def test_the_text_is_found_by_what_was_annotated_in_it(read, data, fields):
    empty = task(annotation(), data=data, id=8)
    first, second = read([task(annotation(ADA | fields, TURIN | fields), data=data), empty])
    assert first.text == second.text == TEXT
    assert tasks_of(first)[0]["data"] == data


def test_offsets_of_old_versions_count_code_units(read):
    text = "😀 Ada 😀 Turin"
    results = [region(3, 6, "PER"), region(10, 15, "LOC")]
    for result, name in zip(results, ["Ada", "Turin"], strict=True):
        result["value"]["text"] = name
    (sentence,) = read([task(annotation(*results), data={"text": text})])
    assert [sentence.text_of(entity.start, entity.end) for entity in sentence.entities] == ["Ada", "Turin"]
    assert any("UTF-16" in remark for remark in read.report.remarks)
    (again,) = tasks_of(sentence)
    assert [result["value"]["start"] for result in again["annotations"][0]["result"]] == [2, 8]


def test_a_region_whose_text_is_another_is_counted(read):
    wrong = region(0, 3, "PER")
    wrong["value"]["text"] = "Bob"
    read([task(annotation(wrong))])
    assert read.report.counts == {"regions with another text": 1}
    line_end = region(0, 14, "X") | {"value": {"start": 0, "end": 14, "text": "Ada\\nleft Turin", "labels": ["X"]}}
    read([task(annotation(line_end), data={"text": "Ada\nleft Turin"})], strict=True)


def test_what_tasks_have_no_place_for_comes_back(read):
    sentence = Sentence(
        ("😀", "New York", "left"),
        (Entity(1, 2, "LOC", source="dictionary", score=0.25, extra={"id": 7, "meta": {}}), Entity(2, 3, "X")),
        (Span(0, 1, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"LOC"}),
        unknown_tokens=frozenset({0}),
        text="😀  New York left",
        extra={"id": 5, "lacuner": 1, "label_studio": {}, "author": "Bo"},
    )
    (again,) = read(tasks_of(sentence))
    assert sentence_to_record(again) == sentence_to_record(sentence)
    assert not tasks_of.losses


def test_what_was_rejected_and_annotated_since_is_an_entity(read):
    (written,) = tasks_of(Sentence(("Ada", "left"), non_entities=(Span(0, 1),)))
    written["annotations"] = [annotation(region(0, 3, "PER", "Ada left"))]
    (sentence,) = read([written])
    assert (sentence.entities, sentence.non_entities) == ((Entity(0, 1, "PER"),), ())
    assert read.report.counts == {"rejected spans that are annotated": 1}


@pytest.mark.parametrize(
    ("export", "message"),
    [
        (
            task(annotation(), data={"a": "x", "b": "y"}),
            "the task has several texts (a, b), and nothing tells which of them was annotated — call it \"text\"",
        ),
        (task(data={"image": 3}), "the task has no text; it has image — export a project that annotates text"),
        (
            task(annotation(ADA), data={"text": "https://x.org/a.txt"}),
            '"text" is the address of a text, which is not in the file — import texts, not their addresses',
        ),
        (task(annotation(region(0, 99, "PER"))), "Entity(start=0, end=99, label='PER', source='human') ends after the"),
        (task(annotation(ADA | {"value": {"labels": ["PER"]}})), "an entity lacks 'start' — give it start, end and label"),
        (task(annotation(3)), '"result" must be a list of objects — export the project again'),
        (task(annotations=3), '"annotations" must be a list — export the project again'),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(read, export, message):
    with pytest.raises(DataError) as raised:
        read([export])
    assert f"data.json:1: {message}" in str(raised.value)
