"""The tools' own libraries read what we write, and we read what they write.

Label Studio's brings some forty packages, OpenCV among them, and may be absent: pip install label-studio-sdk.
"""

import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span

TEXT = "😀 Ada Lovelace left Turin."
CORPUS = Corpus(
    [
        Sentence(
            ("😀", "Ada", "Lovelace", "left", "Turin", "."),
            (Entity(1, 3, "PER", source="dictionary", score=0.5), Entity(4, 5, "LOC", source="model", score=0.75)),
            (Span(3, 4, "reviewer"),),
            complete=True,
            text=TEXT,
            extra={"id": 17, "author": "Bo"},
        ),
        Sentence(("Bo", "sat"), (Entity(0, 1, "PER", source="human"),), text="Bo sat"),
        Sentence(("Nothing",), text="Nothing"),
    ]
)
CONFIG = """<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>
<Text name="text" value="$text"/></View>"""


@pytest.fixture
def written(tmp_path):
    """The path of the corpus in a format."""

    def write(format):
        CORPUS.write(tmp_path / f"{format}.json", format)
        return tmp_path / f"{format}.json"

    return write


def test_label_studio_finds_our_tasks_valid(written):
    library = pytest.importorskip("label_studio_sdk.label_interface", reason="label-studio-sdk is not installed")
    interface = library.LabelInterface(CONFIG)
    tasks = json.loads(written("label_studio").read_text(encoding="utf-8"))
    assert len(tasks) == 3
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        for prediction in task.get("predictions", []):
            assert interface.validate_prediction(prediction, return_errors=True) == []
        assert all(interface.validate_annotation(annotation) for annotation in task.get("annotations", []))
    assert not interface.validate_annotation({"result": [{"from_name": "other"}]})


@pytest.mark.parametrize("made", ["JSON_MIN", "JSON"])
def test_what_label_studio_makes_of_our_tasks_is_read(written, tmp_path, made):
    library = pytest.importorskip("label_studio_sdk.converter", reason="label-studio-sdk is not installed")
    tasks = json.loads(written("label_studio").read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):  # as if somebody had submitted the predictions
        results = [
            result for key in ("annotations", "predictions") for part in task.get(key, []) for result in part["result"]
        ]
        times = {"created_at": "2024-01-01", "updated_at": "2024-01-01", "lead_time": 1.0}
        task |= {"id": number, "predictions": []}
        task["annotations"] = [{"id": number, "result": results, "completed_by": {"id": 1, "email": "a@b.c"}, **times}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    converter = library.Converter(CONFIG, project_dir=str(tmp_path))
    converter.convert(str(tmp_path / "tasks.json"), str(tmp_path / "out"), made, is_dir=False)
    (path,) = (tmp_path / "out").glob("*.json")
    read = Corpus.read(path)
    assert [sentence.entities for sentence in read] == [sentence.entities for sentence in CORPUS]
    assert {entity.source for sentence in read for entity in sentence.entities} == {"human"}
    assert not read.report.counts


def test_argilla_reads_our_records_and_we_read_them_back(written, tmp_path):
    import argilla
    from argilla.records._io import JsonIO

    records = JsonIO._records_from_json(written("argilla"))
    assert all(isinstance(record, argilla.Record) for record in records)
    suggestions = [record.suggestions["entities"] for record in records]
    for record, sentence, suggestion in zip(records, CORPUS, suggestions, strict=True):
        spans = [record.fields["text"][span["start"] : span["end"]] for span in suggestion.value]
        assert spans == sentence.texts_of(sentence.entities)
        assert [span["label"] for span in suggestion.value] == [entity.label for entity in sentence.entities]
    assert suggestions[0].score == [0.5, 0.75]
    assert records[0].id == "17"
    JsonIO.to_json(records, tmp_path / "again.json")
    again = Corpus.read(tmp_path / "again.json")
    assert [sentence.entities for sentence in again] == [sentence.entities for sentence in CORPUS]
    assert [entity.score for entity in again[0].entities] == [0.5, 0.75]
    assert not again.report.counts


def test_answers_that_argilla_holds_are_read(tmp_path):
    import argilla
    from argilla.records._io import JsonIO

    user = "2dce3de0-9ba9-4cbf-b12b-2f5bd65ccb92"
    value = [{"start": 0, "end": 3, "label": "PER"}]
    record = argilla.Record(
        id="r",
        fields={"text": "Ada left"},
        suggestions=[argilla.Suggestion("entities", value, score=[0.5], agent="m")],
        responses=[argilla.Response("entities", value, user_id=user, status="submitted")],
    )
    JsonIO.to_json([record], tmp_path / "data.json")
    (sentence,) = Corpus.read(tmp_path / "data.json")
    assert [(entity.label, entity.source) for entity in sentence.entities] == [("PER", "human")]
    Corpus([sentence]).write(tmp_path / "again.json", "argilla")
    (again,) = JsonIO._records_from_json(tmp_path / "again.json")
    assert [(response.value, str(response.user_id)) for response in again.responses] == [(value, user)]
