"""A drawer of exports, each as its tool writes it: whoever gives one to Lacuner gets its entities, or a sentence to act on."""

import json

import pytest

from lacuner.corpus import Corpus
from lacuner.errors import DataError

EMOJI = "😀 Ada met Bo in New York."
"""Ada is at 2 in characters, and at 3 in UTF-16 code units."""
FOUND = [("Ada", "PER"), ("Bo", "PER"), ("New York", "LOC")]
SPANS = [(2, 5, "PER"), (10, 12, "PER"), (16, 24, "LOC")]
UNITS = [(start + 1, end + 1, label) for start, end, label in SPANS]
WORDS = ["😀", "Ada", "met", "Bo", "in", "New", "York", "."]


def label_studio(spans=SPANS, **fields):
    results = [
        {
            "value": {"start": start, "end": end, "text": name, "labels": [label]},
            "id": f"r{start}",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "origin": "manual",
        }
        for (start, end, label), (name, _) in zip(spans, FOUND, strict=True)
    ]
    annotation = {"id": 1, "completed_by": 1, "result": results, "was_cancelled": False, "ground_truth": False}
    annotation |= {"created_at": "2024-05-01T10:00:00Z", "lead_time": 3.5, "last_action": None, "unique_id": "u-1"}
    task = {"id": 5, "annotations": [annotation], "drafts": [], "predictions": [], "data": {"text": EMOJI}, "meta": {}}
    return task | {"inner_id": 1, "total_annotations": 1, "project": 2, "comment_authors": []} | fields


def flat():
    regions = [
        {"start": start, "end": end, "text": name, "labels": [label]}
        for (start, end, label), (name, _) in zip(SPANS, FOUND, strict=True)
    ]
    times = {"created_at": "2024-05-01T10:00:00Z", "updated_at": "2024-05-01T10:00:00Z", "lead_time": 3.5}
    return {"text": EMOJI, "id": 5, "label": regions, "annotator": 1, "annotation_id": 1} | times


def objects(spans=SPANS, start="start", end="end", label="label"):
    return [{start: span[0], end: span[1], label: span[2]} for span in spans]


def argilla(spans=SPANS):
    suggestions = {"entities": {"value": [], "score": None, "agent": None}}
    responses = {"entities": [{"value": objects(spans), "user_id": "2dce3de0-9ba9-4cbf-b12b-2f5bd65ccb92"}]}
    record = {"id": "1", "fields": {"text": EMOJI}, "metadata": {}, "suggestions": suggestions, "responses": responses}
    return record | {"vectors": {}, "status": "completed", "_server_id": "5f3c"}


def prodigy():
    starts = [0, 2, 6, 10, 13, 16, 20, 24]
    tokens = [
        {"text": word, "start": start, "end": start + len(word), "id": index, "ws": index < 6}
        for index, (word, start) in enumerate(zip(WORDS, starts, strict=True))
    ]
    hashes = {"_input_hash": 1, "_task_hash": 2, "_is_binary": False, "_view_id": "ner_manual", "_timestamp": 3}
    return {"text": EMOJI, "tokens": tokens, "spans": objects(), "answer": "accept"} | hashes


def doccano():
    return {"id": 1, "text": EMOJI, "label": [list(span) for span in UNITS], "Comments": []}


def related():
    entities = [
        {"id": index, "label": label, "start_offset": start, "end_offset": end}
        for index, (start, end, label) in enumerate(UNITS)
    ]
    relations = [{"id": 1, "from_id": 0, "to_id": 1, "type": "met"}]
    return {"id": 1, "text": EMOJI, "entities": entities, "relations": relations, "Comments": ["sure?"]}


def pipeline():
    spans = [
        {"entity_group": label, "score": 0.99, "word": name, "start": start, "end": end}
        for (start, end, label), (name, _) in zip(SPANS, FOUND, strict=True)
    ]
    return {"text": EMOJI, "entities": spans}


GLINER = {"tokenized_text": WORDS, "ner": [[1, 1, "PER"], [3, 3, "PER"], [5, 6, "LOC"]]}
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\r\n" for record in (doccano(), doccano()))

READ = {
    "Label Studio JSON": ("project-2-at-2024.json", json.dumps([label_studio()])),
    "Label Studio JSON, indented, CRLF and BOM": (
        "export.json",
        "\ufeff" + json.dumps([label_studio()], indent=2, ensure_ascii=False).replace("\n", "\r\n"),
    ),
    "Label Studio of 2020": (
        "old.json",
        json.dumps([{"completions": label_studio(UNITS)["annotations"], "data": {"text": EMOJI}, "id": 0}]),
    ),
    "Label Studio tasks, one a line": ("tasks.jsonl", json.dumps(label_studio()) + "\n"),
    "Label Studio JSON-MIN": ("min.json", json.dumps([flat()], indent=2)),
    "doccano": ("admin.jsonl", json.dumps(doccano(), ensure_ascii=False) + "\n"),
    "doccano with CRLF and BOM": ("all.jsonl", "\ufeff" + LINES),
    "doccano with relations": ("relations.jsonl", json.dumps(related()) + "\n"),
    "Prodigy": ("ner.jsonl", json.dumps(prodigy()) + "\n"),
    "Argilla from Python": ("records.json", json.dumps([argilla()])),
    "Argilla from its page": ("page.json", json.dumps([argilla(UNITS)])),
    "GLiNER": ("train.json", json.dumps([GLINER])),
    "GLiNER, one a line": ("train.jsonl", json.dumps(GLINER) + "\n" + json.dumps(GLINER) + "\n"),
    "a pipeline of transformers": ("predicted.jsonl", json.dumps(pipeline()) + "\n"),
    "an array of records": ("records2.json", json.dumps([{"text": EMOJI, "entities": SPANS}], indent=1)),
    "spans with types": ("types.jsonl", json.dumps({"text": EMOJI, "entities": objects(label="type")}) + "\n"),
}


@pytest.mark.parametrize(("name", "content"), READ.values(), ids=READ)
def test_an_export_is_read_as_it_was_meant(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    corpus = Corpus.read(path)
    assert len(corpus) >= 1
    for sentence in corpus:
        texts = [text.replace("\n", " ") for text in sentence.texts_of(sentence.entities)]
        assert list(zip(texts, [entity.label for entity in sentence.entities], strict=True)) == FOUND
    assert not corpus.report.counts


CUT = [(2, 4, "PER"), (10, 12, "PER"), (16, 24, "LOC")]
NESTED = {"text": EMOJI, "entities": [*SPANS, (16, 19, "ADJ")]}
COUNTED = {
    "offsets that cut a word": ({"text": EMOJI, "entities": CUT}, 3, "entities moved to word borders"),
    "overlaps": (NESTED, 4, "overlapping entities"),
    "a cancelled annotation": (
        label_studio(annotations=[label_studio()["annotations"][0] | {"was_cancelled": True}]),
        0,
        "cancelled annotations",
    ),
    "predictions beside annotations": (
        label_studio(predictions=[{"model_version": "m", "result": label_studio()["annotations"][0]["result"]}]),
        3,
        "predictions beside annotations",
    ),
    "an answer that was ignored": (prodigy() | {"answer": "ignore"}, 0, "unaccepted records"),
    "spans under a key of somebody's": ({"text": EMOJI, "annotation": objects()}, 0, "annotation that is not read"),
    "mentions under a key of somebody's": (
        {"text": EMOJI, "annotation": {"PER": ["Ada"]}},
        0,
        "files without entities",
    ),
}


@pytest.mark.parametrize(("record", "count", "kind"), COUNTED.values(), ids=COUNTED)
def test_what_is_not_read_as_it_stands_is_counted(tmp_path, record, count, kind):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    corpus = Corpus.read(path)
    assert sum(len(sentence.entities) for sentence in corpus) == count
    assert corpus.report.counts[kind] == 1


@pytest.mark.parametrize("lines", [False, True])
def test_training_tuples_of_spacy_are_read_in_an_array_and_one_a_line(tmp_path, lines):
    tuples = [["Ada left", {"entities": [[0, 3, "PER"]]}], ["New York", {"entities": [[0, 8, "LOC"]]}]]
    content = "\n".join(map(json.dumps, tuples)) if lines else json.dumps(tuples, indent=1)
    (tmp_path / "data.json").write_text(content)
    corpus = Corpus.read(tmp_path / "data.json")
    assert [[(e.start, e.end, e.label) for e in s.entities] for s in corpus] == [[(0, 1, "PER")], [(0, 2, "LOC")]]


def test_an_empty_file_is_said(tmp_path):
    for content in ("", "\n\n", "[]"):
        (tmp_path / "data.json").write_text(content)
        assert Corpus.read(tmp_path / "data.json").report.counts == {"empty files": 1}


PIECES = [{"entity": "B-PER", "score": 0.9, "index": 1, "word": "Ad", "start": 2, "end": 4}]
REFUSED = {
    "a pipeline without aggregation": (
        json.dumps({"text": EMOJI, "entities": PIECES}),
        'call the pipeline with aggregation_strategy="simple"',
    ),
    "a pipeline's answer without its text": (
        json.dumps([{"entity_group": "PER", "word": "Ada", "start": 2, "end": 5}]),
        'neither "tokens" (a list of words) nor "text" (a string) is there; keys that are not read: entity_group, word',
    ),
    "numbers of doccano's": (
        json.dumps({"id": 1, "text": "Ada", "annotations": [{"label": 4, "start_offset": 0, "end_offset": 3}]}),
        "export as JSONL with text labels",
    ),
    "GLiNER 2": (
        json.dumps({"input": "Ada left", "output": {"entities": {"person": ["Ada"]}}}),
        "keys that are not read: input, output",
    ),
    "texts at addresses": (
        json.dumps([label_studio(data={"text": "s3://bucket/a.txt"})]),
        "import texts, not their addresses",
    ),
    "pictures": (
        json.dumps([{"id": 1, "data": {"image": 5}, "annotations": []}]),
        "export a project that annotates text",
    ),
    "two texts": (json.dumps([{"id": 1, "data": {"a": "x y", "b": "z"}}]), 'call it "text"'),
    "an export that was cut off": (json.dumps([label_studio()])[:-40], "correct the file, or export it again"),
    "UTF-16": (json.dumps([label_studio()]).encode("utf-16"), "iconv -f utf-16 -t utf-8"),
    "an array of arrays": (json.dumps([["Ada", "left"]]), "the array holds something that is not an object"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path, content, message):
    path = tmp_path / "data.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as raised:
        Corpus.read(path)
    assert message in str(raised.value)
