"""A model that scores spans."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import Encoder
from lacuner.heads import SpanHead, SpanHeadConfig, SpanScores
from lacuner.heads.decoding import (
    decode,
    find_entities,
    search_spans,
    shift_outside,
    softmax_of_logits,
)
from lacuner.heads.scores import SEARCH_CHUNK
from lacuner.models.model import Decodable, EncodedBatch, Model
from lacuner.models.span_filter import SpanFilter
from lacuner.supervision.spans import Spans, SpanTargets, build_targets
from lacuner.supervision.tags import TokenSupervision

MAX_THRESHOLD = 4.75
"""Maximum absolute threshold; spans that are no entity at the lowest threshold never are."""


class SpanInference(Protocol):
    """Computes label probabilities from more than the classifier."""

    def probabilities(self, scores: SpanScores, state: Mapping[str, Tensor]) -> Tensor:
        """Label probabilities: ``(N, L)``."""


@dataclass(frozen=True)
class ScoredSpans(Decodable):
    """Candidate spans with probabilities, to be decoded with a threshold."""

    spans: Spans
    probabilities: Tensor  # (N, L), before the threshold is applied
    lengths: Tensor  # (B,)
    labels: Sequence[str]

    def decode(self, threshold: float, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        shifted = shift_outside(self.probabilities, threshold)
        return decode(self.spans, shifted, self.lengths, self.labels, nested, min_score)


class SpanModel(Model):
    """Scores spans of sentences.

    Args:
        encoder: words → vectors.
        head: scores spans.
        labels: names of the labels; the first is ``O``.
        inference: complements the classifier; its state is in ``state["inference"]``.

    Attributes:
        span_filter: skips spans that are certainly no entities; without it, all spans are scored.
    """

    finds_nested = True
    span_filter: SpanFilter | None

    def __init__(
        self, encoder: Encoder, head: SpanHeadConfig, labels: Sequence[str], inference: SpanInference | None = None
    ) -> None:
        super().__init__(encoder, labels)
        self.max_span_width = head.max_span_width
        self.inference = inference
        self.span_filter = None
        self.head: SpanHead = head.build(encoder.size, len(self.labels))
        self.head.outside_bias = 0.0 if head.outside_bias == "prior" else head.outside_bias

    def targets(
        self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None
    ) -> SpanTargets:
        return build_targets(sentences, self.labels, known)

    def scorer(self, batch: EncodedBatch, hidden: bool = False) -> Callable[[Spans], SpanScores]:
        """Project a batch once, and return a function that scores any of its spans.

        Args:
            batch: the encoded sentences.
            hidden: also return hidden layers; by default only if the model's inference uses them.
        """
        return self._scorer(self.head.project(batch.words), hidden)

    def _scorer(self, projected: Any, hidden: bool = False) -> Callable[[Spans], SpanScores]:
        return partial(self.head, projected, hidden=hidden or self.inference is not None)

    def probabilities(self, scores: SpanScores) -> Tensor:
        """Label probabilities from classifier, inference and threshold: ``(N, L)``."""
        return shift_outside(self._unshifted(scores), float(self.threshold))

    def _unshifted(self, scores: SpanScores) -> Tensor:
        if self.inference is None:
            return softmax_of_logits(scores)
        return self.inference.probabilities(scores, self.state_of("inference"))

    @torch.no_grad()
    def score(self, batch: EncodedBatch) -> ScoredSpans:
        least = torch.tensor(-MAX_THRESHOLD).sigmoid().item()
        spans, probable = self._search(self.scorer(batch), batch.lengths, least, self._unshifted)
        return ScoredSpans(spans, probable, batch.lengths, self.labels)

    @torch.no_grad()
    def entities(self, batch: EncodedBatch, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        if self.span_filter is None or nested:  # the filter is exact only for entities that do not overlap better ones
            score, spans = self.scorer(batch), None
        else:
            score, spans = self._candidates(batch)
        return find_entities(
            score,
            batch.lengths,
            self.labels,
            max_width=self.max_span_width,
            probabilities=self.probabilities,
            nested=nested,
            min_score=min_score,
            spans=spans,
        )

    def _candidates(self, batch: EncodedBatch) -> tuple[Callable[[Spans], SpanScores], Spans]:
        """Candidate spans and their scorer, which projects only their first and last words."""
        assert self.span_filter is not None
        firsts, lasts = batch.words.first, self.head.last_words(batch.words)
        spans = self.span_filter.spans(firsts, lasts, batch.lengths, self.max_span_width)
        if not self.head.needs_only_ends:
            return self.scorer(batch), spans
        longest = firsts.shape[1]
        first, begins = _named(firsts, spans.row * longest + spans.start)
        last, ends = _named(lasts, spans.row * longest + spans.end - 1)
        score = self._scorer(self.head.project_ends(first, last))

        def score_named(spans: Spans) -> SpanScores:
            offset = spans.row * longest
            begin, end = begins[offset + spans.start], ends[offset + spans.end - 1]
            return score(Spans(torch.zeros_like(begin), begin, end + 1, spans.width))

        return score_named, spans

    @torch.no_grad()
    def span_probabilities(
        self, batch: EncodedBatch, sentences: Sequence[Sentence], min_probability: float, use_threshold: bool = True
    ) -> tuple[Spans, Tensor]:
        # Retrieval gives probabilities that suit decisions, but do not sum to 1: use the classifier alone.
        asked = self.probabilities if use_threshold and self.inference is None else softmax_of_logits
        score = self.scorer(batch)
        spans, probable = self._search(score, batch.lengths, min_probability, asked)
        annotated = annotated_spans(sentences, self.max_span_width).to(batch.lengths.device)
        if not len(annotated):
            return spans, probable
        return Spans.concatenate([spans, annotated]), torch.cat([probable, asked(score(annotated))])

    def _search(
        self,
        score: Callable[[Spans], SpanScores],
        lengths: Tensor,
        min_probability: float,
        probabilities: Callable[[SpanScores], Tensor],
    ) -> tuple[Spans, Tensor]:
        """Spans with at least this entity probability, and their label probabilities ``(N, L)``."""
        return search_spans(
            score,
            lengths,
            lambda probable: 1 - probable[:, 0] >= min_probability,
            self.max_span_width,
            probabilities,
        )

    @torch.no_grad()
    def hidden_layers(self, batch: EncodedBatch, targets: SpanTargets) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield hidden layers ``(N, h)`` and label indices ``(N,)`` of all spans of a batch, in chunks.

        Unannotated spans count as ``O``, since nearly all of them are.
        """
        parts = targets.partition(self.max_span_width)
        certain = parts.possible.sum(-1) == 1
        others = Spans.concatenate([parts.negatives, parts.unknown])
        spans = Spans.concatenate([parts.positives[certain], others])
        label = torch.cat([parts.possible[certain].int().argmax(-1), torch.zeros_like(others.row)])
        score = self.scorer(batch, hidden=True)
        for begin in range(0, len(spans), SEARCH_CHUNK):
            chunk = slice(begin, begin + SEARCH_CHUNK)
            hidden = score(spans[chunk]).hidden
            assert hidden is not None
            yield hidden, label[chunk]


def _named(words: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Select the vectors ``(1, k, d)`` of ``(B, n, d)`` at ``index``, and map words to them: ``(B * n,)``."""
    flat = words.flatten(0, 1)
    named = torch.zeros(len(flat), dtype=torch.bool, device=words.device).index_fill_(0, index, True)
    return flat.index_select(0, named.nonzero().squeeze(1))[None], named.cumsum(0) - 1


def annotated_spans(sentences: Sequence[Sentence], max_width: int | None = None) -> Spans:
    """All annotated spans, whether or not the model knows their labels."""
    spans = ((row, entity) for row, sentence in enumerate(sentences) for entity in sentence.entities)
    return Spans.of(
        dict.fromkeys((row, e.start, e.end) for row, e in spans if max_width is None or e.end - e.start <= max_width)
    )
