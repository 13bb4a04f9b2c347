import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade_audit import decided_items
from lacuner import Entity, Sentence, Span
from lacuner.review.decisions import Decision, Patch, apply_decisions, patch_of
from lacuner.review.items import ReviewItem

WORDS = ("New", "York", "Times", "readers", "love", "Turin")
SENTENCE = Sentence(WORDS, (Entity(0, 2, "LOC", source="human"),))
MISSING = ReviewItem(0, 5, 6, "LOC", 0.9, "missing", "Turin", number=0)
LABEL = ReviewItem(0, 0, 2, "ORG", 0.9, "label", "New York", Entity(0, 2, "LOC"), number=1)
NO_ENTITY = ReviewItem(0, 0, 2, "O", 0.9, "label", "New York", Entity(0, 2, "LOC"), number=2)
BOUNDARY = ReviewItem(0, 0, 3, "ORG", 0.9, "boundary", "New York Times", Entity(0, 2, "LOC"), number=3)


def after(item: ReviewItem, action: str, **changes: object) -> Sentence:
    values = {"start": item.start, "end": item.end, "label": item.label} | changes
    return apply_decisions(SENTENCE, [(item, Decision.about(item, action, **values))])


@pytest.mark.parametrize(
    ("item", "action", "entities", "non_entities"),
    [
        (MISSING, "accept", [(0, 2, "LOC"), (5, 6, "LOC")], []),
        (MISSING, "reject", [(0, 2, "LOC")], [(5, 6)]),
        (LABEL, "accept", [(0, 2, "ORG")], []),
        (LABEL, "reject", [(0, 2, "LOC")], []),
        (NO_ENTITY, "accept", [], [(0, 2)]),
        (NO_ENTITY, "reject", [(0, 2, "LOC")], []),
        (BOUNDARY, "accept", [(0, 3, "ORG")], [(0, 2)]),
        (BOUNDARY, "reject", [(0, 2, "LOC")], [(0, 3)]),
        (BOUNDARY, "skip", [(0, 2, "LOC")], []),
    ],
)
def test_every_kind_of_finding_has_its_accept_and_reject(item, action, entities, non_entities) -> None:
    result = after(item, action)
    assert [(e.start, e.end, e.label) for e in result.entities] == entities
    assert [(s.start, s.end) for s in result.non_entities] == non_entities


@pytest.mark.parametrize("item", [LABEL, NO_ENTITY])
def test_what_is_confirmed_is_not_rejected_as_well(item: ReviewItem) -> None:
    decision = Decision.about(item, "reject", item.start, item.end, item.label)
    assert patch_of(item, decision) == Patch(added=(Entity(0, 2, "LOC"),))


def test_what_a_reviewer_decided_has_the_source_reviewer() -> None:
    assert after(MISSING, "accept").entities[1].source == "reviewer"
    assert after(MISSING, "accept").entities[0].source == "human"
    assert after(MISSING, "reject").non_entities[0].source == "reviewer"
    assert after(LABEL, "reject").entities[0].source == "reviewer"


def test_a_missing_entity_that_is_none_is_rejected_and_what_is_rejected_is_the_suggestion() -> None:
    assert after(MISSING, "accept", label="O").non_entities == (Span(5, 6),)
    assert after(MISSING, "reject", start=3).non_entities == (Span(5, 6),)


def test_fields_that_lacuner_does_not_know_stay_where_they_are() -> None:
    old = Entity(0, 2, "LOC", text="New York", score=0.4, source="model", extra={"id": "T1"})
    sentence = Sentence(WORDS, (old,), (Span(5, 6, "human", {"why": "a typo"}),), extra={"id": 7, "meta": {"page": 3}})
    reject, accept = Decision("reject", 0, 0, "X"), Decision("accept", 0, 3, "ORG")
    for item, decision, text in (
        (LABEL, reject, "New York"),
        (LABEL, Decision("accept", 0, 2, "ORG"), "New York"),
        (BOUNDARY, accept, None),
    ):
        result = apply_decisions(sentence, [(item, decision)])
        (entity,) = result.entities
        assert (entity.extra, entity.text, entity.source) == ({"id": "T1"}, text, "reviewer")
        assert entity.score is None  # it was that of a model
        assert result.extra == {"id": 7, "meta": {"page": 3}}
    again = apply_decisions(sentence, [(MISSING, reject)]).non_entities[0]
    assert (again.extra, again.source) == ({"why": "a typo"}, "reviewer")


def test_a_rejection_is_about_exactly_its_span() -> None:
    phrase = ReviewItem(0, 2, 5, "MISC", 0.9, "missing", "Times readers love", number=4)
    rejected = after(phrase, "reject")
    assert rejected.possible_labels(2, 5, ("LOC", "MISC")) == {"O"}
    for start, end in ((2, 3), (3, 5), (4, 6), (2, 6)):
        assert rejected.possible_labels(start, end, ("LOC", "MISC")) == {"O", "LOC", "MISC"}


def test_boundaries_and_labels_can_be_changed() -> None:
    assert after(MISSING, "accept", start=4, label="MISC").entities[1] == Entity(4, 6, "MISC")
    assert after(BOUNDARY, "accept", end=2, label="ORG").entities == (Entity(0, 2, "ORG"),)
    assert after(BOUNDARY, "accept", end=2, label="ORG").non_entities == ()


@given(st.lists(decided_items((MISSING, LABEL, NO_ENTITY, BOUNDARY)), max_size=6))
def test_whatever_is_decided_the_sentence_holds_no_contradiction(decisions) -> None:
    result = apply_decisions(SENTENCE, decisions)  # a sentence refuses spans that are annotated and rejected at once
    assert result.tokens == WORDS
