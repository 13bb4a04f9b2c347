"""Interface of span heads to methods and decoding."""

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
"""Spans scored at once in training. More are scored in chunks, and recomputed for the backward pass instead of stored."""
SEARCH_CHUNK = 2_048
"""Spans scored at once without gradient: few enough for intermediate results to fit into the processor's cache."""


class SpanScores(NamedTuple):
    """Logits of ``L`` labels for ``N`` spans, and the last hidden layer if requested."""

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
        """Build a new head for word vectors of ``size`` elements and this many labels, including ``O``."""


class Scorer(Protocol):
    """Scores any spans of a batch, and returns their hidden layers if requested."""

    def __call__(self, spans: Spans, hidden: bool = False) -> SpanScores: ...


class SpanHead(nn.Module, ABC):
    """Scores spans from word vectors.

    A linear map of a concatenation is split into maps of its parts: :meth:`project` runs once per word, :meth:`combine` once
    per span. The feature matrix of all spans is never built.
    """

    hidden_size: int
    """Size of the last hidden layer."""
    outside_bias: float = 0.0
    """Added to the logit of ``O``."""

    @property
    def needs_only_ends(self) -> bool:
        """Whether scores depend only on a span's first and last word and ``spans.width``: see :meth:`project_ends`."""
        return type(self).project_ends is not SpanHead.project_ends

    def project(self, words: EncodedWords) -> Any:
        """Project each word as the first and as the last word of a span."""
        return self.project_ends(words.first, self.last_words(words))

    def last_words(self, words: EncodedWords) -> Tensor:
        """The vectors ``(B, n, d)`` used for last words of spans."""
        return words.last

    def project_ends(self, first: Tensor, last: Tensor) -> Any:
        """Project first words ``(B, n, d)`` and last words ``(B, m, d)`` of spans separately.

        ``spans.start`` then indexes the former, ``spans.end - 1`` the latter. A head without this method overrides
        :meth:`project`.
        """
        raise NotImplementedError

    @abstractmethod
    def combine(self, projected: Any, spans: Spans) -> SpanScores:
        """Scores and hidden layers of ``spans``, few enough that both fit into memory."""

    @abstractmethod
    def represent(self, projected: Any, spans: Spans) -> Tensor:
        """The explicit span representation underlying :meth:`combine`: ``(N, r)``. For few spans at a time."""

    def forward(self, projected: Any, spans: Spans, hidden: bool = False) -> SpanScores:
        """Score any number of spans, in chunks.

        Args:
            projected: result of :meth:`project`.
            spans: in any order.
            hidden: also return hidden layers, which take many times the memory of the scores.
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
        """Scores without gradient or per-span dropout, for methods that score before they sample."""
        training = self.training
        self.eval()
        try:
            return self(projected, spans, hidden)  # type: ignore[no-any-return]
        finally:
            self.train(training)


def gather(words: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """``words[row, column]`` of a ``(B, n, d)`` tensor, as an ``index_select``, whose backward pass is faster."""
    return words.flatten(0, 1).index_select(0, row * words.shape[1] + column)
