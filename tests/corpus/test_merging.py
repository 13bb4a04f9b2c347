from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.merging import Layer, MergeReport, merge_layers, merge_sentences
from lacuner.errors import DataError

WORDS = ("Ada", "left", "Turin")


def merged(*versions: Sentence) -> tuple[Sentence, MergeReport]:
    report = MergeReport()
    return merge_sentences(list(zip("abc", versions, strict=False)), report), report


def test_who_said_what_is_kept() -> None:
    one = Sentence(WORDS, (Entity(0, 1, "PER"), Entity(2, 3, "LOC", source="human")))
    other = Sentence(WORDS, (Entity(0, 1, "PER", score=0.5, source="model"),))
    sentence, report = merged(one, other)
    assert [(e.label, e.source, e.score) for e in sentence.entities] == [
        ("PER", "a+model", 0.5),
        ("LOC", "human", None),
    ]
    assert (report.entities, report.agreed, report.conflicts) == (2, 1, 0)


def test_a_span_with_different_labels_keeps_all_of_them_and_is_counted() -> None:
    sentence, report = merged(Sentence(WORDS, (Entity(2, 3, "LOC"),)), Sentence(WORDS, (Entity(2, 3, "ORG"),)))
    assert sentence.possible_labels(2, 3, ("LOC", "ORG", "PER")) == {"LOC", "ORG"}
    assert {(e.label, e.source) for e in sentence.entities} == {("LOC", "a"), ("ORG", "b")}
    assert (report.conflicts, report.agreed) == (1, 0)


def test_what_one_file_has_and_another_has_not_is_no_conflict() -> None:
    both = Sentence(WORDS, (Entity(2, 3, "LOC"), Entity(2, 3, "ORG")))
    assert merged(both, both)[1].conflicts == 0
    assert merged(both, Sentence(WORDS))[1].conflicts == 0


def test_a_rejected_entity_stays_and_says_who_rejects_it() -> None:
    one = Sentence(WORDS, (Entity(0, 1, "PER"),), (Span(1, 2, "x"),))
    other = Sentence(WORDS, non_entities=(Span(0, 1, "reviewer"), Span(1, 2)))
    sentence, report = merged(one, other)
    assert sentence.entities[0].extra == {"rejected_by": "reviewer"}
    assert [(span.start, span.source) for span in sentence.non_entities] == [(1, "x+b")]
    assert report.rejected == 1


@pytest.mark.parametrize(
    ("one", "other", "complete", "labels"),
    [
        ((True, {"PER"}), (True, {"LOC"}), True, {"PER", "LOC"}),
        ((True, None), (True, {"LOC"}), True, None),
        ((True, {"PER"}), (False, {"LOC"}), True, {"PER"}),
        ((False, {"PER"}), (False, {"LOC"}), False, {"PER", "LOC"}),
        ((False, {"PER"}), (False, None), False, None),
    ],
)
def test_nothing_is_claimed_that_nobody_has_said(one, other, complete, labels) -> None:
    sentence, _ = merged(*(Sentence(WORDS, complete=each, annotated_labels=looked) for each, looked in (one, other)))
    assert (sentence.complete, sentence.annotated_labels) == (complete, labels)


def test_words_stay_unknown_unless_another_file_knows_the_same_labels() -> None:
    unknown, known = Sentence(WORDS, complete=True, unknown_tokens={1}), Sentence(WORDS, complete=True)
    assert merged(unknown, known)[0].unknown_tokens == frozenset()
    assert merged(unknown, Sentence(WORDS))[0].unknown_tokens == {1}
    partly = Sentence(WORDS, complete=True, annotated_labels={"PER"})
    assert merged(unknown, partly)[0].unknown_tokens == {1}


def test_what_a_complete_file_denies_is_counted_and_stays() -> None:
    one, other = Sentence(WORDS, (Entity(0, 1, "PER"),)), Sentence(WORDS, complete=True)
    sentence, report = merged(one, other)
    assert sentence.entities == one.entities
    assert report.denied == 1
    assert merged(one, Sentence(WORDS, complete=True, annotated_labels={"LOC"}))[1].denied == 0


def test_other_fields_are_kept_and_those_that_differ_counted() -> None:
    one, other = (
        Sentence(WORDS, extra={"id": 1, "a": 2}),
        Sentence(WORDS, text="Ada left Turin", extra={"id": 7, "b": 3}),
    )
    sentence, report = merged(one, other)
    assert dict(sentence.extra) == {"id": 1, "a": 2, "b": 3}
    assert sentence.text == "Ada left Turin"
    assert report.fields == 1


def test_the_order_is_that_of_the_files() -> None:
    def layer(name: str, words: str) -> Layer:
        return Layer(name, [Sentence((word,)) for word in words])

    sentences, report = merge_layers([layer("x", "abad"), layer("y", "zbcaad"), layer("w", "e")])
    assert "".join(sentence.tokens[0] for sentence in sentences) == "ezabcad"
    assert report.missing == {"x": 3, "y": 1, "w": 6}


def test_files_that_have_nothing_in_common_are_refused() -> None:
    with pytest.raises(DataError, match="no sentence is in two of the files"):
        merge_layers([Layer("x", [Sentence(("a",))]), Layer("y", [Sentence(("b",))])])
    assert merge_layers([Layer("x", []), Layer("y", [])])[0] == []


ENTITIES = st.builds(
    lambda start, width, label: Entity(start, start + width, label),
    st.integers(0, 1),
    st.integers(1, 2),
    st.sampled_from(["PER", "LOC"]),
)
SENTENCES = st.builds(
    lambda word, entities, complete: Sentence((word, "b", "c"), tuple({*entities}), complete=complete),
    st.sampled_from("xyz"),
    st.lists(ENTITIES, max_size=3),
    st.booleans(),
)


@given(st.lists(st.lists(SENTENCES, min_size=1, max_size=6), min_size=2, max_size=3))
@settings(deadline=None)
def test_nothing_is_lost_and_nothing_is_there_twice(corpora) -> None:
    try:
        sentences, report = merge_layers([Layer(str(n), corpus) for n, corpus in enumerate(corpora)])
    except DataError:
        return
    needed: Counter[tuple[str, ...]] = Counter()
    for corpus in corpora:
        needed |= Counter(sentence.tokens for sentence in corpus)
    assert Counter(sentence.tokens for sentence in sentences) == needed
    assert all(len(set(sentence.entities)) == len(sentence.entities) for sentence in sentences)
    said = Counter(
        (sentence.tokens, entity, source)
        for sentence in sentences
        for entity in sentence.entities
        for source in (entity.source or "").split("+")
    )
    given_ = Counter(
        (sentence.tokens, entity, str(n))
        for n, corpus in enumerate(corpora)
        for sentence in corpus
        for entity in sentence.entities
    )
    assert said == given_
    assert report.entities == sum(len(sentence.entities) for sentence in sentences)
    for n, corpus in enumerate(corpora):
        assert report.missing[str(n)] == len(sentences) - len(corpus)
        order = [sentence.tokens for sentence in sentences]
        if n == 0:
            remaining = iter(order)
            assert all(sentence.tokens in remaining for sentence in corpus)
