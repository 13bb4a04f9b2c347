import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.models import span_filter
from lacuner.models.span_filter import SpanFilter, pair_scores
from lacuner.supervision.spans import enumerate_spans

SIZE = 3


def drawn_filter(seed: int) -> SpanFilter:
    generator = torch.Generator().manual_seed(seed)
    fitted = SpanFilter(SIZE)
    for buffer in fitted.buffers():
        buffer.copy_(torch.randn(buffer.shape, generator=generator))
    fitted.bias += 1
    fitted.pair_bias += 1
    return fitted


def triples(spans):
    return [*zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)]


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    st.none() | st.integers(1, 5),
    st.integers(0, 999),
    st.booleans(),
)
@settings(max_examples=60)
def test_a_span_is_kept_if_all_of_its_scores_are_at_least_0(lengths, max_width, seed, same):
    fitted = drawn_filter(seed)
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths), SIZE)
    first = torch.randn(shape, generator=generator)
    last = first if same else torch.randn(shape, generator=generator)

    def kept(row: int, start: int, end: int) -> bool:
        h, g = first[row], last[row, end - 1]
        pair = fitted.pair_weight[0] @ h[start] + fitted.pair_weight[1] @ g + fitted.pair_weight[2] @ (h[start] * g)
        scores = [
            fitted.weight[0] @ h[start] + fitted.bias[0],
            fitted.weight[1] @ g + fitted.bias[1],
            pair + fitted.pair_bias[0],
        ]
        within = all(fitted.weight[2] @ h[word] + fitted.bias[2] >= 0 for word in range(start, end))
        # the last word of a span is looked at as a first word, too, for whether it may be part of an entity
        return within and min(scores) >= 0

    expected = [span for span in triples(enumerate_spans(torch.tensor(lengths), max_width)) if kept(*span)]
    assert triples(fitted.spans(first, last, torch.tensor(lengths), max_width)) == expected


def test_a_new_filter_keeps_everything():
    words = torch.randn(2, 5, SIZE)
    lengths = torch.tensor([5, 3])
    assert triples(SpanFilter(SIZE).spans(words, words, lengths, 4)) == triples(enumerate_spans(lengths, 4))


def test_the_pairs_of_a_very_long_sentence_are_not_all_looked_at(monkeypatch):
    fitted = drawn_filter(1)
    fitted.weight.zero_()
    fitted.bias.zero_()
    words, lengths = torch.randn(1, 6, SIZE, generator=torch.Generator().manual_seed(2)), torch.tensor([6])
    assert 0 < len(fitted.spans(words, words, lengths)) < 21
    monkeypatch.setattr(span_filter, "_MAX_TABLE", 5)
    assert len(fitted.spans(words, words, lengths)) == 21


def test_pair_scores_of_words():
    first, last, weight = torch.randn(2, 4, SIZE), torch.randn(2, 4, SIZE), torch.randn(3, SIZE)
    scores = pair_scores(first, last, weight)
    for row, start, end in ((0, 1, 3), (1, 3, 0)):
        h, g = first[row, start], last[row, end]
        assert scores[row, start, end].item() == pytest.approx(
            float(weight[0] @ h + weight[1] @ g + weight[2] @ (h * g)), abs=1e-5
        )
