"""Top-Neg: train on the negatives that are most similar to entities.

Xu, Bing, Lu: *Better Sampling of Negatives for Distantly Supervised Named Entity Recognition*, Findings of ACL 2023.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from lacuner.heads import WidthConfig
from lacuner.heads.scores import SEARCH_CHUNK, Scorer
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Negatives, SamplingContext
from lacuner.supervision.spans import Spans


class TopSimilar(Negatives):
    """``top-similar``: the fraction ``r`` of a batch's unknown spans with the highest mean cosine to its entities (§2.2).

    ``take=bottom`` is the paper's counter-test: the fraction with the smallest.

    Unlabeled entities are a few among very many spans; close to entities lie, above all, spans that overlap one or
    share words with one, and those teach most. The similarity only selects: it carries no gradient.
    """

    name: Literal["top-similar"] = "top-similar"
    fraction: float = Field(0.05, gt=0, le=1, description="r: fraction of a batch's unknown spans to use")
    take: Literal["top", "bottom"] = Field(
        "top", description="use the most similar spans (top), or the least similar (bottom)"
    )
    similarity: Literal["hidden", "representation"] = Field(
        "hidden",
        description="what to compare: hidden layers (hidden, as released), or span representations "
        "(representation, as printed)",
    )

    @torch.no_grad()
    def sample(self, context: SamplingContext) -> Tensor:
        count = _part_of(self.fraction, len(context.unknown))
        if not len(context.positives):  # nothing to be similar to
            order = torch.randperm(len(context.unknown), generator=context.step.generator)
            return order[:count].to(context.unknown.row.device)
        compared = self._compared(context)
        similar = mean_similarity(compared, context.positives, context.unknown)
        return similar.topk(count, largest=self.take == "top").indices

    def expected(self, unknown: Tensor, lengths: Tensor) -> Tensor:
        return unknown * self.fraction

    def _compared(self, context: SamplingContext) -> Callable[[Spans], Tensor]:
        return context.represent if self.similarity == "representation" else partial(_hidden_layers, context.score)


def _hidden_layers(score: Scorer, spans: Spans) -> Tensor:
    hidden = score(spans, hidden=True).hidden
    assert hidden is not None
    return hidden


def mean_similarity(vectors: Callable[[Spans], Tensor], positives: Spans, spans: Spans) -> Tensor:
    """``Φ`` of every span: its mean cosine to the positives.

    Computed as a dot product with the mean of the normalized positives, which avoids a pairwise matrix.
    """
    center = normalize(vectors(positives), dim=-1).mean(0)  # (h,)
    chunks = [spans[begin : begin + SEARCH_CHUNK] for begin in range(0, len(spans), SEARCH_CHUNK)]
    return torch.cat([normalize(vectors(chunk), dim=-1) @ center for chunk in chunks] or [center.new_empty(0)])


def _part_of(fraction: float, count: int) -> int:
    """``⌊r N⌋``, but at least one span if there is any; rounded first, because ``0.29 * 100`` is less than 29 as a float."""
    return min(count, max(1, int(round(fraction * count, 6))))


PARTS = (TopSimilar,)
METHODS = (
    SpanMethod(
        name="top-neg",
        paper="Xu et al. 2023, Better Sampling of Negatives for Distantly Supervised NER (Findings of ACL)",
        summary="Only the unlabeled spans most similar to entities are negatives, because they are the most "
        "informative.",
        head=WidthConfig(),
        negatives=TopSimilar(),
        loss=CrossEntropy(),
    ),
)
