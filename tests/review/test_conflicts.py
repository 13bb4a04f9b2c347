from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from handmade_audit import decided_items
from lacuner import Entity, Sentence, Span
from lacuner.review.conflicts import ConflictError, check_undo, find_conflict
from lacuner.review.decisions import Decision, apply_decisions
from lacuner.review.items import ReviewItem

WORDS = ("New", "York", "Times", "readers", "love", "Turin")
SENTENCE = Sentence(WORDS, (Entity(0, 2, "LOC"),))
MISSING = ReviewItem(0, 5, 6, "LOC", 0.9, "missing", "Turin", number=0)
LABEL = ReviewItem(0, 0, 2, "ORG", 0.9, "label", "New York", Entity(0, 2, "LOC"), number=1)
BOUNDARY = ReviewItem(0, 0, 3, "ORG", 0.9, "boundary", "New York Times", Entity(0, 2, "LOC"), number=2)


def test_an_overlap_is_a_conflict_unless_it_was_there_before() -> None:
    wide = Decision("accept", 1, 6, "LOC")
    assert find_conflict(SENTENCE, MISSING, wide).overlapping == (Entity(0, 2, "LOC"),)
    assert not find_conflict(SENTENCE, BOUNDARY, Decision("accept", 0, 3, "ORG"))
    nested = Sentence(WORDS, (Entity(0, 2, "LOC"), Entity(0, 3, "ORG")))
    assert not find_conflict(nested, LABEL, Decision("accept", 0, 2, "MISC"))
    assert not find_conflict(nested, LABEL, Decision("reject", 0, 2, "LOC"))


def test_entities_may_overlap_on_request_but_no_span_is_accepted_and_rejected_at_once() -> None:
    assert find_conflict(SENTENCE, MISSING, Decision("accept", 1, 6, "LOC")).can_keep_both
    accept, reject = Decision("accept", 5, 6, "LOC"), Decision("reject", 5, 6, "LOC")
    rejected = apply_decisions(SENTENCE, [(MISSING, reject)])
    conflict = find_conflict(rejected, MISSING, accept)
    assert conflict.rejected == (Span(5, 6),)
    assert not conflict.can_keep_both
    accepted = apply_decisions(SENTENCE, [(MISSING, accept)])
    assert find_conflict(accepted, MISSING, reject).contradicted == (Entity(5, 6, "LOC"),)


def overlapping_spans(sentence: Sentence) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    pairs = ((one, other) for one in sentence.entities for other in sentence.entities if one < other)
    return {
        ((one.start, one.end), (other.start, other.end))
        for one, other in pairs
        if one.start < other.end and other.start < one.end
    }


DECIDED = decided_items((MISSING, LABEL, BOUNDARY))


@given(st.lists(DECIDED, max_size=3), DECIDED)
def test_a_decision_without_a_conflict_changes_nothing_but_its_own_entity(earlier, last) -> None:
    before = apply_decisions(SENTENCE, earlier)
    if find_conflict(before, *last):
        return
    after = apply_decisions(before, [last])
    assert set(before.entities) - set(after.entities) <= {last[0].annotated}
    assert set(before.non_entities) <= set(after.non_entities)
    assert overlapping_spans(after) <= overlapping_spans(before)


def test_undoing_may_not_let_entities_overlap_that_did_not() -> None:
    apart = Sentence(WORDS, (Entity(2, 3, "ORG"),))
    both = Sentence(WORDS, (Entity(0, 3, "LOC"), Entity(2, 3, "ORG")))
    check_undo(both, apart, both)
    check_undo(apart, both, both)
    with pytest.raises(ConflictError, match=r"“New York Times” \(LOC\) and “Times” \(ORG\) overlap"):
        check_undo(apart, apart, both)


def test_undoing_in_a_long_sentence_takes_time_that_is_linear() -> None:
    def prepare(size: int) -> Callable[[], None]:
        entities = tuple(Entity(4 * n + m, 4 * n + 2 + m, "LOC") for n in range(size) for m in (0, 1))
        sentence = Sentence(("w",) * (4 * size), entities)
        return lambda: check_undo(sentence, sentence, sentence)

    assert_linear(prepare, 100)
