"""A filter for spans that are certainly no entities, so that they need not be scored."""

import torch
from torch import Tensor, nn

from lacuner.supervision.spans import Spans, pair_words

_MAX_TABLE = 512
"""Sentences with more words have too many pairs of words to score them all."""


class SpanFilter(nn.Module):
    """Linear classifiers of word vectors: a score below 0 means that a span is no entity.

    Three classify words (does an entity begin, does one end, is the word part of one), the last classifies pairs of a first
    and a last word. They are fitted by :func:`lacuner.inference.span_filter.fit_span_filter` such that the model's non-nested
    predictions do not change. A classifier whose weights are all 0 keeps everything.

    Args:
        size: of a word vector.
    """

    weight: Tensor  # (3, d): first words, last words, words of entities
    bias: Tensor  # (3,)
    pair_weight: Tensor  # (3, d): of h_i, h_j, and h_i ⊙ h_j
    pair_bias: Tensor  # (1,)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(3, size))
        self.register_buffer("bias", torch.zeros(3))
        self.register_buffer("pair_weight", torch.zeros(3, size))
        self.register_buffer("pair_bias", torch.zeros(1))

    def spans(self, first: Tensor, last: Tensor, lengths: Tensor, max_width: int | None = None) -> Spans:
        """Spans that may be entities, ordered by row, start and end.

        Args:
            first: vectors ``(B, n, d)`` of words that begin spans.
            last: vectors of words that end spans.
            lengths: of the sentences: ``(B,)``.
            max_width: maximum width of a span.
        """
        real = torch.arange(first.shape[1], device=lengths.device) < lengths[:, None]
        starts, ends, inside = (real & (score >= 0) for score in self.word_scores(first, last))
        spans = pair_words(starts & inside, ends & inside, max_width, inside)
        if not self.pair_weight.any() or first.shape[1] > _MAX_TABLE:
            return spans
        scores = pair_scores(first, last, self.pair_weight)[spans.row, spans.start, spans.end - 1]
        return spans[scores + self.pair_bias >= 0]

    def word_scores(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of first words, last words and words of entities: ``(…, d) → (…)`` each."""
        if first is last:
            starts, ends, inside = nn.functional.linear(first, self.weight, self.bias).unbind(-1)
            return starts, ends, inside
        starts, inside = nn.functional.linear(first, self.weight[::2], self.bias[::2]).unbind(-1)
        return starts, last @ self.weight[1] + self.bias[1], inside


def pair_scores(first: Tensor, last: Tensor, weight: Tensor) -> Tensor:
    """``a · h_i + b · h_j + c · (h_i ⊙ h_j)`` of all pairs of words, as one matrix product: ``(B, n, d) → (B, n, n)``."""
    products = (first * weight[2]) @ last.transpose(1, 2)
    return products + (first @ weight[0])[:, :, None] + (last @ weight[1])[:, None, :]
