"""Generalized cross-entropy: a noise-robust loss, for spans and for words.

Zhang, Sabuncu: *Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels*, NeurIPS 2018. The token
loss is the noise-robust learning of Meng et al. 2021 (see :mod:`lacuner.methods.roster`).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import TagHead
from lacuner.methods.full import summed_cross_entropy
from lacuner.methods.method import Method
from lacuner.methods.parts import RescoredBatch, SpanLoss, State, StateSizes, Step, TokenLoss, TrainingData
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagTargets

_FORBIDDEN = float("-inf")
_MAX_REMOVED = 0.9
"""A type that would lose a greater fraction of its labels keeps all of them."""


def generalized_cross_entropy(log_probability: Tensor, q: float) -> Tensor:
    """``(1 - p^q) / q``: the cross-entropy as ``q → 0``, the absolute error for ``q = 1``."""
    return -log_probability if q == 0 else (1 - (q * log_probability).exp()) / q


class GeneralizedSpanLoss(SpanLoss):
    """``gce``: generalized cross-entropy of the summed probability of the labels that a span may have."""

    levels: ClassVar = ("span",)
    name: Literal["gce"] = "gce"
    q: float = Field(0.7, ge=0, le=1, description="robustness to wrong labels; 0: cross-entropy, 1: absolute error")

    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        return generalized_cross_entropy(-summed_cross_entropy(logits, possible), self.q)


class GeneralizedTokenLoss(TokenLoss):
    """``token-gce``: generalized cross-entropy of entity or not and of entity types; doubtful labels are left out.

    Every ``interval`` steps the model is asked about the training data. A type, or an ``O``, that it gives a probability of at
    most ``min_probability`` is not trained on until it is asked again. That an annotated word is in an entity is not doubted.
    """

    levels: ClassVar = ("token",)
    name: Literal["token-gce"] = "token-gce"
    q: float = Field(0.7, ge=0, le=1, description="robustness to wrong labels; 0: cross-entropy, 1: absolute error")
    min_probability: float = Field(
        0.7,
        ge=0,
        le=1,
        description="τ: labels that the model gives at most this probability are ignored until the next check; 0: none",
    )
    warm_start: int = Field(0, ge=0, description="number of initial epochs that use cross-entropy (q = 0)")
    interval: int = Field(200, ge=1, description="steps between checks of which labels to ignore")

    def check(self, method: Method, data: TrainingData) -> None:
        if method.head.name == "crf":
            raise ConfigError("loss=token-gce does not train transitions — set head=entity-and-type, or head=softmax")
        if any(getattr(part, "non_entity_class", False) for _, part in method.parts()):
            raise ConfigError(
                "loss=token-gce has no label for sampled non-entities — set sampling.label=O, or sampling=none"
            )
        if any(stage.gives_tag_weights for stage in method.stages()):
            raise ConfigError("loss=token-gce does not weigh tags — leave out the stage that does, with stage=none")

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        return {"removed": torch.zeros(sum(sizes.lengths), dtype=torch.bool), "offset": word_offsets(sizes.lengths)}

    def rescores_at(self, step: Step) -> bool:
        return self.min_probability > 0 and (step.number + 1) % self.interval == 0

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """Probability of each uncertain label: of ``O``, or of the type given that the word is inside an entity."""
        assert isinstance(batch.model, TagModel)
        targets: TagTargets = batch.targets
        log_p = batch.model.decisions(batch.words).log_softmax(-1)
        tag = targets.allowed.int().argmax(-1)  # (B, n)
        log_given = log_p.gather(-1, tag[..., None]).squeeze(-1)
        log_given = torch.where(tag == 0, log_given, log_given - log_p[..., 1:].logsumexp(-1))
        asked = targets.taught & (targets.allowed.sum(-1) == 1) & ~targets.known
        row, word = asked.nonzero(as_tuple=True)
        sentence = torch.tensor(batch.indices, device=tag.device)[row]
        return {"sentence": sentence, "word": word, "tag": tag[row, word], "probability": log_given[row, word].exp()}

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        state["removed"].fill_(False)
        word = state["offset"][found["sentence"]] + found["word"]
        state["removed"][word] = doubtful_labels(found["tag"], found["probability"], self.min_probability)

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        taught = targets.taught
        kept = taught & ~of_words(state["removed"], state["offset"], targets, step) if state else taught
        q = 0.0 if step.epoch < self.warm_start else self.q
        return entity_and_type_loss(decisions, log_weights > _FORBIDDEN, taught, kept, q)


def doubtful_labels(tag: Tensor, probability: Tensor, min_probability: float) -> Tensor:
    """Labels with at most this probability, except types that would lose nearly all of theirs: ``(N,)`` bool."""
    doubtful = probability <= min_probability
    count = torch.bincount(tag)  # (T,)
    spared = torch.bincount(tag[doubtful], minlength=len(count)) > _MAX_REMOVED * count
    spared[:1] = False  # O
    return doubtful & ~spared[tag]


def entity_and_type_loss(decisions: Tensor, allowed: Tensor, taught: Tensor, kept: Tensor, q: float) -> Tensor:
    """Mean generalized cross-entropy of entity vs. non-entity, plus that of entity types.

    Args:
        decisions: ``(B, n, T)``.
        allowed: ``(B, n, T)`` bool, the tags of each word; words that may have any tag are ignored.
        taught: ``(B, n)`` bool, words that are neither padding nor ignored.
        kept: ``(B, n)`` bool, words whose label has not been removed; that a word is inside an entity is never removed.
        q: exponent of the loss.
    """
    log_p = decisions.log_softmax(-1)
    entity, types = ~allowed[..., :1], allowed[..., 1:]
    either = torch.cat([~entity, types | entity], dim=-1)  # possible tags, disregarding the type of entities
    first = taught & ~allowed.all(-1) & (entity[..., 0] | kept)
    second = taught & kept & entity[..., 0] & ~types.all(-1)
    decided = _summed(log_p[first], either[first])
    typed = _summed(log_p[..., 1:][second].log_softmax(-1), types[second])
    return mean_of(generalized_cross_entropy(decided, q)) + mean_of(generalized_cross_entropy(typed, q))


def _summed(log_p: Tensor, allowed: Tensor) -> Tensor:
    return log_p.masked_fill(~allowed, _FORBIDDEN).logsumexp(-1)


def mean_of(costs: Tensor) -> Tensor:
    """The mean, or 0 if empty."""
    return costs.sum() / max(1, len(costs))


def word_offsets(lengths: Sequence[int]) -> Tensor:
    """Offset of each sentence's first word in the concatenation of all sentences: ``(sentences,)``."""
    counts = torch.tensor(lengths, dtype=torch.long)
    return counts.cumsum(0) - counts


def of_words(values: Tensor, offset: Tensor, targets: TagTargets, step: Step) -> Tensor:
    """Gather the per-word values ``(words, …)`` of the training data for a batch: ``(B, n, …)``, 0 in the padding."""
    inside = targets.inside  # (B, n)
    word = torch.arange(inside.shape[1], device=values.device)
    first = offset[torch.tensor(step.sentences, dtype=torch.long, device=values.device)]  # (B,)
    found = values[(first[:, None] + word).masked_fill(~inside, 0)]
    return found * inside.view(*inside.shape, *(1,) * (found.dim() - 2)).to(found.dtype)


PARTS = (GeneralizedSpanLoss, GeneralizedTokenLoss)
