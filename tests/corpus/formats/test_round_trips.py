"""Whatever a format can hold comes back as it was written: emoji, combining marks, text from right to left."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import sentence_from_text, stream_sentences, write_sentences
from lacuner.corpus.formats.records import sentence_to_record

READ_AND_WRITTEN = ["conll", "doccano", "jsonl", "prodigy"]
TEXTS = {
    "emoji": "😀 Ada 👩\u200d🚀 left 🇩🇪 for Oslo 👨🏻\u200d🚒.",
    "combining marks": "Zoe\u0308 e\u0301 क्षत्रिय กำลัง A\u030angstro\u0308m.",
    "right to left": "\u202bעדה לאבלייס\u202c גרה ב־לונדון، ومحمّد في القاهرة.",
    "all at once": "👩\u200d🚀Zoe\u0308 עדה\u200f 😀 محمّد 東京 𠮷野家 e\u0301.",
}


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
    assert sentence_to_record(again) == sentence_to_record(sentence)
    shown = [again.text_of(entity.start, entity.end) for entity in again.entities]
    assert shown == [sentence.text_of(entity.start, entity.end) for entity in sentence.entities]


PIECES = st.one_of(st.sampled_from([*TEXTS.values(), " ", "\n", "\r\n", "\u2028", "😀", "a", "."]), st.text(max_size=8))


@st.composite
def sentences(draw):
    """The words of any text, some spans of them labelled, with fields that nobody knows."""
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
    if format == "conll":
        corpus = [sentence for sentence in corpus if sentence.tokens]
    path = tmp_path_factory.getbasetemp() / "any"
    write_sentences(corpus, path, format)
    again = list(stream_sentences(path, format))
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]
