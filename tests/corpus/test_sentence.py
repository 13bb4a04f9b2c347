import pickle
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace
from typing import Any, get_type_hints

import pytest

from growth import assert_linear
from lacuner.corpus import OUTSIDE, Entity, Sentence, Source, SourceAnnotation, Span

LABELS = ("LOC", "ORG", "PER")
EVERYTHING = {OUTSIDE, "LOC", "ORG", "PER"}
TOKENS = ("Ada", "Lovelace", "left", "Turin")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Span(0, 1), "start"),
        (Entity(0, 1, "PER"), "label"),
        (Sentence(TOKENS), "tokens"),
        (Sentence(TOKENS), "entities"),
    ],
)
def test_spans_entities_and_sentences_cannot_be_changed(value, field):
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)
    assert value in {value}


def test_nothing_can_be_hung_onto_a_sentence():
    assert not hasattr(Sentence(TOKENS), "__dict__")


def test_the_fields_are_typed():
    assert get_type_hints(Entity) == {
        "start": int, "end": int, "label": str, "text": str | None, "score": float | None, "source": str | None,
        "extra": Mapping[str, Any],
    }  # fmt: skip
    assert get_type_hints(Sentence) == {
        "tokens": tuple[str, ...],
        "entities": tuple[Entity, ...],
        "non_entities": tuple[Span, ...],
        "complete": bool,
        "annotated_labels": frozenset[str] | None,
        "unknown_tokens": frozenset[int],
        "text": str | None,
        "token_offsets": tuple[tuple[int, int], ...] | None,
        "by_source": tuple[SourceAnnotation, ...],
        "extra": Mapping[str, Any],
    }


def test_a_sentence_does_not_share_the_lists_it_was_made_of():
    tokens, entities, labels = ["Ada", "left"], [Entity(0, 1, "PER")], {"PER"}
    sentence = Sentence(tokens, entities, annotated_labels=labels)
    tokens.append("Turin")
    entities.clear()
    labels.add("LOC")
    assert sentence.tokens == ("Ada", "left")
    assert sentence.entities == (Entity(0, 1, "PER"),)
    assert sentence.annotated_labels == frozenset({"PER"})


def test_entities_stand_in_the_order_of_the_text():
    sentence = Sentence(
        TOKENS,
        entities=(Entity(3, 4, "LOC"), Entity(0, 2, "PER")),
        non_entities=(Span(2, 3), Span(0, 1)),
    )
    assert sentence.entities == (Entity(0, 2, "PER"), Entity(3, 4, "LOC"))
    assert sentence.non_entities == (Span(0, 1), Span(2, 3))


def test_an_entity_is_its_span_and_label_whoever_found_it():
    found = Entity(0, 2, "PER", text="Ada Lovelace", score=0.98, source="model")
    assert found == Entity(0, 2, "PER", source="human")
    assert len({found, Entity(0, 2, "PER")}) == 1
    assert found != Entity(0, 2, "ORG")
    assert found != Entity(0, 3, "PER")
    assert Span(0, 1, "reviewer") == Span(0, 1)


def test_an_entity_shows_what_is_known_about_it():
    assert repr(Entity(0, 2, "PER")) == "Entity(start=0, end=2, label='PER')"
    full = Entity(0, 12, "PER", text="Ada Lovelace", score=0.984, source="model")
    assert repr(full) == "Entity(start=0, end=12, label='PER', text='Ada Lovelace', score=0.98, source='model')"


@pytest.mark.parametrize(("start", "end"), [(1, 1), (2, 1), (-1, 1)])
def test_a_span_holds_at_least_one_word(start, end):
    with pytest.raises(ValueError, match="0 <= start < end"):
        Entity(start, end, "PER")
    with pytest.raises(ValueError, match="0 <= start < end"):
        Span(start, end)


@pytest.mark.parametrize("label", ["", "O"])
def test_no_entity_is_labelled_outside(label):
    with pytest.raises(ValueError, match="cannot be the label"):
        Entity(0, 1, label)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"entities": [Entity(3, 5, "LOC")]}, "ends after the last of 4 words"),
        ({"non_entities": [Span(4, 5)]}, "ends after the last of 4 words"),
        ({"entities": [Entity(0, 1, "PER")], "non_entities": [Span(0, 1)]}, "annotated and rejected at once"),
        ({"unknown_tokens": {4}}, "outside the sentence"),
        ({"unknown_tokens": {-1}}, "outside the sentence"),
    ],
)
def test_a_sentence_that_contradicts_itself_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sentence(TOKENS, **arguments)


def test_a_string_is_neither_a_list_of_words_nor_a_set_of_labels():
    with pytest.raises(TypeError, match="sequence of words"):
        Sentence("Ada left")
    with pytest.raises(TypeError, match="set of labels"):
        Sentence(TOKENS, annotated_labels="PER")
    with pytest.raises(TypeError, match=r"^entities holds objects such as Entity\(0, 1, 'PER'\), not \(0, 1, 'PER'\)$"):
        Sentence(("Ada",), ((0, 1, "PER"),))
    with pytest.raises(TypeError, match=r"^non_entities holds objects such as Span\(0, 1\), not \(0, 1\)$"):
        Sentence(("Ada",), non_entities=((0, 1),))


def test_without_annotation_every_label_is_possible():
    assert Sentence(TOKENS).possible_labels(0, 2, LABELS) == EVERYTHING


def test_an_annotated_span_has_its_label():
    sentence = Sentence(TOKENS, [Entity(0, 2, "PER")])
    assert sentence.possible_labels(0, 2, LABELS) == {"PER"}


def test_an_annotation_says_nothing_about_spans_that_overlap_it():
    sentence = Sentence(TOKENS, [Entity(0, 2, "PER")])
    for start, end in ((0, 1), (1, 2), (0, 3), (2, 3)):
        assert sentence.possible_labels(start, end, LABELS) == EVERYTHING


def test_a_span_with_two_labels_has_one_of_them():
    sentence = Sentence(TOKENS, [Entity(3, 4, "LOC"), Entity(3, 4, "ORG")])
    assert sentence.possible_labels(3, 4, LABELS) == {"LOC", "ORG"}


def test_a_rejected_span_is_no_entity():
    sentence = Sentence(TOKENS, non_entities=[Span(2, 3)])
    assert sentence.possible_labels(2, 3, LABELS) == {OUTSIDE}
    assert sentence.possible_labels(2, 4, LABELS) == EVERYTHING


def test_in_a_complete_sentence_what_is_not_annotated_is_no_entity():
    sentence = Sentence(TOKENS, [Entity(0, 2, "PER")], complete=True)
    assert sentence.possible_labels(0, 2, LABELS) == {"PER"}
    assert sentence.possible_labels(3, 4, LABELS) == {OUTSIDE}


def test_a_complete_sentence_says_nothing_about_labels_that_nobody_looked_for():
    sentence = Sentence(TOKENS, [Entity(0, 2, "PER")], complete=True, annotated_labels={"PER"})
    assert sentence.possible_labels(3, 4, LABELS) == {OUTSIDE, "LOC", "ORG"}
    assert sentence.possible_labels(0, 2, LABELS) == {"PER"}


def test_looking_for_a_label_does_not_mean_finding_all_of_it():
    sentence = Sentence(TOKENS, annotated_labels={"PER"})
    assert sentence.possible_labels(3, 4, LABELS) == EVERYTHING


def test_a_span_is_unknown_only_if_all_of_its_words_are():
    sentence = Sentence(TOKENS, complete=True, unknown_tokens={2, 3})
    assert sentence.possible_labels(2, 3, LABELS) == EVERYTHING
    assert sentence.possible_labels(2, 4, LABELS) == EVERYTHING
    assert sentence.possible_labels(1, 3, LABELS) == {OUTSIDE}
    assert sentence.possible_labels(0, 1, LABELS) == {OUTSIDE}


def test_annotation_and_rejection_outrank_unknown_words():
    sentence = Sentence(
        TOKENS, [Entity(3, 4, "LOC")], non_entities=[Span(0, 1)], complete=True, unknown_tokens=range(4)
    )
    assert sentence.possible_labels(3, 4, LABELS) == {"LOC"}
    assert sentence.possible_labels(0, 1, LABELS) == {OUTSIDE}


def test_all_labels_were_looked_for_unless_some_are_named():
    assert Sentence(TOKENS).looked_for(LABELS) == {"LOC", "ORG", "PER"}
    assert Sentence(TOKENS, annotated_labels={"PER", "DATE"}).looked_for(LABELS) == {"PER"}
    assert Sentence(TOKENS, annotated_labels=()).looked_for(LABELS) == set()


def test_words_are_found_in_the_text_they_were_cut_out_of():
    sentence = Sentence(("Ada", "'s", "Ada"), text="Ada's  Ada")
    assert sentence.offsets() == [(0, 3), (3, 5), (7, 10)]
    assert sentence.text_of(0, 2) == "Ada's"
    assert sentence.text_of(1, 3) == "'s  Ada"


def test_without_a_text_words_are_joined_by_spaces():
    sentence = Sentence(("Ada", "'s", "Ada"))
    assert sentence.offsets() == [(0, 3), (4, 6), (7, 10)]
    assert sentence.text_of(0, 2) == "Ada 's"


def test_a_sentence_may_have_no_words():
    assert len(Sentence(())) == 0
    assert Sentence(()).offsets() == []


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [((0, 2), (1, 3), True), ((0, 3), (1, 2), True), ((0, 2), (2, 3), False), ((2, 3), (0, 2), False)],
)
def test_spans_overlap_if_they_share_a_word(one, other, expected):
    for first in (Span(*one), Entity(*one, "PER")):
        for second in (Span(*other), Entity(*other, "LOC")):
            assert first.overlaps(second) is expected


def test_the_span_of_an_entity_is_where_it_is():
    assert Entity(1, 3, "PER", source="human").span == Span(1, 3)


def test_a_source_is_a_string_like_those_of_other_tools():
    known = Entity(0, 1, "PER", source=Source.HUMAN)
    assert known.source == "human"
    assert repr(known) == "Entity(start=0, end=1, label='PER', source='human')"
    assert Entity(0, 1, "PER", source="crowd worker 7").source == "crowd worker 7"


def test_given_offsets_outrank_a_search():
    sentence = Sentence(("Bo",), text="Bobo met Bo", token_offsets=[(9, 11)])
    assert sentence.offsets() == [(9, 11)]
    assert sentence.text_of(0, 1) == "Bo"
    assert sentence != Sentence(("Bo",), text="Bobo met Bo")


def test_offsets_that_a_search_would_find_make_no_difference():
    assert Sentence(("Bo",), text="Bobo met Bo", token_offsets=[(0, 2)]) == Sentence(("Bo",), text="Bobo met Bo")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": None}, "needs the text"),
        ({"token_offsets": [(0, 2)]}, "1 pairs for 2 words"),
        ({"token_offsets": [(5, 8), (0, 2)]}, "in order"),
        ({"token_offsets": [(0, 2), (5, 12)]}, "inside the text"),
        ({"token_offsets": [(-1, 2), (5, 8)]}, "inside the text"),
        ({"token_offsets": [(0, 0), (5, 8)]}, "at least one character"),
    ],
)
def test_offsets_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Sentence(**{"tokens": ("Bo", "met"), "text": "Bobo met Bo", "token_offsets": [(0, 2), (5, 8)]} | fields)


def test_unknown_fields_travel_and_say_nothing_about_entities():
    given = {"id": 1, "meta": {"page": 3}}
    sentence = Sentence(TOKENS, [Entity(0, 1, "PER", extra={"id": 7})], [Span(2, 3, extra={"by": "Bo"})], extra=given)
    given["id"] = 2
    assert sentence == Sentence(TOKENS, [Entity(0, 1, "PER")], [Span(2, 3)])
    assert len({sentence, Sentence(TOKENS, [Entity(0, 1, "PER")], [Span(2, 3)])}) == 1
    for same in (sentence, replace(sentence, complete=True), pickle.loads(pickle.dumps(sentence)), deepcopy(sentence)):
        assert same.extra == {"id": 1, "meta": {"page": 3}}
        assert same.entities[0].extra == {"id": 7}
        assert same.non_entities[0].extra == {"by": "Bo"}
    with pytest.raises(TypeError):
        sentence.extra["id"] = 3


def test_an_unknown_field_cannot_have_the_name_of_a_known_one():
    with pytest.raises(ValueError, match="'tokens', which every Sentence has by itself"):
        Sentence(TOKENS, extra={"tokens": 1})
    with pytest.raises(ValueError, match="'label', which every Entity has by itself"):
        Entity(0, 1, "PER", extra={"label": 1})
    assert Sentence(TOKENS, extra={"extra": 1}).extra == {"extra": 1}


@pytest.mark.parametrize("text", [None, "Ada  Lovelace met\tBob"])
def test_the_words_of_many_spans_are_those_of_each(text):
    sentence = Sentence(("Ada", "Lovelace", "met", "Bob"), text=text)
    spans = [Span(start, end) for start in range(4) for end in range(start + 1, 5)]
    assert sentence.texts_of(spans) == [sentence.text_of(span.start, span.end) for span in spans]
    assert sentence.texts_of([Span(0, 2)]) == ["Ada Lovelace" if text is None else "Ada  Lovelace"]


def test_the_words_of_many_spans_of_a_long_sentence_take_time_that_is_linear():
    def prepare(size):
        sentence = Sentence(("Ada",) * size, text="Ada " * size)
        return lambda: sentence.texts_of([Span(word, word + 1) for word in range(size)])

    assert_linear(prepare, 200)


def test_a_source_has_a_name_and_speaks_once():
    with pytest.raises(ValueError, match="needs a name"):
        SourceAnnotation("")
    with pytest.raises(ValueError, match="same source twice"):
        Sentence(("a",), by_source=(SourceAnnotation("x"), SourceAnnotation("x")))
    with pytest.raises(ValueError, match="ends after the last of 1 words"):
        Sentence(("a",), by_source=(SourceAnnotation("x", (Entity(0, 2, "PER"),)),))
    assert SourceAnnotation("x", (Entity(0, 1, "PER", source="y"),)).entities[0].source == "x"
