from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from lacuner.corpus import Entity, Span
from lacuner.corpus.overlaps import OverlapIndex

SPANS = st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda pair: Span(pair[0], pair[0] + pair[1]))


@given(st.lists(SPANS, max_size=8), SPANS)
def test_what_overlaps_is_what_comparing_each_with_each_says(spans, other):
    index = OverlapIndex(spans)
    expected = sorted(span for span in spans if span.overlaps(other))
    assert index.all(other) == expected
    assert index.any(other) == bool(expected)


def test_what_is_found_is_what_was_given():
    entity = Entity(0, 2, "PER", source="human")
    (found,) = OverlapIndex([entity, Entity(4, 5, "LOC")]).all(Span(1, 3))
    assert found is entity


def test_many_spans_are_compared_in_time_that_is_linear():
    def prepare(size):
        index = OverlapIndex(Span(3 * number, 3 * number + 2) for number in range(size))
        return lambda: [
            (index.any(Span(3 * n + 1, 3 * n + 2)), index.all(Span(3 * n + 1, 3 * n + 5))) for n in range(size)
        ]

    assert_linear(prepare, 200)
