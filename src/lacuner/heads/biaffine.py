"""The biaffine span model of Yu et al. (2020), *Named Entity Recognition as Dependency Parsing*."""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.heads.scores import SpanHead, SpanHeadConfig, SpanScores, gather
from lacuner.supervision.spans import Spans


class BiaffineConfig(SpanHeadConfig):
    """``biaffine``: ``a_iᵀ U b_j + W (a_i ⊕ b_j)`` with one small layer for first and one for last words."""

    name: Literal["biaffine"] = "biaffine"
    hidden: int = Field(150, ge=1, description="size of the two hidden layers (for first and last words)")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the two hidden layers")

    def build(self, size: int, labels: int) -> "BiaffineHead":
        return BiaffineHead(self, size, labels)


class _Projected(NamedTuple):
    start: Tensor  # (B, n, h), a
    end: Tensor  # (B, n, h), b
    form: Tensor  # (B, n, L * (h + 1)): U b_j + w_a, and w_b b_j + bias


class BiaffineHead(SpanHead):
    """Biaffine span scorer: per-word terms are computed once per word, leaving ``L`` dot products per span.

    Its hidden layer, for methods that compare spans, is ``a_i ⊕ b_j``.
    """

    def __init__(self, config: BiaffineConfig, size: int, labels: int) -> None:
        super().__init__()
        self.hidden_size = 2 * config.hidden
        self.labels = labels
        self.begin = nn.Linear(size, config.hidden)
        self.end = nn.Linear(size, config.hidden)
        # For each label, a matrix of shape (h + 1, h + 1): U, with w_a, w_b and the bias in its last column, row and corner.
        self.form = nn.Linear(config.hidden, labels * (config.hidden + 1))
        nn.init.normal_(self.form.weight, std=config.hidden**-0.5 / 4)
        nn.init.zeros_(self.form.bias)
        self.dropout = Dropout(config.dropout)

    def project_ends(self, first: Tensor, last: Tensor) -> _Projected:
        start = self.dropout(torch.relu(self.begin(first)))
        end = self.dropout(torch.relu(self.end(last)))
        return _Projected(start, end, self.form(end))

    def combine(self, projected: _Projected, spans: Spans) -> SpanScores:
        hidden = self.represent(projected, spans)  # (N, 2 * h)
        start = hidden[:, : hidden.shape[1] // 2]  # (N, h)
        form = gather(projected.form, spans.row, spans.end - 1)
        form = form.view(len(spans), self.labels, start.shape[1] + 1)  # (N, L, h + 1)
        logits = (form[..., :-1] @ start[..., None]).squeeze(-1) + form[..., -1]
        return SpanScores(logits, hidden)

    def represent(self, projected: _Projected, spans: Spans) -> Tensor:
        start = gather(projected.start, spans.row, spans.start)
        return torch.cat([start, gather(projected.end, spans.row, spans.end - 1)], dim=-1)


PARTS = (BiaffineConfig,)
