from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.merging import Layer, MergeReport, merge_layers, merge_sentences, tell_sources_apart
from lacuner.errors import ConfigError, DataError

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


def test_of_labels_with_as_many_votes_the_first_file_may_decide() -> None:
    layers = [
        Layer(name, [Sentence(WORDS, (Entity(2, 3, label), Entity(0, 1, "PER")))])
        for name, label in (("a", "LOC"), ("b", "ORG"))
    ]
    (sentence,), report = merge_layers(layers, ties="first")
    assert {(e.label, e.source) for e in sentence.entities} == {("LOC", "a"), ("PER", "a+b")}
    assert (report.tied, report.outvoted) == (0, 1)
    (both,), report = merge_layers(layers)
    assert (len(both.entities), report.tied) == (3, 1)
    (weighed,), report = merge_layers(layers, {"b": 2}, ties="first")  # these are no equal votes
    assert {e.label for e in weighed.entities} == {"ORG", "PER"}


def test_what_one_file_has_and_another_has_not_is_no_conflict() -> None:
    both = Sentence(WORDS, (Entity(2, 3, "LOC"), Entity(2, 3, "ORG")))
    assert (merged(both, both)[1].conflicts, merged(both, both)[1].tied) == (0, 0)
    assert merged(both, Sentence(WORDS))[1].conflicts == 0


def test_whoever_looked_is_there_even_if_they_said_nothing() -> None:
    layers = [
        Layer("dict", [Sentence(WORDS), Sentence(("x",))]),
        Layer("llm", [Sentence(WORDS, (Entity(2, 3, "LOC"),))]),
    ]
    (first, second), _ = merge_layers(layers)
    assert [(said.source, len(said.entities)) for said in first.by_source] == [("dict", 0), ("llm", 1)]
    assert [said.source for said in second.by_source] == ["dict"]


def test_a_file_is_called_as_it_calls_itself() -> None:
    named = [Sentence(WORDS), Sentence(("x",), (Entity(0, 1, "PER", source="dictionary"),))]
    sentences, report = merge_layers([Layer("a", named), Layer("b", [Sentence(WORDS)])])
    assert [said.source for said in sentences[0].by_source] == ["dictionary", "b"]
    assert report.shared == ()
    assert merge_layers([Layer("a", named), Layer("b", named)])[1].shared == ("dictionary",)


def test_the_majority_decides_and_by_source_keeps_the_others() -> None:
    wide, narrow = Sentence(WORDS, (Entity(0, 3, "ORG"),)), Sentence(WORDS, (Entity(0, 1, "PER"),))
    sentence, report = merged(wide, narrow, narrow)
    assert [(e.label, e.source) for e in sentence.entities] == [("PER", "b+c")]
    assert sentence.by_source[0].entities == wide.entities
    assert (report.outvoted, report.entities) == (1, 1)


def test_trust_outweighs_the_majority_and_is_checked() -> None:
    layers = [Layer(name, [Sentence(WORDS, (Entity(2, 3, label),))]) for name, label in zip("abc", "XYY", strict=True)]
    assert [e.label for e in merge_layers(layers)[0][0].entities] == ["Y"]
    assert [e.label for e in merge_layers(layers, {"a": 2})[0][0].entities] == ["X", "Y"]
    (trusting,), _ = merge_layers(layers, {"a": 3})
    assert [e.label for e in trusting.entities] == ["X"]
    assert [said.weight for said in trusting.by_source] == [3, 1, 1]
    assert merge_layers([Layer("again", [trusting])])[0] == [trusting], "the weights stay"
    with pytest.raises(ConfigError, match="there is no source 'd' — choose one of: a, b, c"):
        merge_layers(layers, {"d": 1})
    with pytest.raises(ConfigError, match="the weight of a"):
        merge_layers(layers, {"a": -1})


def test_merging_again_changes_nothing() -> None:
    one, other = Sentence(WORDS, (Entity(0, 3, "ORG"),)), Sentence(WORDS, (Entity(2, 3, "LOC"),))
    once, _ = merge_layers([Layer("a", [one]), Layer("b", [other])])
    assert merge_layers([Layer("whatever", once)])[0] == once


def test_a_file_that_names_several_sources_is_merged_like_several_files() -> None:
    both = Sentence(WORDS, (Entity(0, 3, "ORG", source="dict"), Entity(2, 3, "LOC", source="llm")))
    corpus, report = tell_sources_apart(Corpus([both, Sentence(("x",))]))
    assert report is not None
    assert report.outvoted == 1
    assert corpus[0].entities == (Entity(0, 3, "ORG"),)
    assert [said.source for said in corpus[1].by_source] == ["dict", "llm"]
    again, report = tell_sources_apart(corpus)
    assert again is corpus
    assert report is None
    alone = Corpus([Sentence(WORDS, (Entity(0, 1, "PER", source="dict"),))])
    assert tell_sources_apart(alone)[0] is alone


def test_what_a_reviewer_decided_after_merging_stays() -> None:
    said = (SourceAnnotation("a", (Entity(0, 1, "PER"),)), SourceAnnotation("b", (Entity(0, 1, "PER"),)))
    reviewed = Sentence(WORDS, (Entity(0, 1, "ORG", source="reviewer"),), by_source=said)
    assert tell_sources_apart(Corpus([reviewed]))[0][0] == reviewed


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
    with pytest.raises(DataError, match="no sentence occurs in two of the files"):
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
        (sentence.tokens, entity, annotation.source)
        for sentence in sentences
        for annotation in sentence.by_source
        for entity in annotation.entities
    )
    given_ = Counter(
        (sentence.tokens, entity, str(n))
        for n, corpus in enumerate(corpora)
        for sentence in corpus
        for entity in sentence.entities
    )
    assert said == given_
    for sentence in sentences:
        voters = {
            entity: [each.source for each in sentence.by_source if entity in each.entities]
            for entity in sentence.entities
        }
        assert all((entity.source or "").split("+") == voters[entity] for entity in sentence.entities)
    assert report.entities == sum(len(sentence.entities) for sentence in sentences)
    for n, corpus in enumerate(corpora):
        assert report.missing[str(n)] == len(sentences) - len(corpus)
        order = [sentence.tokens for sentence in sentences]
        if n == 0:
            remaining = iter(order)
            assert all(sentence.tokens in remaining for sentence in corpus)
