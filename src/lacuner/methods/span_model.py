"""An encoder, a span head and a method: what is trained, and what predicts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from lacuner.corpus import Entity
from lacuner.encoders import Encoder
from lacuner.encoding.pieces import PieceInputs
from lacuner.encoding.spans import Spans, SpanTargets
from lacuner.encoding.vocabulary import WordInputs
from lacuner.heads import SpanScores
from lacuner.heads.decoding import find_entities, softmax_of_logits
from lacuner.methods.composition import Draw, Method, Step

Inputs = WordInputs | PieceInputs


class SpanModel(nn.Module):
    """Scores spans of sentences.

    Args:
        encoder: words → vectors.
        method: which head there is, what training does with the unknown, what decides at inference.
        labels: names of the labels; the first is ``O``.
        memory: what the method's inference keeps of the training set.
    """

    def __init__(
        self, encoder: Encoder, method: Method, labels: Sequence[str], memory: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.method = method
        self.labels = tuple(labels)
        self.head = method.head.build(encoder.size, len(self.labels))
        self.memory = dict(memory or {})

    def forward(self, inputs: Inputs, targets: SpanTargets, step: Step) -> Tensor:
        """The loss of a batch."""
        method = self.method
        parts = targets.partition(method.head.max_span_width)
        score = self.scorer(inputs)
        chosen = method.negatives.draw(Draw(parts.unknown, parts.positives, targets.lengths, score, step))
        negatives = Spans.concatenate([parts.negatives, parts.unknown[chosen]])
        may_be = targets.negative[negatives.row]  # (negatives, L)
        may_be[: parts.rejected, 1:] = False
        scores = score(Spans.concatenate([parts.positives, negatives]))
        if not len(scores.logits):
            return scores.logits.sum()
        possible = torch.cat([parts.possible, may_be])  # (N, L)
        is_negative = torch.arange(len(possible), device=possible.device) >= len(parts.positives)
        loss = method.loss(scores.logits, possible, is_negative, step)
        if method.contrast is None:
            return loss
        certain = possible.sum(-1) == 1
        contrast = method.contrast(scores.hidden[certain], possible[certain].int().argmax(-1))
        return (1 - method.contrast.weight) * loss + method.contrast.weight * contrast

    def scorer(self, inputs: Inputs) -> Callable[[Spans], SpanScores]:
        """Encode a batch once; the result scores any of its spans."""
        return partial(self.head, self.head.project(self.encoder(inputs)))

    @torch.no_grad()
    def entities(self, inputs: Inputs, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        """What the model finds in a batch."""
        inference = self.method.inference
        probabilities = softmax_of_logits
        if inference is not None and self.memory:  # while training there is nothing to remember yet
            probabilities = partial(inference.probabilities, memory=self.memory)
        return find_entities(
            self.scorer(inputs),
            inputs.lengths,
            self.labels,
            max_width=self.method.head.max_span_width,
            probabilities=probabilities,
            nested=nested,
            min_score=min_score,
        )

    @torch.no_grad()
    def annotated(self, inputs: Inputs, targets: SpanTargets) -> tuple[Tensor, Tensor]:
        """Hidden layers and label numbers of the annotated spans of a batch, for :meth:`Inference.remember`."""
        parts = targets.partition(self.method.head.max_span_width)
        certain = parts.possible.sum(-1) == 1
        return self.scorer(inputs)(parts.positives[certain]).hidden, parts.possible[certain].int().argmax(-1)
