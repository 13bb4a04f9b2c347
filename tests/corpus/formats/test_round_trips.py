"""Whatever a format can hold comes back as it was written: emoji, combining marks, text from right to left."""

import logging
import re
import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.corpus import sentence_from_text, stream_sentences, write_sentences
from lacuner.corpus.formats.records import sentence_to_record

READ_AND_WRITTEN = [
    "argilla",
    "bioc",
    "brat",
    "conll",
    "conllu",
    "csv",
    "doccano",
    "gliner",
    "jsonl",
    "label_studio",
    "prodigy",
]
HOLD_EVERYTHING = ["argilla", "gliner", "jsonl", "label_studio"]
IN_COLUMNS = ["conll", "conllu"]
WITH_IDS = ["bioc", "brat"]
"""Formats in which documents and entities have IDs, given to those that have none."""
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
TEXTS = {
    "emoji": "😀 Ada 👩\u200d🚀 left 🇩🇪 for Oslo 👨🏻\u200d🚒.",
    "combining marks": "Zoe\u0308 e\u0301 क्षत्रिय กำลัง A\u030angstro\u0308m.",
    "right to left": "\u202bעדה לאבלייס\u202c גרה ב־לונדון، ومحمّد في القاهرة.",
    "all at once": "👩\u200d🚀Zoe\u0308 עדה\u200f 😀 محمّد 東京 𠮷野家 e\u0301.",
}


def without_new_ids(sentence: Sentence, original: Sentence, format: str) -> dict[str, Any]:
    """The record of a sentence, without the IDs that its format has given it."""
    record = sentence_to_record(sentence)
    if format in WITH_IDS:
        for entity, before in zip(record["entities"], original.entities, strict=True):
            if "id" not in before.extra:
                del entity["id"]
        if original.extra.get("id") is None:
            assert record.pop("id", None) is not None
            record |= {"id": None} if "id" in original.extra else {}
    return record


def annotated(text: str, split: str = "words") -> Sentence:
    """Every word is an entity, and so are all of them together where a format can hold it."""
    sentence = sentence_from_text(text, split)
    entities = tuple(Entity(index, index + 1, "X") for index in range(len(sentence)))
    return Sentence(sentence.tokens, entities, text=text, extra={"id": "a", "meta": {"n": [1, None]}})


@pytest.mark.parametrize("format", READ_AND_WRITTEN)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_entities_stay_where_they_are_in_any_script(tmp_path, format, text):
    sentence = annotated(text)
    write_sentences([sentence], tmp_path / "data", format)
    (again,) = Corpus.read(tmp_path / "data", format)
    assert without_new_ids(again, sentence, format) == sentence_to_record(sentence)
    shown = [again.text_of(entity.start, entity.end) for entity in again.entities]
    assert shown == [sentence.text_of(entity.start, entity.end) for entity in sentence.entities]


PIECES = st.one_of(st.sampled_from([*TEXTS.values(), " ", "\n", "\r\n", "\u2028", "😀", "a", "."]), st.text(max_size=8))


@st.composite
def sentences(draw):
    """The words of any text, some spans of them labeled, with fields that nobody knows."""
    text = "".join(draw(st.lists(PIECES, max_size=6)))
    words = sentence_from_text(text.encode("utf-8", "ignore").decode())
    entities, position = [], 0
    while position < len(words) and draw(st.booleans()):
        start = draw(st.integers(position, len(words) - 1))
        position = draw(st.integers(start + 1, len(words)))
        entities.append(Entity(start, position, draw(st.sampled_from(["PER", "LOC"]))))
    keys = st.sampled_from(["id", "meta", "ids", "extra", "sources"])
    values = st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
    return Sentence(words.tokens, tuple(entities), text=words.text, extra=draw(st.dictionaries(keys, values)))


@pytest.mark.parametrize("format", READ_AND_WRITTEN)
@given(corpus=st.lists(sentences(), max_size=3))
@example(corpus=[annotated(text) for text in TEXTS.values()])
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_comes_back_with_its_entities_and_fields(tmp_path_factory, format, corpus):
    if format in IN_COLUMNS:
        corpus = [sentence for sentence in corpus if sentence.tokens]
    if format == "bioc":
        corpus = [sentence for sentence in corpus if not NOT_IN_XML.search(sentence.raw_text)]
    path = tmp_path_factory.getbasetemp() / f"any {format}"
    if path.is_dir():
        shutil.rmtree(path)
    write_sentences(corpus, path, format)
    again = list(stream_sentences(path, format)) if corpus or format != "brat" else []
    if format == "brat":
        corpus, again = in_order(corpus), in_order(again)
    wanted = [sentence_to_record(sentence) for sentence in corpus]
    assert [without_new_ids(*pair, format) for pair in zip(again, corpus, strict=True)] == wanted


def in_order(corpus):
    """Files in a folder are read in the order of their names, and not in the one in which they were written."""
    return sorted(
        corpus, key=lambda sentence: (sentence.raw_text, repr(sentence.entities), str(sentence.extra.get("meta")))
    )


KNOWN = Sentence(
    ("Ada", "Lovelace", "met", "😀", "Bo"),
    (
        Entity(0, 2, "PER", None, 0.5, "human", {"id": "T7", "x": [1]}),
        Entity(4, 5, "geo loc", None, None, "dictionary"),
    ),
    (Span(2, 3, "reviewer", {"why": "verb"}), Span(3, 4)),
    complete=True,
    annotated_labels=frozenset({"PER", "geo loc"}),
    unknown_tokens=frozenset({3}),
    text="Ada Lovelace\nmet  😀Bo",
    token_offsets=((0, 3), (4, 12), (13, 16), (18, 19), (19, 21)),
    extra={"id": "document 1", "meta": {"n": [1, None]}, "relations": "none"},
)


@pytest.mark.parametrize("format", [name for name in READ_AND_WRITTEN if name != "doccano"])
def test_three_values_sources_ids_and_foreign_fields_come_back(tmp_path, format, caplog):
    write_sentences([KNOWN], tmp_path / "data", format)
    (again,) = Corpus.read(tmp_path / "data", format, strict=True)
    record = without_new_ids(again, KNOWN, format)
    if format == "prodigy":
        record["meta"].pop("score")
    assert record == sentence_to_record(KNOWN)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_pubtator_holds_texts_labels_and_ids_and_says_what_it_does_not_hold(tmp_path, caplog):
    write_sentences([KNOWN], tmp_path / "data.pubtator")
    (again,) = Corpus.read(tmp_path / "data.pubtator", strict=True)
    assert (again.text, again.tokens, again.entities) == (KNOWN.text, KNOWN.tokens, KNOWN.entities)
    assert again.extra == {"id": "document 1"}
    said = " ".join(caplog.messages)
    for what in (
        "rejected spans",
        "complete",
        "looked for",
        "unknown words",
        "sources",
        "scores",
        "'x' of entities",
        "'meta'",
    ):
        assert what in said


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_pubtator_keeps_entities_where_they_are_in_any_script(tmp_path, text):
    sentence = annotated(f"{text}\n{text}")
    write_sentences([sentence], tmp_path / "data.pubtator")
    (again,) = Corpus.read(tmp_path / "data.pubtator", strict=True)
    assert again == sentence


FIELDS = st.dictionaries(
    st.sampled_from(["id", "meta", "metadata", "lacuner", "label_studio", "argilla", "ner", "origin", "fields"]),
    st.none() | st.integers() | st.just({}) | st.just({"a": [1, None]}) | st.text("ab😀", max_size=3),
    max_size=3,
)


@st.composite
def annotated_sentences(draw):
    """Everything that may be known about the words of a text."""
    sentence = draw(sentences())
    spans = [(start, end) for start in range(len(sentence)) for end in range(start + 1, len(sentence) + 1)][:40]
    chosen = draw(st.lists(st.sampled_from(spans), unique=True, max_size=4)) if spans else []
    entities = [
        Entity(
            *span,
            draw(st.sampled_from(["PER", "LOC"])),
            score=draw(st.none() | st.sampled_from([0.0, 0.25, 1.0])),
            source=draw(st.sampled_from([None, "human", "model", "dictionary"])),
            extra=draw(FIELDS),
        )
        for span in chosen[::2]
    ]
    rejected = [Span(*span, draw(st.sampled_from([None, "reviewer"])), draw(FIELDS)) for span in chosen[1::2]]
    return Sentence(
        sentence.tokens,
        tuple(entities),
        tuple(rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.sampled_from([None, frozenset(), frozenset({"PER"}), frozenset({"PER", "LOC", "X"})])),
        unknown_tokens=draw(st.sets(st.integers(0, len(sentence) - 1), max_size=2)) if sentence.tokens else frozenset(),
        text=sentence.text,
        extra=draw(FIELDS),
    )


@pytest.mark.parametrize("format", HOLD_EVERYTHING)
@given(corpus=st.lists(annotated_sentences(), max_size=3))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_three_values_sources_scores_and_fields_come_back(tmp_path_factory, format, corpus):
    path = tmp_path_factory.getbasetemp() / "everything.json"
    write_sentences(corpus, path, format)
    wanted = [sentence_to_record(sentence) for sentence in corpus]
    assert [sentence_to_record(sentence) for sentence in stream_sentences(path, format)] == wanted
    assert [sentence_to_record(sentence) for sentence in stream_sentences(path)] == wanted  # it is known by its records
