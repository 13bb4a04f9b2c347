import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import DataError

TEXT = "Ada Lovelace moved to Turin. Turin is cold."
ADA, TURIN, AGAIN = Entity(0, 2, "PER"), Entity(4, 5, "LOC"), Entity(6, 7, "LOC")
JSON = '{"entities": [{"name": "Ada Lovelace", "type": "PER"}, {"name": "Turin", "type": "LOC"}]}'
SHAPES: dict[str, Any] = {
    "name and type": [{"name": "Ada Lovelace", "type": "PER"}, {"name": "Turin", "type": "LOC"}],
    "text and label": [{"text": "Ada Lovelace", "label": "PER"}, {"text": "Turin", "label": "LOC"}],
    "entity and type": [{"entity": "Ada Lovelace", "type": "PER"}, {"entity": "Turin", "type": "LOC"}],
    "word and entity": [{"word": "Ada Lovelace", "entity": "PER"}, {"word": "Turin", "entity": "LOC"}],
    "by type": {"PER": ["Ada Lovelace"], "LOC": ["Turin", "Turin"], "ORG": []},
    "by name": {"Ada Lovelace": "PER", "Turin": "LOC"},
    "pairs": [["Ada Lovelace", "PER"], ["Turin", "LOC"]],
}
ANSWERS = {
    "JSON": JSON,
    "fenced": f"Here is what I found:\n```json\n{JSON}\n```\nAnything else?",
    "fenced on one line": f"```json {JSON}```",
    "fenced without a language": f"```\n{JSON}\n```",
    "lines of spaCy-LLM": "PER: Ada Lovelace\nLOC: Turin\nORG:\nMISC: None\n",
    "fenced lines": "```\nPER: Ada Lovelace\nLOC: Turin\n```",
    "reasons of spaCy-LLM": "1. Ada Lovelace | True | PER | who\n2. cold | False | ==NONE== | no\n3. Turin | True | LOC | city",
}


def read(tmp_path: Path, *records: Any, format: str | None = "answers", strict: bool = False) -> Corpus:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return Corpus.read(path, format, strict=strict)


@pytest.mark.parametrize("format", ["answers", None])
@pytest.mark.parametrize("entities", SHAPES.values(), ids=SHAPES)
def test_names_with_their_types_are_found_in_the_text_and_known_by_their_shape(tmp_path, entities, format) -> None:
    corpus = read(tmp_path, {"text": TEXT, "entities": entities, "id": 7}, format=format, strict=True)
    assert corpus[0].entities == (ADA, TURIN, AGAIN)
    assert (corpus[0].text, dict(corpus[0].extra)) == (TEXT, {"id": 7})


@pytest.mark.parametrize("key", ["answer", "response", "output", "entities"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers_are_read_as_they_came(tmp_path, answer: str, key: str) -> None:
    assert read(tmp_path, {"text": TEXT, key: answer}, strict=True)[0].entities == (ADA, TURIN, AGAIN)


def test_words_that_are_given_stay_so_that_label_sets_can_be_merged(tmp_path) -> None:
    words = ["Ada", "Lovelace-King", "left"]
    (sentence,) = read(tmp_path, {"tokens": words, "entities": {"PER": ["Ada Lovelace-King"]}}, strict=True)
    assert sentence == Sentence(tuple(words), (Entity(0, 2, "PER"),))
    (sentence,) = read(tmp_path, {"text": "Adaleft", "tokens": ["Ada", "left"], "entities": [["Adaleft", "X"]]})
    assert (sentence.tokens, sentence.entities) == (("Ada", "left"), (Entity(0, 2, "X"),))


def test_an_answer_that_names_nobody_says_that_there_is_nobody(tmp_path) -> None:
    records = [{"text": TEXT, "answer": answer} for answer in ("", "[]", "{}", '{"entities": []}', "PER: none", [], {})]
    assert all(not sentence.entities for sentence in read(tmp_path, *records, strict=True))


def test_what_is_not_in_the_text_is_counted_and_shown(tmp_path, caplog) -> None:
    corpus = read(tmp_path, {"text": TEXT, "entities": {"LOC": ["Oslo", "Turin"], "PER": ["Lovelace", "Ada Lovelace"]}})
    assert corpus.report.counts == {"names that are not in their text": 1, "names inside of longer ones": 1}
    assert "answers.jsonl:1: 'Oslo' (LOC) is not in the text; it is left out" in caplog.text
    with pytest.raises(DataError, match="'Oslo'"):
        read(tmp_path, {"text": TEXT, "entities": {"LOC": ["Oslo"]}}, strict=True)


def test_scores_and_other_fields_travel_and_right_offsets_are_believed(tmp_path) -> None:
    second = {"text": "Turin", "label": "LOC", "start": 29, "end": 34, "score": 0.5, "why": "a city"}
    (entity,) = read(tmp_path, {"text": TEXT, "entities": [second]})[0].entities
    assert (entity, entity.score, dict(entity.extra)) == (AGAIN, 0.5, {"why": "a city"})
    for wrong in ({"start": 3, "end": 9}, {"start": -5, "end": -1}, {"start": "0", "end": None}):
        assert read(tmp_path, {"text": TEXT, "entities": [second | wrong]})[0].entities == (TURIN, AGAIN)


def test_predictions_of_gliner_over_a_text_need_no_search(tmp_path) -> None:
    found = {"start": 22, "end": 27, "text": "Turin", "label": "LOC", "score": 0.75}
    (entity,) = read(tmp_path, {"text": TEXT, "entities": [found]}, format=None, strict=True)[0].entities
    assert (entity, entity.score) == (TURIN, 0.75)


def test_a_comma_too_many_is_repaired_and_said(tmp_path) -> None:
    corpus = read(tmp_path, {"text": "a, ] b", "answer": '{"X": ["a, ]", "b",],}'})
    assert [entity.label for entity in corpus[0].entities] == ["X", "X"]
    assert corpus.report.counts == {"repaired answers": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"answer": "I found Ada Lovelace."}, "neither JSON nor a list of names: 'I found Ada"),
        ({"answer": "Sure! [1]"}, "neither JSON nor a list of names"),
        ({"answer": "[{'name': 'Ada'}]"}, "the answer is not JSON: .* at its character 2"),
        ({"answer": '{"PER": ["Ada"], "PER": []}'}, "the key 'PER' is there twice"),
        ({"answer": "```\n[]\n```\n```\n[]\n```"}, "2 blocks of code"),
        ({"answer": '{"entities": ["Ada"]}'}, "'Ada' is no name with its type"),
        ({"answer": 7}, "no list of names: 7"),
        ({"answer": {"PER": 7}}, "7 is no list of names"),
        ({"answer": {"Oslo": "LOC"}}, "neither is in the text"),
        ({"answer": {"Ada": "Turin"}}, "both are in the text"),
        ({"answer": [["Ada", "O"]]}, "'Ada' has the type 'O'"),
        ({"answer": [["Ada", "PER", "x"]]}, "is no name with its type"),
        ({"answer": [], "output": []}, "there are answers under answer and output"),
        ({}, "there is no answer"),
        ({"text": None, "answer": []}, 'neither "text"'),
        ({"tokens": ["Bo"], "answer": []}, '"tokens" are not the words of "text"'),
    ],
)
def test_anything_else_is_refused_with_one_sentence_that_says_where(tmp_path, record, message) -> None:
    with pytest.raises(DataError, match=rf"answers\.jsonl:2: .*{message}"):
        read(tmp_path, {"text": TEXT, "answer": []}, {"text": TEXT} | record)


@pytest.mark.parametrize("answer", [JSON, f"```json\n{JSON}\n```", [["Ada", "PER"]]])
def test_an_answer_in_plain_json_lines_is_not_overlooked(tmp_path, answer) -> None:
    corpus = read(tmp_path, {"text": TEXT, "response": answer}, format=None)
    assert corpus.report.counts["annotation that is not read"] == 1


NAMES = ["Ada", "Bo-Ek", "New York", "O'Neill", "東京", "Zoë", "C++"]


@st.composite
def sentences(draw):
    """Different names among small words, each with a label."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    tokens: list[str] = []
    entities = []
    for name in names:
        tokens += draw(st.lists(st.sampled_from(["and", "left", ",", "(", "."]), max_size=2))
        words = name.split()
        entities.append(Entity(len(tokens), len(tokens) + len(words), draw(st.sampled_from(["PER", "LOC", "geo-loc"]))))
        tokens += words
    return Sentence(tuple(tokens), tuple(entities))


def rendered(sentence: Sentence, shape: str) -> Any:
    """What a model would answer that has found these entities."""
    pairs = [(sentence.text_of(entity.start, entity.end), entity.label) for entity in sentence.entities]
    labels = sorted({label for _, label in pairs})
    by_label = {label: [name for name, other in pairs if other == label] for label in labels}
    shapes = {
        "objects": [{"name": name, "type": label} for name, label in pairs],
        "pairs": [list(pair) for pair in pairs],
        "by type": by_label,
        "fenced": f"Sure:\n```json\n{json.dumps(by_label, indent=1)}\n```",
        "lines": "\n".join(f"{label}: {', '.join(names)}" for label, names in by_label.items()),
        "reasons": "\n".join(f"{n}. {name} | True | {label} | x" for n, (name, label) in enumerate(pairs, 1)),
    }
    return shapes[shape]


@given(
    st.lists(sentences(), min_size=1, max_size=3),
    st.sampled_from(["objects", "pairs", "by type", "fenced", "lines", "reasons"]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_entities_that_are_rendered_as_answers_are_read_back(tmp_path, corpus, shape) -> None:
    records = [{"tokens": list(sentence.tokens), "answer": rendered(sentence, shape)} for sentence in corpus]
    assert list(read(tmp_path, *records, strict=True)) == corpus


@given(st.text(max_size=40), st.sampled_from(["answer", "entities"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_is_read_or_refused(tmp_path, answer, key) -> None:
    try:
        read(tmp_path, {"text": TEXT, key: answer})
    except DataError as error:
        message = str(error)
    else:
        return
    assert "answers.jsonl:1: " in message
