import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Entity
from lacuner.heads import SpanScores
from lacuner.heads.decoding import decode, find_entities, is_entity, search_spans, shift_outside, softmax_of_logits
from lacuner.supervision.spans import Spans

LABELS = ("O", "PER", "LOC")
LENGTHS = st.lists(st.integers(0, 7), max_size=4)


class Table:
    """Probabilities of every span's labels, given in place of a model's."""

    def __init__(self, lengths: list[int], seed: int, steps: int | None = None) -> None:
        longest = max(lengths, default=0)
        generator = torch.Generator().manual_seed(seed)
        self.values = torch.rand((len(lengths), longest, longest + 1, len(LABELS)), generator=generator)
        if steps is not None:  # so few different values that many spans score the same
            self.values = (self.values * steps).round() / steps
        self.lengths = torch.tensor(lengths, dtype=torch.long)
        self.asked: list[tuple[int, int, int]] = []

    def score(self, spans: Spans) -> SpanScores:
        self.asked += zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
        return SpanScores(self.values[spans.row, spans.start, spans.end], torch.empty(len(spans), 0))

    def find(self, **options: object) -> list[list[Entity]]:
        return find_entities(self.score, self.lengths, LABELS, probabilities=as_they_are, **options)

    def find_slowly(
        self, nested: bool, min_score: float, max_width: int | None
    ) -> list[list[tuple[int, int, str, float]]]:
        sentences: list[list[tuple[int, int, str, float]]] = []
        for row, length in enumerate(self.lengths.tolist()):
            candidates = []
            for start in range(length):
                for end in range(start + 1, length + 1):
                    values = self.values[row, start, end].tolist()
                    best = max(values)
                    label = LABELS[values.index(best)]
                    if label != "O" and best >= min_score and (max_width is None or end - start <= max_width):
                        candidates.append((-best, start, end, label))
            taken: list[tuple[int, int, str, float]] = []
            for minus_best, start, end, label in sorted(candidates):
                if nested or all(end <= other[0] or other[1] <= start for other in taken):
                    taken.append((start, end, label, -minus_best))
            sentences.append(sorted(taken))
        return sentences


def as_they_are(scores: SpanScores) -> Tensor:
    return scores.logits


def described(sentences: list[list[Entity]]) -> list[list[tuple[int, int, str, float]]]:
    return [[(entity.start, entity.end, entity.label, entity.score) for entity in found] for found in sentences]


@settings(deadline=None)
@given(
    LENGTHS,
    st.integers(0, 10**6),
    st.sampled_from([None, 2, 4]),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 0.75]),
    st.sampled_from([None, 1, 3]),
)
def test_decoding_is_a_greedy_loop(
    lengths: list[int], seed: int, steps: int | None, nested: bool, min_score: float, max_width: int | None
) -> None:
    table = Table(lengths, seed, steps)
    found = table.find(nested=nested, min_score=min_score, max_width=max_width)
    assert described(found) == table.find_slowly(nested, min_score, max_width)


@settings(deadline=None)
@given(LENGTHS, st.integers(0, 10**6))
def test_flat_entities_never_overlap(lengths: list[int], seed: int) -> None:
    for entities in Table(lengths, seed).find():
        assert all(one.end <= other.start for one, other in pairwise(entities))


@settings(deadline=None)
@given(LENGTHS, st.integers(0, 10**6))
def test_nested_keeps_every_span_whose_best_label_is_not_o(lengths: list[int], seed: int) -> None:
    table = Table(lengths, seed)
    expected = sum(
        int(table.values[row, start, end].argmax()) != 0
        for row, length in enumerate(lengths)
        for start in range(length)
        for end in range(start + 1, length + 1)
    )
    assert sum(map(len, table.find(nested=True))) == expected


def one_span_at_a_time(**best: float) -> Table:
    """A sentence of three words; ``best`` gives the score of PER of some spans, all others are O."""
    table = Table([3], 0)
    table.values[:] = torch.tensor([1.0, 0.0, 0.0])
    for span, value in best.items():
        table.values[0, int(span[1]), int(span[2])] = torch.tensor([0.0, value, 0.0])
    return table


def test_the_better_of_two_overlapping_spans_is_kept() -> None:
    assert described(one_span_at_a_time(s02=0.5, s13=0.75).find()) == [[(1, 3, "PER", 0.75)]]
    assert described(one_span_at_a_time(s02=0.75, s13=0.5).find()) == [[(0, 2, "PER", 0.75)]]


def test_a_span_that_was_dropped_drops_no_others() -> None:
    found = one_span_at_a_time(s01=0.5, s02=0.625, s13=0.75).find()
    assert described(found) == [[(0, 1, "PER", 0.5), (1, 3, "PER", 0.75)]]


def test_an_entity_as_probable_as_the_minimum_is_kept() -> None:
    table = one_span_at_a_time(s01=0.5, s12=0.75)
    assert described(table.find(min_score=0.5)) == [[(0, 1, "PER", 0.5), (1, 2, "PER", 0.75)]]
    assert described(table.find(min_score=0.51)) == [[(1, 2, "PER", 0.75)]]
    assert table.find(min_score=0.9) == [[]]


def test_entities_say_that_a_model_found_them() -> None:
    assert [entity.source for entity in one_span_at_a_time(s01=0.5).find()[0]] == ["model"]


def test_probabilities_are_a_softmax_unless_something_else_decides() -> None:
    table = one_span_at_a_time(s01=3.0)
    (entity,) = find_entities(table.score, table.lengths, LABELS)[0]
    expected = torch.tensor([0.0, 3.0, 0.0]).softmax(0)[1].item()
    assert entity.score == pytest.approx(expected)


@pytest.mark.parametrize("chunk", [1, 5, 28])
def test_spans_are_decoded_in_chunks_without_a_trace(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table([7, 0, 3, 5], 1)
    expected = described(table.find())
    monkeypatch.setattr("lacuner.heads.decoding.SEARCH_CHUNK", chunk)
    again = Table([7, 0, 3, 5], 1)
    assert described(again.find()) == expected
    assert again.asked == table.asked
    assert len(set(again.asked)) == len(again.asked) == 28 + 6 + 15


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_where_there_are_no_words_there_are_no_entities(lengths: list[int]) -> None:
    table = Table(lengths, 0)
    assert table.find() == [[] for _ in lengths]
    assert table.asked == []


@settings(deadline=None)
@given(
    LENGTHS,
    st.integers(0, 10**6),
    st.sampled_from([None, 4]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_a_search_returns_what_is_to_be_kept_and_its_probabilities(
    lengths: list[int], seed: int, steps: int | None, max_width: int | None, least: float
) -> None:
    table = Table(lengths, seed, steps)
    spans, found = search_spans(
        table.score, table.lengths, lambda values: values[:, 1] >= least, max_width, probabilities=as_they_are
    )
    expected = [
        (row, start, end)
        for row, length in enumerate(lengths)
        for start in range(length)
        for end in range(start + 1, length + 1)
        if (max_width is None or end - start <= max_width) and table.values[row, start, end, 1] >= least
    ]
    assert list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)) == expected
    assert len(found) == len(expected)
    for place, values in zip(expected, found, strict=True):
        assert values.equal(table.values[place])


def test_a_search_asks_for_a_softmax_unless_told_otherwise() -> None:
    table = Table([3], 0)
    spans, found = search_spans(table.score, table.lengths, lambda values: values[:, 0] >= 0)
    torch.testing.assert_close(found, table.values[spans.row, spans.start, spans.end].softmax(-1))


@settings(deadline=None)
@given(LENGTHS, st.integers(0, 10**6), st.sampled_from([None, 2, 4]), st.booleans(), st.sampled_from([0.0, 0.5, 0.75]))
def test_decoding_all_spans_is_finding_entities(
    lengths: list[int], seed: int, steps: int | None, nested: bool, min_score: float
) -> None:
    table = Table(lengths, seed, steps)
    spans, found = search_spans(table.score, table.lengths, lambda values: values[:, 0] >= 0, None, as_they_are)
    shuffled = torch.randperm(len(spans), generator=torch.Generator().manual_seed(seed))
    decoded = decode(spans[shuffled], found[shuffled], table.lengths, LABELS, nested, min_score)
    assert described(decoded) == table.find_slowly(nested, min_score, None)


def test_an_entity_is_what_is_most_likely_not_outside() -> None:
    found = is_entity(torch.tensor([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.4, 0.2, 0.4], [0.1, 0.2, 0.7]]))
    assert found.tolist() == [False, True, False, True]


@settings(deadline=None)
@given(st.integers(0, 9), st.integers(1, 5), st.floats(-5, 5), st.integers(0, 10**6))
def test_a_threshold_is_added_to_the_logit_of_o(spans: int, labels: int, threshold: float, seed: int) -> None:
    logits = 3 * torch.randn(spans, labels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    shifted = shift_outside(softmax_of_logits(SpanScores(logits, logits)), threshold)
    assert shifted.shape == (spans, labels)
    for row in range(spans):
        values = logits[row].tolist()
        values[0] += threshold
        powers = [math.exp(value) for value in values]
        expected = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
        torch.testing.assert_close(shifted[row], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threshold", [-1.5, 0.0, 2.0])
def test_a_threshold_leaves_a_sum_below_one_as_it_is(threshold: float) -> None:
    values = torch.tensor([[0.5, 0.2, 0.1], [0.0, 0.4, 0.2], [0.3, 0.0, 0.0]], dtype=torch.float64)
    shifted = shift_outside(values, threshold)
    torch.testing.assert_close(shifted.sum(-1), values.sum(-1))
    torch.testing.assert_close(shifted[0, 1] / shifted[0, 2], values[0, 1] / values[0, 2])
    weight = values[0, 0] / values[0, 1] * math.exp(threshold)
    torch.testing.assert_close(shifted[0, 0] / shifted[0, 1], weight)


def test_a_higher_threshold_leaves_fewer_entities() -> None:
    table = Table([7, 5, 6], 3)
    _, values = search_spans(table.score, table.lengths, lambda values: values[:, 0] >= 0)
    counts = [int(is_entity(shift_outside(values, threshold)).sum()) for threshold in (-3.0, -0.3, 0.0, 0.3, 3.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(values) > counts[2] > counts[3] > counts[4] == 0
