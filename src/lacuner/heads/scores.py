"""What a span head offers to methods and decoding."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lacuner.encoders.words import EncodedWords
from lacuner.supervision.spans import Spans

CHUNK = 32_768
"""Spans scored at once. More are scored chunk by chunk, and computed again for the backward pass instead of being kept."""
SEARCH_CHUNK = 2_048
"""Spans scored at once when no gradient is needed: so few that what is computed for them stays in the processor's cache."""


class SpanScores(NamedTuple):
    """For ``N`` spans: scores of ``L`` labels before the softmax, and the last hidden layer."""

    logits: Tensor  # (N, L)
    hidden: Tensor  # (N, h)


class SpanHead(nn.Module, ABC):
    """Scores spans from word vectors.

    The linear map of a concatenation is split into maps of its parts: :meth:`project` runs once for every word, and
    :meth:`combine` for every span that is asked for. The table of all spans' features is never built.
    """

    @abstractmethod
    def project(self, words: EncodedWords) -> Any:
        """What every word contributes, as first and as last word of a span."""

    @abstractmethod
    def combine(self, projected: Any, spans: Spans) -> SpanScores:
        """Scores of ``spans``."""

    @abstractmethod
    def represent(self, projected: Any, spans: Spans) -> Tensor:
        """What :meth:`combine` is a function of, written out: ``(N, r)``. For a few spans at a time only."""

    def forward(self, projected: Any, spans: Spans) -> SpanScores:
        size = CHUNK if torch.is_grad_enabled() else SEARCH_CHUNK
        if len(spans) <= size:
            return self.combine(projected, spans)
        parts = []
        for begin in range(0, len(spans), size):
            part = spans[begin : begin + size]
            if torch.is_grad_enabled():
                parts.append(SpanScores(*checkpoint(self.combine, projected, part, use_reentrant=False)))
            else:
                parts.append(self.combine(projected, part))
        return SpanScores(torch.cat([part.logits for part in parts]), torch.cat([part.hidden for part in parts]))

    @torch.no_grad()
    def peek(self, projected: Any, spans: Spans) -> SpanScores:
        """Scores without gradient, and without dropout on single spans: a look that teaches nothing."""
        training = self.training
        self.eval()
        try:
            return self(projected, spans)  # type: ignore[no-any-return]
        finally:
            self.train(training)


def pick(words: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """``words[row, column]`` of a ``(B, n, d)`` tensor; as an ``index_select``, whose backward pass is the fast one."""
    return words.flatten(0, 1).index_select(0, row * words.shape[1] + column)
