"""What a span head offers to methods and decoding."""

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple, Protocol

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lacuner.encoders.words import EncodedWords
from lacuner.parts import Part
from lacuner.supervision.spans import Spans

CHUNK = 32_768
"""Spans scored at once. More are scored chunk by chunk, and computed again for the backward pass instead of being kept."""
SEARCH_CHUNK = 2_048
"""Spans scored at once when no gradient is needed: so few that what is computed for them stays in the processor's cache."""


class SpanScores(NamedTuple):
    """For ``N`` spans: scores of ``L`` labels before the softmax, and the last hidden layer if it was asked for."""

    logits: Tensor  # (N, L)
    hidden: Tensor | None = None  # (N, h)


class SpanHeadConfig(Part, ABC):
    """Settings of a head that scores spans."""

    max_span_width: int | None = Field(None, ge=1, description="maximum span width in words; none: unlimited")
    outside_bias: FiniteFloat | Literal["prior"] = Field(
        0.0,
        description="constant added to the logit of O; prior: chosen so that an untrained model expects "
        "entities as rarely as training shows them",
    )

    @abstractmethod
    def build(self, size: int, labels: int) -> "SpanHead":
        """A new head for word vectors of ``size`` elements and this many labels, ``O`` included."""


class Scorer(Protocol):
    """Scores any spans of a batch; their hidden layers come with the scores if they are asked for."""

    def __call__(self, spans: Spans, hidden: bool = False) -> SpanScores: ...


class SpanHead(nn.Module, ABC):
    """Scores spans from word vectors.

    The linear map of a concatenation is split into maps of its parts: :meth:`project` runs once for every word, and
    :meth:`combine` for every span that is asked for. The table of all spans' features is never built.
    """

    hidden_size: int
    """Of the last hidden layer."""
    outside_bias: float = 0.0
    """Added to the logit of ``O``."""
    needs_only_ends: bool = False
    """Whether scores depend on a span's first and last word and ``spans.width`` only: see :meth:`project_ends`."""

    def project(self, words: EncodedWords) -> Any:
        """What every word contributes, as first and as last word of a span."""
        return self.project_ends(words.first, self.last_words(words))

    def last_words(self, words: EncodedWords) -> Tensor:
        """The vectors ``(B, n, d)`` that words have at the end of a span."""
        return words.last

    def project_ends(self, first: Tensor, last: Tensor) -> Any:
        """What words contribute that begin spans, ``(B, n, d)``, and others that end them, ``(B, m, d)``.

        ``spans.start`` of what is scored then counts the former, ``spans.end`` the latter. A head without it overrides
        :meth:`project`.
        """
        raise NotImplementedError

    @abstractmethod
    def combine(self, projected: Any, spans: Spans) -> SpanScores:
        """Scores and hidden layer of ``spans``; so few at a time that both fit into memory."""

    @abstractmethod
    def represent(self, projected: Any, spans: Spans) -> Tensor:
        """What :meth:`combine` is a function of, written out: ``(N, r)``. For a few spans at a time only."""

    def forward(self, projected: Any, spans: Spans, hidden: bool = False) -> SpanScores:
        """Scores of any number of spans.

        Args:
            projected: what :meth:`project` returned.
            spans: in any order.
            hidden: return the hidden layers, too, which take many times the memory of the scores.
        """
        size = CHUNK if torch.is_grad_enabled() else SEARCH_CHUNK
        if len(spans) <= size:
            return self._combine(projected, spans, hidden)
        parts = []
        for begin in range(0, len(spans), size):
            part = spans[begin : begin + size]
            if torch.is_grad_enabled():
                parts.append(SpanScores(*checkpoint(self._combine, projected, part, hidden, use_reentrant=False)))
            else:
                parts.append(self._combine(projected, part, hidden))
        layers = [part.hidden for part in parts if part.hidden is not None]
        return SpanScores(torch.cat([part.logits for part in parts]), torch.cat(layers) if hidden else None)

    def _combine(self, projected: Any, spans: Spans, hidden: bool) -> SpanScores:
        logits, layer = self.combine(projected, spans)
        if self.outside_bias:
            logits = torch.cat([logits[:, :1] + self.outside_bias, logits[:, 1:]], dim=-1)
        return SpanScores(logits, layer if hidden else None)

    @torch.no_grad()
    def score_no_grad(self, projected: Any, spans: Spans, hidden: bool = False) -> SpanScores:
        """Scores without gradient, and without dropout on single spans, for methods that look before they sample."""
        training = self.training
        self.eval()
        try:
            return self(projected, spans, hidden)  # type: ignore[no-any-return]
        finally:
            self.train(training)


def gather(words: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """``words[row, column]`` of a ``(B, n, d)`` tensor; as an ``index_select``, whose backward pass is the fast one."""
    return words.flatten(0, 1).index_select(0, row * words.shape[1] + column)
