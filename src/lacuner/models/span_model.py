"""A model that scores spans."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import Encoder, Inputs
from lacuner.heads import SpanHead, SpanScores
from lacuner.heads.decoding import Probabilities, find_entities, search_spans, shift_outside, softmax_of_logits
from lacuner.heads.scores import SEARCH_CHUNK
from lacuner.methods.composition import Draw, SpanMethod
from lacuner.methods.method import Step
from lacuner.models.model import Model
from lacuner.supervision.spans import Spans, SpanTargets, build_targets
from lacuner.supervision.tags import TokenSupervision


class SpanModel(Model):
    """Scores spans of sentences."""

    method: SpanMethod

    def __init__(
        self, encoder: Encoder, method: SpanMethod, labels: Sequence[str], memory: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(encoder, method, labels, memory)
        self.head: SpanHead = method.head.build(encoder.size, len(self.labels))

    def targets(
        self, sentences: Sequence[Sentence], advice: Sequence[TokenSupervision | None] | None = None
    ) -> SpanTargets:
        return build_targets(sentences, self.labels)

    def forward(self, inputs: Inputs, targets: SpanTargets, step: Step) -> Tensor:
        method = self.method
        parts = targets.partition(method.head.max_span_width)
        projected = self.head.project(self.encoder(inputs))
        draw = Draw(
            parts.unknown,
            parts.positives,
            targets.lengths,
            partial(self.head.score_no_grad, projected),
            partial(self.head.represent, projected),
            step,
        )
        chosen = method.negatives.draw(draw)
        drawn = parts.unknown[chosen]
        if step.watch is not None:
            step.watch(drawn)
        negatives = Spans.concatenate([parts.negatives, drawn])
        may_be = targets.negative[negatives.row]  # (negatives, L)
        may_be[: parts.rejected, 1:] = False
        asked = Spans.concatenate([parts.positives, negatives])
        scores: SpanScores = self.head(projected, asked, hidden=method.contrast is not None)
        if not len(scores.logits):
            return scores.logits.sum()
        possible = torch.cat([parts.possible, may_be])  # (N, L)
        guessed = torch.arange(len(possible), device=possible.device) >= len(possible) - len(drawn)
        loss = method.loss(scores.logits, possible, guessed, step)
        if method.contrast is None:
            return loss
        assert scores.hidden is not None
        certain = possible.sum(-1) == 1
        contrast = method.contrast(scores.hidden[certain], possible[certain].int().argmax(-1))
        return torch.lerp(loss, contrast, method.contrast.weight)

    def scorer(self, inputs: Inputs, hidden: bool = False) -> Callable[[Spans], SpanScores]:
        """Encode a batch once; the result scores any of its spans.

        Args:
            inputs: a batch.
            hidden: return the hidden layers, too; without it, only if the method's inference looks at them.
        """
        needed = hidden or (self.method.inference is not None and bool(self.memory))
        return partial(self.head, self.head.project(self.encoder(inputs)), hidden=needed)

    @torch.no_grad()
    def entities(self, inputs: Inputs, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        return find_entities(
            self.scorer(inputs),
            inputs.lengths,
            self.labels,
            max_width=self.method.head.max_span_width,
            probabilities=self.probabilities,
            nested=nested,
            min_score=min_score,
        )

    @torch.no_grad()
    def candidates(
        self, inputs: Inputs, least: float, also: Spans | None = None, probabilities: Probabilities | None = None
    ) -> tuple[Spans, Tensor]:
        """Spans that are entities with a probability of at least ``least``, and their label probabilities ``(N, L)``.

        Args:
            inputs: a batch.
            least: from 0 to 1.
            also: spans to judge in any case; they come last, whether or not they are among the others.
            probabilities: scores → probabilities of the labels; by default :meth:`probabilities`.
        """
        score, probabilities = self.scorer(inputs), probabilities or self.probabilities
        spans, probable = search_spans(
            score,
            inputs.lengths,
            lambda probable: 1 - probable[:, 0] >= least,
            self.method.head.max_span_width,
            probabilities,
        )
        if also is None or not len(also):
            return spans, probable
        return Spans.concatenate([spans, also]), torch.cat([probable, probabilities(score(also))])

    def probabilities(self, scores: SpanScores) -> Tensor:
        """What classifier, memory and threshold together say: ``(N, L)``."""
        inference = self.method.inference
        if inference is None or not self.memory:  # while training there is nothing to remember yet
            return shift_outside(softmax_of_logits(scores), self.threshold)
        return shift_outside(inference.probabilities(scores, self.memory), self.threshold)

    @torch.no_grad()
    def hidden_layers(self, inputs: Inputs, targets: SpanTargets) -> Iterator[tuple[Tensor, Tensor]]:
        """Hidden layers and label numbers of all spans of a batch, for :meth:`Inference.remember`; some at a time."""
        parts = targets.partition(self.method.head.max_span_width)
        certain = parts.possible.sum(-1) == 1
        others = Spans.concatenate([parts.negatives, parts.unknown])
        spans = Spans.concatenate([parts.positives[certain], others])
        label = torch.cat([parts.possible[certain].int().argmax(-1), torch.zeros_like(others.row)])
        score = self.scorer(inputs, hidden=True)
        for begin in range(0, len(spans), SEARCH_CHUNK):
            chunk = slice(begin, begin + SEARCH_CHUNK)
            hidden = score(spans[chunk]).hidden
            assert hidden is not None
            yield hidden, label[chunk]
