"""What each source says is read and written, or its loss is said."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from any_sentence import any_sentences
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.corpus import write_sentences
from lacuner.corpus.formats.registry import all_formats
from lacuner.errors import DataError

SAID = (
    SourceAnnotation(
        "dict", (Entity(0, 1, "PER", score=0.5),), (Span(1, 2),), True, frozenset({"PER"}), frozenset({2})
    ),
    SourceAnnotation("llm", (Entity(0, 2, "ORG", extra={"why": "x"}), Entity(0, 1, "LOC")), weight=0.5),
    SourceAnnotation("silent"),
)
SENTENCE = Sentence(("Ada", "left", "Turin"), (Entity(0, 1, "PER", source="dict"),), by_source=SAID)
WRITABLE = sorted(name for name, known in all_formats().items() if known.can_be_written and known.read)


@pytest.mark.parametrize("name", WRITABLE)
def test_a_format_gives_it_back_or_says_that_it_cannot(tmp_path: Path, name: str) -> None:
    losses = write_sentences([SENTENCE], tmp_path / "data", name)
    (again,) = Corpus.read(tmp_path / "data", name)
    if "what each of several sources says" in losses:
        assert again.by_source == ()
    else:
        assert again.by_source == SAID
        assert again.by_source[0].entities[0].score == 0.5
        assert again.by_source[1].entities[1].extra == {"why": "x"}


def read(tmp_path: Path, record: object) -> Sentence:
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    return Corpus.read(tmp_path / "a.jsonl")[0]


def test_spans_of_sources_in_raw_text_count_characters_and_the_vote_gives_the_entities(tmp_path) -> None:
    said = [{"source": name, "entities": [[0, 3, label]]} for name, label in (("a", "X"), ("b", "Y"), ("c", "Y"))]
    sentence = read(tmp_path, {"text": "Ada left", "by_source": [*said, {"source": "d", "non_entities": [[4, 8]]}]})
    assert sentence.entities == (Entity(0, 1, "Y"),)
    assert [each.entities for each in sentence.by_source] == [(Entity(0, 1, label),) for label in "XYY"] + [()]
    assert sentence.by_source[3].non_entities == (Span(1, 2),)
    sentence = read(tmp_path, {"text": "Ada left", "spans": [[4, 8, "Z"]], "by_source": said})
    assert sentence.entities == (Entity(1, 2, "Z"),)


@pytest.mark.parametrize(
    ("by_source", "message"),
    [
        ([7], "must be a list of objects, each with its"),
        ([{"entities": []}], "must be a list of objects, each with its"),
        ([{"source": "a", "spans": []}], "has the field 'spans'"),
        ([{"source": "a", "weight": -1}], "must be a number that is not negative"),
        ([{"source": "a", "weight": True}], "must be a number that is not negative"),
        ([{"source": "a", "weight": "2"}], "must be a number that is not negative"),
        ([{"source": "a", "entities": [[0, 9, "X"]]}], "ends after the last of 1 words"),
        ([{"source": "a"}, {"source": "a"}], "the same source twice"),
        ([{"source": "a", "complete": 3}], '"complete" must be true or false'),
        ({}, '"by_source" must be a list'),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, by_source, message) -> None:
    with pytest.raises(DataError, match=rf"a\.jsonl:1: .*{message}"):
        read(tmp_path, {"tokens": ["Ada"], "entities": [], "by_source": by_source})


@st.composite
def sourced(draw):
    """Any sentence, about which two sources say parts of what is known about it, or other things."""
    sentence = draw(any_sentences())
    by_source = []
    for name in draw(st.lists(st.sampled_from(["a", "b c", "d+e"]), max_size=3, unique=True)):
        count = draw(st.integers(0, 3))
        known = {"complete": draw(st.booleans()), "annotated_labels": draw(st.sampled_from([None, frozenset({"PER"})]))}
        entities, rejected = sentence.entities[:count], sentence.non_entities[:count]
        by_source.append(SourceAnnotation(name, entities, rejected, **known, unknown_tokens=sentence.unknown_tokens))
    return replace(sentence, by_source=tuple(by_source), extra={})


@given(st.lists(sourced(), max_size=3))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sentence_comes_back_from_json_lines(tmp_path, corpus) -> None:
    Corpus(corpus).write(tmp_path / "data.jsonl")
    again = list(Corpus.read(tmp_path / "data.jsonl"))
    assert again == corpus
    assert [[said.entities[:1] and said.entities[0].score for said in s.by_source] for s in again] == [
        [said.entities[:1] and said.entities[0].score for said in s.by_source] for s in corpus
    ]
