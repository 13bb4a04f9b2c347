"""The span model of Li et al. (2021), used by negative sampling and SCL-RAI."""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.words import EncodedWords
from lacuner.heads.scores import SpanHead, SpanHeadConfig, SpanScores, gather
from lacuner.supervision.spans import Spans


class ProductConfig(SpanHeadConfig):
    """``product``: ``h_i ⊕ h_j ⊕ (h_i - h_j) ⊕ (h_i ⊙ h_j)`` → tanh → softmax."""

    name: Literal["product"] = "product"
    hidden: int = Field(256, ge=1, description="size of the hidden layer")
    dropout: float = Field(0.4, ge=0, lt=1, description="dropout on the span representation")

    def build(self, size: int, labels: int) -> "ProductHead":
        return ProductHead(self, size, labels)


class _Projected(NamedTuple):
    first: Tensor  # (B, n, d)
    last: Tensor  # (B, n, d)
    left: Tensor  # (B, n, h)
    right: Tensor  # (B, n, h)


class ProductHead(SpanHead):
    """``softmax(V tanh(W s))`` with ``s = h_i ⊕ h_j ⊕ (h_i - h_j) ⊕ (h_i ⊙ h_j)``.

    ``W s = (W₁ + W₃) h_i + (W₂ - W₃) h_j + W₄ (h_i ⊙ h_j)``; only the last term is computed per span. Dropout applies to the
    words in the first two terms, and to the product in the third.
    """

    def __init__(self, config: ProductConfig, size: int, labels: int) -> None:
        super().__init__()
        self.hidden_size = config.hidden
        self.size = size
        self.layer = nn.Linear(4 * size, config.hidden)
        self.classifier = nn.Linear(config.hidden, labels)
        self.dropout = Dropout(config.dropout)

    def last_words(self, words: EncodedWords) -> Tensor:
        return words.first

    def project_ends(self, first: Tensor, last: Tensor) -> _Projected:
        w1, w2, w3, _ = torch.split(self.layer.weight, self.size, dim=1)  # (h, d) each
        left = nn.functional.linear(self.dropout(first), w1 + w3, self.layer.bias)
        right = nn.functional.linear(self.dropout(last), w2 - w3)
        return _Projected(first, last, left, right)

    def combine(self, projected: _Projected, spans: Spans) -> SpanScores:
        last = spans.end - 1
        product = gather(projected.first, spans.row, spans.start) * gather(projected.last, spans.row, last)  # (N, d)
        summed = gather(projected.left, spans.row, spans.start) + gather(projected.right, spans.row, last)  # (N, h)
        weight = self.layer.weight[:, 3 * self.size :]  # W₄
        hidden = torch.tanh(torch.addmm(summed, self.dropout(product), weight.T))
        return SpanScores(self.classifier(hidden), hidden)

    def represent(self, projected: _Projected, spans: Spans) -> Tensor:
        first, last = gather(projected.first, spans.row, spans.start), gather(projected.last, spans.row, spans.end - 1)
        return torch.cat([first, last, first - last, first * last], dim=-1)


PARTS = (ProductConfig,)
