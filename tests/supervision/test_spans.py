from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.methods.full import summed_cross_entropy
from lacuner.supervision.spans import Spans, build_targets, enumerate_spans, pair_words
from lacuner.supervision.tags import TokenSupervision

LABELS = ("O", "PER", "LOC", "ORG")


def triples(spans: Spans) -> list[tuple[int, int, int]]:
    return list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))


def names(flags: torch.Tensor) -> frozenset[str]:
    return frozenset(label for label, flag in zip(LABELS, flags.tolist(), strict=True) if flag)


@st.composite
def annotated_sentences(draw: st.DrawFn) -> Sentence:
    length = draw(st.integers(0, 7))
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    some = st.lists(st.sampled_from(every), max_size=5) if every else st.just([])
    places = draw(some)
    entities = [Entity(start, end, draw(st.sampled_from(LABELS[1:]))) for start, end in places]
    rejected = [Span(start, end) for start, end in draw(some) if (start, end) not in places]
    return Sentence(
        tokens=("w",) * length,
        entities=tuple(entities),
        non_entities=tuple(rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.none() | st.frozensets(st.sampled_from(LABELS[1:]))),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1))) if length else frozenset(),
    )


@given(st.lists(st.integers(0, 8), max_size=4), st.none() | st.integers(1, 9))
def test_spans_are_enumerated_by_row_start_and_end(lengths: list[int], max_width: int | None) -> None:
    expected = [
        (row, start, end)
        for row, length in enumerate(lengths)
        for start in range(length)
        for end in range(start + 1, length + 1)
        if max_width is None or end - start <= max_width
    ]
    assert triples(enumerate_spans(torch.tensor(lengths, dtype=torch.long), max_width)) == expected


@given(st.lists(annotated_sentences(), max_size=3), st.sampled_from([None, 1, 2, 3, 7, 20]))
def test_partition_says_of_every_span_what_possible_labels_says(
    sentences: Sequence[Sentence], max_width: int | None
) -> None:
    positives, negatives, unknown = {}, {}, []
    for row, sentence in enumerate(sentences):
        for start in range(len(sentence)):
            for end in range(start + 1, len(sentence) + 1):
                if max_width is not None and end - start > max_width:
                    continue
                possible = sentence.possible_labels(start, end, LABELS[1:])
                if "O" not in possible:
                    positives[row, start, end] = possible
                elif possible == frozenset(LABELS):
                    unknown.append((row, start, end))
                else:
                    negatives[row, start, end] = possible

    targets = build_targets(sentences, LABELS)
    parts = targets.partition(max_width)
    found_positives = triples(parts.positives)
    assert len(found_positives) == len(set(found_positives))
    assert dict(zip(found_positives, map(names, parts.possible), strict=True)) == positives
    may_be = targets.negative[parts.negatives.row]
    may_be[: parts.rejected, 1:] = False
    found_negatives = triples(parts.negatives)
    assert len(found_negatives) == len(set(found_negatives))
    assert dict(zip(found_negatives, map(names, may_be), strict=True)) == negatives
    assert triples(parts.unknown) == unknown


def test_a_span_with_two_labels_may_be_either() -> None:
    sentence = Sentence(("Ada",), (Entity(0, 1, "PER"), Entity(0, 1, "ORG")))
    parts = build_targets([sentence], LABELS).partition()
    assert triples(parts.positives) == [(0, 0, 1)]
    assert names(parts.possible[0]) == {"PER", "ORG"}


def test_a_span_that_two_reviewers_rejected_counts_once() -> None:
    sentence = Sentence(("a", "b"), non_entities=(Span(0, 1, "one"), Span(0, 1, "other")))
    parts = build_targets([sentence], LABELS).partition()
    assert triples(parts.negatives) == [(0, 0, 1)]
    assert parts.rejected == 1


def test_an_annotated_or_rejected_span_beyond_the_width_is_left_out() -> None:
    sentence = Sentence(("a",) * 5, (Entity(0, 4, "PER"),), non_entities=(Span(1, 4), Span(2, 3)))
    parts = build_targets([sentence], LABELS).partition(max_width=2)
    assert triples(parts.positives) == []
    assert triples(parts.negatives) == [(0, 2, 3)]
    assert parts.rejected == 1


def test_where_no_label_was_looked_for_nothing_is_known() -> None:
    sentence = Sentence(("a", "b"), complete=True, annotated_labels=frozenset())
    parts = build_targets([sentence], LABELS).partition()
    assert len(parts.negatives) == 0
    assert len(parts.unknown) == 3


def test_an_entity_whose_label_is_not_listed_is_an_error() -> None:
    with pytest.raises(KeyError, match="ANIMAL"):
        build_targets([Sentence(("cat",), (Entity(0, 1, "ANIMAL"),))], LABELS)


def test_a_batch_without_sentences_has_no_spans() -> None:
    parts = build_targets([], LABELS).partition()
    assert (len(parts.positives), len(parts.negatives), len(parts.unknown)) == (0, 0, 0)


def test_spans_can_be_sliced_masked_and_joined() -> None:
    spans = Spans.of([(0, 0, 1), (0, 1, 3), (1, 0, 2)])
    assert triples(spans[1:]) == [(0, 1, 3), (1, 0, 2)]
    assert triples(spans[torch.tensor([True, False, True])]) == [(0, 0, 1), (1, 0, 2)]
    assert triples(Spans.concatenate([spans[2:], spans[:1]])) == [(1, 0, 2), (0, 0, 1)]
    assert len(Spans.of([])) == 0


@pytest.mark.parametrize("max_width", [1, 8, 299, 300, 301, None])
def test_long_sentences_have_the_spans_that_short_ones_have(max_width: int | None) -> None:
    expected = [
        (0, start, end) for start in range(300) for end in range(start + 1, min(300, start + (max_width or 300)) + 1)
    ]
    assert triples(enumerate_spans(torch.tensor([300]), max_width)) == expected


def test_with_a_width_limit_nothing_grows_with_the_square_of_the_length(small_tensors: Any) -> None:
    length, width = 5_000, 8
    entities = tuple(Entity(start, start + 2, "PER") for start in range(0, length, 20))
    rejected = (Span(5, 6), Span(7, 7 + width), Span(10, length))
    sentences = [Sentence(("w",) * length, entities, rejected, unknown_tokens=frozenset({9})), Sentence(("w",) * 3)]
    with small_tensors(2 * length * width + 1):
        spans = enumerate_spans(torch.tensor([length, 3]), width)
        parts = build_targets(sentences, LABELS).partition(width)
    assert len(spans) == width * length - width * (width - 1) // 2 + 6
    assert (len(parts.positives), len(parts.negatives)) == (250, 2)
    assert len(parts.unknown) == len(spans) - 252


def test_without_a_limit_the_table_is_as_large_as_the_square_and_no_larger(small_tensors: Any) -> None:
    """Models never see more than a passage of a text; whoever calls this with more gets what was asked for."""
    sentence = Sentence(("w",) * 256, (Entity(0, 256, "PER"),))
    with small_tensors(256 * 257):
        parts = build_targets([sentence], LABELS).partition()
    assert len(parts.unknown) == 256 * 257 // 2 - 1


def test_an_undecided_span_may_be_anything_whether_it_is_annotated_or_not() -> None:
    sentence = Sentence(("a", "b", "c"), (Entity(0, 1, "PER"), Entity(1, 2, "LOC")))
    known = [TokenSupervision(undecided=(Span(0, 1), Span(0, 3))), None]
    targets = build_targets([sentence, sentence], LABELS, known)
    options = dict(zip(triples(targets.positives), map(names, targets.possible), strict=True))
    everything = frozenset(LABELS)
    assert options == {
        (0, 0, 1): everything,
        (0, 1, 2): {"LOC"},
        (0, 0, 3): everything,
        (1, 0, 1): {"PER"},
        (1, 1, 2): {"LOC"},
    }
    assert (0, 0, 3) not in triples(targets.partition().unknown), "it is never drawn as a negative"
    costs = summed_cross_entropy(torch.randn(5, len(LABELS)), targets.possible)
    assert costs[targets.possible.all(1)].abs().max() < 1e-6, "and whatever a model says of it costs nothing"


@given(st.data())
def test_paired_words_are_the_spans_that_begin_and_end_with_them_and_have_nothing_else_inside(data):
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    max_width = data.draw(st.none() | st.integers(1, 7))
    longest = max(lengths)
    inside = torch.arange(longest) < torch.tensor(lengths)[:, None]
    rows = st.lists(st.booleans(), min_size=longest * len(lengths), max_size=longest * len(lengths))
    starts, ends, inside = (
        inside & torch.tensor(data.draw(rows), dtype=torch.bool).view(inside.shape) for _ in range(3)
    )
    expected = [
        (row, start, end)
        for row, start, end in triples(enumerate_spans(torch.tensor(lengths), max_width))
        if starts[row, start] and ends[row, end - 1] and inside[row, start:end].all()
    ]
    assert triples(pair_words(starts, ends, max_width, inside)) == expected


def test_spans_among_words_that_are_left_keep_their_width():
    few = Spans(torch.zeros(2, dtype=torch.long), torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([7, 1]))
    assert few.width.tolist() == [7, 1]
    assert few[1:].width.tolist() == [1]
    assert Spans.of([(0, 2, 5)]).width.tolist() == [3]
