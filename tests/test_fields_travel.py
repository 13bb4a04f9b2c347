"""What Lacuner does not know about a record goes through every verb that writes a corpus."""

import json
from pathlib import Path
from typing import Any

import pytest

from lacuner.corpus import Corpus
from lacuner.corpus.formats.records import sentence_to_record

UNKNOWN = {"id": "a1", "meta": {"page": 3}, "label": "positive", "sources": ["x"], "extra": None}
RECORD = {
    "text": "Bobo: Bo met Ada in Oslo",
    "tokens": ["Bo", "met", "Ada", "in", "Oslo"],
    "token_offsets": [[6, 8], [9, 12], [13, 16], [17, 19], [20, 24]],
    "entities": [{"start": 2, "end": 3, "label": "PER", "id": 7, "note": "seen"}],
} | UNKNOWN


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps({"tokens": ["Turin"], "entities": [[0, 1, "LOC"]], "id": 2}))
    return path


def first_record(path: Path) -> dict[str, Any]:
    return sentence_to_record(Corpus.read(path)[0])


@pytest.mark.parametrize("ending", ["jsonl", "conll"])
def test_annotate_adds_entities_and_keeps_the_rest(run, corpus: Path, ending: str) -> None:
    names, out = corpus.parent / "names.tsv", corpus.parent / f"out.{ending}"
    names.write_text("Oslo\tLOC\n")
    assert run("annotate", corpus, "--dictionary", names, "--out", out, "--workers", 1)[0] == 0
    added = {"start": 4, "end": 5, "label": "LOC", "source": "dictionary"}
    assert first_record(out) == RECORD | {"entities": [*RECORD["entities"], added]}


@pytest.mark.parametrize("ending", ["jsonl", "conll"])
def test_mask_hides_entities_and_keeps_the_rest(run, corpus: Path, ending: str) -> None:
    out = corpus.parent / f"out.{ending}"
    assert run("mask", corpus, "--probability", 0, "--out", out)[0] == 0
    assert first_record(out) == RECORD
    hidden = corpus.parent / "hidden.jsonl"
    assert run("mask", corpus, "--probability", 1, "--out", out, "--hidden", hidden)[0] == 0
    assert first_record(out) == RECORD | {"entities": []}
    shown = json.loads(hidden.read_text().splitlines()[0])
    assert shown == {"sentence": 0, "start": 2, "end": 3, "label": "PER", "text": "Ada", "id": 7, "note": "seen"}


@pytest.mark.parametrize("ending", ["jsonl", "conll"])
def test_predict_replaces_the_annotation_and_keeps_the_rest(run, corpus: Path, model_folder: Path, ending: str) -> None:
    out = corpus.parent / f"out.{ending}"
    code, _, log = run("predict", model_folder, corpus, "--out", out)
    assert code == 0, log
    assert {key: first_record(out).get(key) for key in UNKNOWN} == UNKNOWN


def test_audit_and_review_keep_everything_but_what_was_decided(run, corpus: Path, model_folder: Path) -> None:
    folder, out = corpus.parent / "audit", corpus.parent / "reviewed.conll"
    code, _, log = run("audit", corpus, "--recognizer", model_folder, "--out", folder)
    assert code == 0, log
    assert first_record(folder / "corpus.jsonl") == RECORD
    code, _, log = run("review", folder, "--export", out)
    assert code == 0, log
    assert first_record(out) == RECORD


@pytest.mark.parametrize(("format", "key"), [("doccano", None), ("prodigy", "meta")])
def test_exports_of_the_audit_keep_what_a_record_had(
    tmp_path: Path, corpus: Path, format: str, key: str | None
) -> None:
    from lacuner.audit.exports import write_exports
    from lacuner.audit.finding import Finding

    found = [Finding(0, 4, 5, "LOC", 0.9, "missing", "Oslo")]
    paths = {path.stem: path for path in write_exports(tmp_path / "exports", Corpus.read(corpus), found)}
    (sentence,) = Corpus.read(paths[format], format)
    numbered = {"sentence": 0} if key is None else {key: {"page": 3, "sentence": 0, "score": 0.9}}
    kept = {
        name: value for name, value in UNKNOWN.items() if name != "label" or format != "doccano"
    }  # its spans are there
    assert dict(sentence.extra) == kept | numbered
    assert [sentence.text_of(entity.start, entity.end) for entity in sentence.entities] == ["Ada", "Oslo"]
