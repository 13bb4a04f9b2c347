"""The span model of Top-Neg (Xu et al. 2023) and NRCES (Kang et al. 2022), with a learned width embedding."""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.heads.scores import SpanHead, SpanHeadConfig, SpanScores, gather
from lacuner.supervision.spans import Spans

_MAX_WIDTH = 64
"""Without a maximum width, this and all greater widths share one embedding."""


class WidthConfig(SpanHeadConfig):
    """``width``: ``h_i ⊕ h_j ⊕ f(j - i)`` → two ReLU layers → softmax."""

    name: Literal["width"] = "width"
    hidden: int = Field(150, ge=1, description="size of the two hidden layers")
    width_size: int = Field(150, ge=1, description="size of the width embedding")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the hidden layers")
    max_span_width: int | None = Field(8, ge=1, description="maximum span width in words; none: unlimited")

    def build(self, size: int, labels: int) -> "WidthHead":
        return WidthHead(self, size, labels)


class _Projected(NamedTuple):
    first: Tensor  # (B, n, d)
    last: Tensor  # (B, n, d)
    left: Tensor  # (B, n, h)
    right: Tensor  # (B, n, h)
    width: Tensor  # (widths, h)


class WidthHead(SpanHead):
    """Two feed-forward layers on ``h_i ⊕ h_j ⊕ f(j - i)``; ``h_i`` is a first subword, ``h_j`` a last one.

    ``W [h_i; h_j; f] = W₁ h_i + W₂ h_j + W₃ f``: three precomputed tables, summed for each span.
    """

    def __init__(self, config: WidthConfig, size: int, labels: int) -> None:
        super().__init__()
        self.hidden_size = config.hidden
        self.sizes = [size, size, config.width_size]
        self.widths = nn.Embedding(config.max_span_width or _MAX_WIDTH, config.width_size)
        self.layer = nn.Linear(sum(self.sizes), config.hidden)
        self.second = nn.Linear(config.hidden, config.hidden)
        self.classifier = nn.Linear(config.hidden, labels)
        self.dropout = Dropout(config.dropout)

    def project_ends(self, first: Tensor, last: Tensor) -> _Projected:
        w1, w2, w3 = torch.split(self.layer.weight, self.sizes, dim=1)
        return _Projected(
            first,
            last,
            nn.functional.linear(first, w1, self.layer.bias),
            nn.functional.linear(last, w2),
            nn.functional.linear(self.widths.weight, w3),
        )

    def combine(self, projected: _Projected, spans: Spans) -> SpanScores:
        last = spans.end - 1
        width = projected.width.index_select(0, self._width(spans))
        summed = gather(projected.left, spans.row, spans.start) + gather(projected.right, spans.row, last) + width
        hidden = self.dropout(torch.relu(summed))
        hidden = self.dropout(torch.relu(self.second(hidden)))
        return SpanScores(self.classifier(hidden), hidden)

    def represent(self, projected: _Projected, spans: Spans) -> Tensor:
        first = gather(projected.first, spans.row, spans.start)
        last = gather(projected.last, spans.row, spans.end - 1)
        return torch.cat([first, last, self.widths(self._width(spans))], dim=-1)

    def _width(self, spans: Spans) -> Tensor:
        return (spans.width - 1).clamp(max=self.widths.num_embeddings - 1)


PARTS = (WidthConfig,)
