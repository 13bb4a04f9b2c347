import json
import re
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


UNUSABLE = [
    ("I found Ada Lovelace.", "neither JSON nor a list of names: 'I found Ada"),
    ("There are no entities in the text.", "neither JSON nor a list of names: 'There are no"),
    ("Sure! [1]", "neither JSON nor a list of names"),
    ("[{'name': 'Ada'}]", "the answer is not JSON: .* at its character 2"),
    ('{"PER": ["Ada Lovelace"], "LOC": ["Tur', "the answer is not JSON"),
    ('{"PER": ["Ada"], "PER": []}', "the key 'PER' occurs twice"),
    ('[["Ada", "PER"]] or rather [["Turin", "PER"]]', "the answer has 2 lists of names"),
    ("```\n[]\n```\n```\n[]\n```", "2 blocks of code"),
    ('{"entities": ["Ada"]}', "'Ada' is not a name with its type"),
    (7, "not a list of names: 7"),
    ({"PER": 7}, "7 is not a list of names"),
    ({"Oslo": "LOC"}, "neither is in the text"),
    ({"Ada": "Turin"}, "both are in the text"),
    ([["Ada", "O"]], "'Ada' has the type 'O'"),
    ([["Ada", "PER", "x"]], "is not a name with its type"),
]


@pytest.mark.parametrize(("answer", "message"), UNUSABLE, ids=[str(answer)[:30] for answer, _ in UNUSABLE])
def test_one_answer_that_cannot_be_used_does_not_cost_the_others(tmp_path, answer, message, caplog) -> None:
    """Its text stays unknown, which is not the same as a text without entities."""
    records = [{"text": TEXT, "answer": JSON}, {"text": TEXT, "answer": answer, "id": 2}]
    first, second = read(tmp_path, *records)
    assert (first.entities, second.entities, second.complete) == ((ADA, TURIN, AGAIN), (), False)
    assert dict(second.extra) == {"answer": answer, "id": 2}
    assert re.search(rf"answers that cannot be used: 1; the first: \S*answers\.jsonl:2: .*{message}", caplog.text)
    with pytest.raises(DataError, match=rf"answers\.jsonl:2: .*{message}"):
        read(tmp_path, *records, strict=True)


@pytest.mark.parametrize(
    "answer",
    [
        f"Here is the JSON:\n{JSON}",
        f"Sure [1]! Answer: {JSON}",
        f"{JSON}\n\nLet me know if you need anything else {{smile}}.",
        '[["Ada Lovelace", "PER"], ["Turin", "LOC"],] as you asked.',
    ],
)
def test_what_a_model_says_around_its_json_does_not_matter(tmp_path, answer: str) -> None:
    (sentence,) = read(tmp_path, {"text": TEXT, "answer": answer})
    assert sentence.entities == (ADA, TURIN, AGAIN)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"answer": [], "output": []}, "there are answers under answer and output"),
        ({}, "there is no answer — give one, under one of entities, answer, response, output"),
        ({"completion": "{}"}, r"there is no answer \(other keys: completion\) — give one"),
        ({"text": None, "answer": []}, 'neither "text"'),
        ({"tokens": ["Bo"], "answer": []}, '"tokens" are not the words of "text"'),
    ],
)
def test_a_record_that_is_none_of_an_answer_is_refused_with_one_sentence_that_says_where(
    tmp_path, record, message
) -> None:
    with pytest.raises(DataError, match=rf"answers\.jsonl:2: .*{message}"):
        read(tmp_path, {"text": TEXT, "answer": []}, {"text": TEXT} | record)


@pytest.mark.parametrize(
    "answer",
    [
        JSON,
        f"```json\n{JSON}\n```",
        [["Ada", "PER"]],
        "PER: Ada, Bo\nLOC: none",
        f"Sure! {JSON}",
        ANSWERS["reasons of spaCy-LLM"],
    ],
)
def test_an_answer_in_plain_json_lines_is_not_overlooked(tmp_path, answer, caplog) -> None:
    record = {"text": TEXT, "response": answer}
    corpus = read(tmp_path, record, format=None)
    assert corpus.report.counts["annotation that is not read"] == 1
    assert "but is not read — read it with --format answers" in caplog.text
    with pytest.raises(DataError, match="read it with --format answers"):
        read(tmp_path, record, format=None, strict=True)


@pytest.mark.parametrize("answer", ["accept", "Note: this is about something else.", "yes", "42"])
def test_answers_to_other_questions_are_no_list_of_names(tmp_path, answer) -> None:
    assert not read(tmp_path, {"text": TEXT, "answer": answer}, format=None).report.counts[
        "annotation that is not read"
    ]


def test_every_answer_that_is_not_read_is_counted_under_the_name_of_the_option(tmp_path, run) -> None:
    path = tmp_path / "answers.jsonl"
    records = [{"text": TEXT, "answer": answer} for answer in (JSON, "PER: Ada Lovelace, Bo")]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    code, _, said = run("convert", path, tmp_path / "out.conll")
    assert code == 0
    assert "annotation that is not read: 2; " in said
    assert "read it with --from answers" in said


def test_a_file_with_several_kinds_of_records_is_not_said_to_have_one(tmp_path, run) -> None:
    path = tmp_path / "mixed.jsonl"
    records = [{"text": TEXT, "entities": {"PER": ["Ada Lovelace"]}}, {"text": TEXT, "answer": JSON}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    code, _, said = run("convert", path, tmp_path / "out.conll")
    assert code == 0
    assert "1 of 2 records are those of answers, and read so; the others are read as what they look like" in said
    assert "its records are those of answers" not in said
    assert run("convert", path, tmp_path / "strict.conll", "--strict")[0] == 1
    code, _, said = run("convert", path, tmp_path / "both.conll", "--from", "answers", "--strict")
    assert (code, len(Corpus.read(tmp_path / "both.conll"))) == (0, 2)


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
