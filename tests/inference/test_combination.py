from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity
from lacuner.inference.combination import combine


def match(start: int, end: int, label: str = "LOC") -> Entity:
    return Entity(start, end, label, source="dictionary")


def guess(start: int, end: int, label: str = "LOC", score: float = 0.7) -> Entity:
    return Entity(start, end, label, score=score, source="model")


@st.composite
def apart(draw: st.DrawFn, source: str) -> list[Entity]:
    """Entities that do not overlap."""
    borders = sorted(draw(st.sets(st.integers(0, 9), max_size=8)))
    labels = draw(st.lists(st.sampled_from(["PER", "LOC"]), min_size=5, max_size=5))
    score = 0.7 if source == "model" else None
    pairs = zip(borders[::2], borders[1::2], labels, strict=False)
    return [Entity(start, end, label, score=score, source=source) for start, end, label in pairs]


def test_the_list_decides_where_it_knows_a_name_and_the_model_about_the_rest() -> None:
    found = combine([match(0, 1), match(4, 6)], [guess(0, 1, "PER"), guess(2, 3), guess(5, 7)])
    assert found == [match(0, 1), guess(2, 3), match(4, 6)]
    assert [entity.source for entity in found] == ["dictionary", "model", "dictionary"]


def test_a_longer_entity_of_the_model_holds_shorter_names() -> None:
    assert combine([match(3, 4), match(5, 6)], [guess(2, 6, "ORG")]) == [guess(2, 6, "ORG")]


def test_a_longer_entity_that_cuts_a_name_in_two_gives_way() -> None:
    assert combine([match(1, 2), match(3, 5)], [guess(0, 4, "ORG")]) == [match(1, 2), match(3, 5)]


def test_a_shorter_entity_of_the_model_gives_way() -> None:
    assert combine([match(0, 3)], [guess(0, 2), guess(2, 3)]) == [match(0, 3)]


@pytest.mark.parametrize("nested", [False, True])
def test_a_name_that_both_find_keeps_the_score_of_the_model_others_have_none(nested: bool) -> None:
    found = combine([match(0, 1), match(2, 3), match(4, 5)], [guess(0, 1, score=0.6), guess(2, 3, "PER")], nested)
    assert [entity.score for entity in found] == [0.6, None, None]
    assert {entity.source for entity in found} == {"dictionary"}


def test_nested_entities_may_overlap_names_but_a_span_has_one_label() -> None:
    found = combine([match(0, 1), match(3, 4)], [guess(0, 1, "PER"), guess(0, 3), guess(2, 4)], nested=True)
    assert found == [match(0, 1), guess(0, 3), guess(2, 4), match(3, 4)]


@given(apart("dictionary"), apart("model"))
def test_what_is_combined_does_not_overlap_and_no_name_is_lost_without_a_longer_entity(
    matches: list[Entity], found: list[Entity]
) -> None:
    both = combine(matches, found)
    assert both == sorted(both)
    assert not any(one.overlaps(other) for one, other in combinations(both, 2))
    assert {*both} <= {*matches, *found}
    for name in {*matches} - {*both}:
        assert any(e.source == "model" and e.start <= name.start and name.end <= e.end for e in both)
    for entity in found:
        if not any(entity.overlaps(name) for name in matches):
            assert entity in both


@given(apart("model"))
def test_one_alone_stays_as_it_is(found: list[Entity]) -> None:
    assert combine([], found) == combine(found, []) == found
