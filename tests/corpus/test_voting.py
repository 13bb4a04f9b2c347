import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.voting import decide, undecided_spans


def said(*entities: Entity, **known) -> SourceAnnotation:
    return SourceAnnotation("?", entities, **known)


def winners(*annotations: SourceAnnotation, trust=()) -> list[Entity]:
    return sorted(one.entity for one in decide(named(annotations, trust)))


def named(annotations, trust) -> tuple[SourceAnnotation, ...]:
    return tuple(
        SourceAnnotation(**(fields(each) | {"source": name, "weight": dict(trust).get(name, 1.0)}))
        for name, each in zip("abcd", annotations, strict=False)
    )


def fields(annotation: SourceAnnotation) -> dict:
    return {name: getattr(annotation, name) for name in annotation.__slots__}


NEW_YORK, YORK, PLACE = Entity(0, 2, "LOC"), Entity(1, 2, "LOC"), Entity(0, 2, "ORG")


def test_silence_is_no_vote() -> None:
    assert winners(said(YORK), said(), said()) == [YORK]


def test_more_votes_against_than_for_it_end_an_entity() -> None:
    against = said(non_entities=(Span(1, 2),))
    assert winners(said(YORK), against) == [YORK]
    assert winners(said(YORK), against, against) == []
    assert winners(said(YORK), against, said(complete=True)) == []
    assert winners(said(YORK), against, trust={"b": 2}) == []


@pytest.mark.parametrize("known", [{"annotated_labels": {"PER"}}, {"unknown_tokens": {1}}])
def test_whoever_did_not_look_for_it_is_not_against_it(known) -> None:
    silent = said(complete=True, **known)
    assert winners(said(YORK), silent, silent) == [YORK]


def test_labels_with_as_many_votes_stay_and_others_go() -> None:
    assert winners(said(NEW_YORK), said(PLACE)) == [NEW_YORK, PLACE]
    assert winners(said(NEW_YORK), said(PLACE), said(PLACE)) == [PLACE]


def test_of_overlapping_spans_the_earlier_source_wins_a_draw() -> None:
    assert winners(said(YORK), said(NEW_YORK)) == [YORK]
    assert winners(said(NEW_YORK), said(YORK)) == [NEW_YORK]
    assert winners(said(NEW_YORK), said(YORK), trust={"b": 1.5}) == [YORK]


def test_what_one_source_has_inside_each_other_may_be_so() -> None:
    nested = said(YORK, NEW_YORK)
    assert winners(nested) == [NEW_YORK, YORK]
    assert winners(nested, said(YORK)) == [NEW_YORK, YORK]


def test_sources_that_look_for_different_labels_do_not_contradict_each_other() -> None:
    places, companies = said(YORK, annotated_labels={"LOC"}), said(PLACE, annotated_labels={"ORG"})
    assert winners(places, companies) == [PLACE, YORK]


def undecided(*annotations: SourceAnnotation, trust=(), **more) -> list[Span]:
    sentence = Sentence(("in", "New", "York", "City", "."), by_source=named(annotations, trust), **more)
    return list(undecided_spans(sentence))


def test_what_no_majority_says_is_undecided() -> None:
    assert undecided(said(YORK), said(YORK)) == []
    assert undecided(said(YORK), said()) == [YORK.span], "silence is no vote, and no consent either"
    assert undecided(said(NEW_YORK), said(PLACE)) == [NEW_YORK.span]
    assert undecided(said(NEW_YORK), said(YORK)) == [NEW_YORK.span, YORK.span]
    assert undecided(said(YORK), said(YORK), said()) == []
    assert undecided(said(NEW_YORK), said(YORK), said(YORK)) == [NEW_YORK.span]
    assert undecided(said(YORK), said(), trust={"a": 1.5}) == [], "a source with more votes is a majority by itself"


def test_where_one_source_looked_nothing_is_undecided() -> None:
    assert undecided(said(YORK)) == []
    assert undecided(said(YORK, annotated_labels={"LOC"}), said(annotated_labels={"PER"})) == []


def test_only_spans_of_labels_in_question_are_undecided() -> None:
    sentence = Sentence(("in", "New", "York"), by_source=named([said(YORK), said(PLACE)], ()))
    assert undecided_spans(sentence, {"LOC"}) == (YORK.span,)
    assert undecided_spans(sentence, {"ORG"}) == (PLACE.span,)
    assert undecided_spans(sentence, {}) == ()


def test_what_has_been_decided_is_not_undecided() -> None:
    assert undecided(said(YORK), said(), complete=True) == []
    assert undecided(said(YORK), said(), non_entities=(Span(1, 2),)) == []
    reviewed = Entity(1, 2, "ORG", source="reviewer")
    assert undecided(said(YORK), said(), entities=(reviewed,)) == []


ENTITIES = st.builds(
    lambda start, width, label: Entity(start, start + width, label),
    st.integers(0, 4),
    st.integers(1, 3),
    st.sampled_from("XY"),
)


@given(st.lists(st.lists(ENTITIES, max_size=3, unique=True), min_size=1, max_size=4))
def test_nothing_wins_that_nobody_said_and_winners_of_different_sources_do_not_overlap(everybody) -> None:
    found = winners(*(said(*entities) for entities in everybody))
    assert set(found) <= {entity for entities in everybody for entity in entities}
    assert bool(found) == any(everybody)
    for one, other in itertools.combinations(found, 2):
        together = any({one, other} <= set(entities) for entities in everybody)
        assert together or one.span == other.span or not one.overlaps(other)


@given(st.lists(ENTITIES, max_size=5, unique=True), st.integers(1, 4))
def test_sources_that_agree_are_all_right(entities, times) -> None:
    assert winners(*[said(*entities)] * times) == sorted(entities)


@given(st.lists(st.lists(ENTITIES, max_size=3, unique=True), min_size=2, max_size=4))
def test_a_span_is_undecided_if_and_only_if_no_label_of_it_has_a_majority(everybody) -> None:
    counts: dict[Entity, int] = {}
    for entities in everybody:
        for entity in entities:
            counts[entity] = counts.get(entity, 0) + 1
    agreed = {entity.span for entity, count in counts.items() if count > len(everybody) / 2}
    sentence = Sentence(("w",) * 8, by_source=named([said(*entities) for entities in everybody], ()))
    assert set(undecided_spans(sentence)) == {entity.span for entity in counts} - agreed
