import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.corpus import sentence_from_text
from lacuner.corpus.documents import cut_into_sentences, document_of, slice_sentence, words_inside_spans
from lacuner.corpus.formats.conll import DOCUMENT_MARK
from lacuner.corpus.tokenize import SPLITTINGS


def texts(text: str, split: str = "words") -> list[str | None]:
    return [sentence.text for sentence in cut_into_sentences(sentence_from_text(text, split))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada left. She went to Turin.", ["Ada left.", "She went to Turin."]),
        ("Dr. Ada left J. Smith.", ["Dr. Ada left J. Smith."]),
        ('She said: "I left." Then she did.', ['She said: "I left."', "Then she did."]),
        ("(It was late.) We left.", ["(It was late.)", "We left."]),
        ("Title\n\nThe text", ["Title", "The text"]),
        ("他来了。「走吧。」她说。", ["他来了。", "「走吧。」", "她说。"]),
        ("東京に行く。帰る！", ["東京に行く。", "帰る！"]),
        ("هل جاءت آدا؟ نعم، جاءت.", ["هل جاءت آدا؟", "نعم، جاءت."]),
        ("อาดาไปกรุงเทพ แล้วกลับบ้าน", ["อาดาไปกรุงเทพ แล้วกลับบ้าน"]),
    ],
)
def test_a_text_is_cut_where_sentences_end(text: str, expected: list[str]) -> None:
    assert texts(text, "characters" if "。" in text else "words") == expected


def test_sentences_say_where_they_were_cut_out() -> None:
    document = Sentence(("Ada", "left", ".", "Bob", "stayed", "."), text=" Ada left.  Bob stayed.", extra={"a": 1})
    first, second = cut_into_sentences(document)
    name = first.extra["document"]
    assert dict(first.extra) == {"a": 1, "document": name, "offset": 1}
    assert dict(second.extra) == {"a": 1, "document": name, "offset": 12}
    assert (second.tokens, second.text) == (("Bob", "stayed", "."), "Bob stayed.")
    assert document.text is not None
    assert document.text[12:] == second.text


def test_a_document_without_a_name_is_named_by_its_text() -> None:
    names = [
        cut_into_sentences(sentence_from_text(text))[0].extra["document"] for text in ("A b. C", "A b. D", "A b. C")
    ]
    assert names[0] == names[2] != names[1]


def test_a_document_that_has_a_name_keeps_it_and_begins_once() -> None:
    document = Sentence(
        ("Ada", "left", ".", "Bob", "sat"),
        text="Ada left. Bob sat",
        extra={"id": "x", DOCUMENT_MARK: True, "offset": 100},
    )
    first, second = cut_into_sentences(document)
    assert dict(first.extra) == {"id": "x", DOCUMENT_MARK: True, "offset": 100}
    assert dict(second.extra) == {"id": "x", "offset": 110}


def test_no_span_is_cut_in_two() -> None:
    words, text = ("Yahoo", "!", "Inc", ".", "Ada", "left"), "Yahoo! Inc. Ada left"
    assert len(cut_into_sentences(Sentence(words, text=text))) == 2
    for annotation in ({"entities": (Entity(0, 3, "ORG"),)}, {"non_entities": (Span(1, 3),)}):
        assert [s.text for s in cut_into_sentences(Sentence(words, text=text, **annotation))] == [text]


def test_words_without_a_text_stay_as_they_are() -> None:
    sentence = Sentence(("Ada", "left", ".", "Bob", "sat", "."))
    assert cut_into_sentences(sentence) == [sentence]


@given(
    st.text(alphabet='ab .!?。」"\nAB', max_size=60),
    st.sampled_from(SPLITTINGS),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=5),
    st.booleans(),
)
@settings(deadline=None)
def test_cutting_loses_no_word_and_no_span(text, split, spans, complete) -> None:
    bare = sentence_from_text(text, split)
    entities = {Entity(a, a + width, "X") for a, width in spans if a + width <= len(bare)}
    unknown = frozenset(range(0, len(bare), 3))
    document = Sentence(bare.tokens, tuple(entities), complete=complete, unknown_tokens=unknown, text=text)
    position, found, marked = 0, set(), set()
    for sentence in cut_into_sentences(document):
        offset = sentence.extra.get("offset", 0)
        assert sentence.text is not None
        assert text[offset : offset + len(sentence.text)] == sentence.text
        assert sentence.tokens == document.tokens[position : position + len(sentence)]
        assert sentence.complete == complete
        found |= {Entity(e.start + position, e.end + position, e.label) for e in sentence.entities}
        marked |= {word + position for word in sentence.unknown_tokens}
        position += len(sentence)
    assert position == len(document)
    assert found == entities
    assert marked == unknown


def test_words_inside_spans_are_those_before_which_no_cut_may_be() -> None:
    sentence = Sentence(tuple("abcdef"), (Entity(0, 2, "X"), Entity(1, 4, "X")), (Span(5, 6),))
    assert words_inside_spans(sentence) == {1, 2, 3}


def test_a_sentence_without_fields_belongs_to_no_document() -> None:
    assert document_of(Sentence(("a",))) is None
    assert document_of(Sentence(("a",), extra={"meta": {"id": 3}})) == ("id", "3")


def test_what_each_source_says_is_cut_like_the_sentence_and_never_in_two() -> None:
    said = SourceAnnotation("a", (Entity(1, 3, "PER"), Entity(4, 5, "LOC")), (Span(3, 4),), unknown_tokens={3})
    sentence = Sentence(tuple("abcde"), (Entity(0, 1, "X"),), by_source=(said, SourceAnnotation("b")))
    assert words_inside_spans(sentence) == {2}
    assert slice_sentence(sentence, 3, 5).by_source == (
        SourceAnnotation("a", (Entity(1, 2, "LOC"),), (Span(0, 1),), unknown_tokens={0}),
        SourceAnnotation("b"),
    )
