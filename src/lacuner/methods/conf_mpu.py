"""Confidence-based multi-class positive-unlabeled learning.

Zhou, Li, Li: *Distantly Supervised Named Entity Recognition via Confidence-Based Multi-Class Positive and Unlabeled Learning*,
ACL 2022.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig, TagHead
from lacuner.methods.bnpu import (
    BoundedNonNegative,
    Fraction,
    OneVsRestConfig,
    mean_by_type,
    refuse_missing_labels,
    refuse_what_risks_cannot_teach,
    type_priors,
    words_of_types,
)
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.parts import State, Step, TokenLoss, TrainingData
from lacuner.methods.stages import Stage, StageContext, StageResult
from lacuner.models.model import Model
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagTargets, TokenSupervision

CONFIDENCE = "confidence"
"""Name of the per-word probability of being inside an entity."""
_ENTITY = "entity"


class EntityConfidence(Stage):
    """``entity-confidence``: a binary "entity or not" model estimates the entity probability of each word.

    It does not tell types apart, and learns with the risk of ``bnpu``.
    """

    levels: ClassVar = ("token",)
    gives_numbers: ClassVar = (CONFIDENCE,)
    name: Literal["entity-confidence"] = "entity-confidence"
    weight: float | None = Field(
        None,
        gt=0,
        description="m: weight of annotated words in the risk; none: they count as much as all others together",
    )
    folds: int | None = Field(
        None,
        ge=2,
        description="number of folds, each scored by a model trained on the others; none: one model scores "
        "its own training data",
    )

    def run(self, context: StageContext) -> StageResult:
        labels = dict.fromkeys(context.labels[1:], _ENTITY)
        method = self._binary_method(context.method)
        predict = partial(_entity_probabilities, context.corpus)

        def judge_all() -> dict[str, Tensor]:
            model = context.fit("confidence", "entity or not", method, labels=labels)
            return predict(model, range(len(context.corpus)))

        if self.folds is None:
            found = [context.cached("confidence", judge_all)]
        else:
            everything = range(len(context.corpus))
            title = "entity or not, fold"
            found = context.cross_fit(
                "confidence", title, everything, self.folds, predict, method=method, labels=labels
            )
        confidence = {int(index): values for part in found for index, values in part.items()}
        return StageResult(
            tokens={index: TokenSupervision(numbers={CONFIDENCE: values}) for index, values in confidence.items()}
        )

    def _binary_method(self, method: Method) -> TokenMethod:
        """Configuration of the binary entity classifier; its prior is the sum of the types' priors."""
        priors = getattr(getattr(method, "loss", None), "prior", None)
        prior = {_ENTITY: min(1.0, sum(priors.values()))} if priors else None
        return TokenMethod(
            name="bnpu",
            paper=method.paper,
            summary="Entity or not.",
            head=OneVsRestConfig(),
            unlabeled=Marginalize(),
            loss=BoundedNonNegative(weight=self.weight, prior=prior),
        )


def _entity_probabilities(corpus: Corpus, model: Model, indices: Sequence[int]) -> dict[str, Tensor]:
    """Probability that each word is inside an entity, for each sentence."""
    assert isinstance(model, TagModel)
    tags = model.tag_weights(corpus, indices, any_tag=True)
    return {str(index): 1 - table[:, 0] for index, table in tags.items()}


class ConfidenceRisk(TokenLoss):
    """``conf-mpu``: multi-class PU risk in which unknown words count only if they do not look like an entity."""

    levels: ClassVar = ("token",)
    teaches_outside: ClassVar = True
    name: Literal["conf-mpu"] = "conf-mpu"
    weight: float | None = Field(
        None,
        gt=0,
        description="m: weight of annotated words; none: 2/Σπ, so that they count twice as much as all others together",
    )
    threshold: float = Field(
        0.5, ge=0, lt=1, description="η: unknown words with a higher entity probability are ignored"
    )
    non_negative: Literal["words", "batch"] = Field(
        "words",
        description="where the risk of annotated words is clipped at 0: for each word (words), or for the "
        "whole batch (batch, as released)",
    )
    prior: dict[str, Fraction] | None = Field(
        None,
        description="π: fraction of words in entities of each type; none: estimated from complete sentences "
        "or dev data",
    )
    coverage: float = Field(
        0.5,
        gt=0,
        le=1,
        description="assumed fraction of entity words that are annotated, used if the prior cannot be "
        "estimated otherwise",
    )

    def check(self, method: Method, data: TrainingData) -> None:
        refuse_what_risks_cannot_teach(self, method)
        refuse_missing_labels("prior", self.prior, data)
        if not any(CONFIDENCE in stage.gives_numbers for stage in method.stages()):
            raise ConfigError(f"loss={self.name} needs the entity probabilities of words — set stage=entity-confidence")

    def for_data(self, data: TrainingData) -> "ConfidenceRisk":
        return self.model_copy(update={"prior": type_priors(data, self.prior, self.coverage)})

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        assert self.prior is not None, "for_data fills it in"
        prior = decisions.new_tensor([self.prior[label] for label in head.tags.labels[1:]])  # (K,)
        weight = 2 / prior.sum().clamp(min=1e-6) if self.weight is None else self.weight
        words = words_of_class(log_weights > float("-inf"), targets)
        return confidence_risk(
            decisions.softmax(-1), words, weight * prior, self.threshold, self.non_negative == "words"
        )


class ClassWords(NamedTuple):
    """What is known about the words of a batch, with ``K`` types."""

    positive: Tensor  # (B, n, K) bool: annotated with the type
    unknown: Tensor  # (B, n) bool: may be a non-entity or an entity
    negative: Tensor  # (B, n) bool: known non-entities
    confidence: Tensor  # (B, n) probability of being inside an entity


def words_of_class(allowed: Tensor, targets: TagTargets) -> ClassWords:
    """Group words by the tags that they may have, ``(B, n, K + 1)``.

    In complete sentences, annotated words are entities with certainty, whatever the model's confidence.
    """
    positive, unknown, negative = words_of_types(allowed, targets)
    certain = targets.complete[:, None] & positive.any(-1)
    confidence = targets.numbers[CONFIDENCE].masked_fill(certain, 1.0)
    return ClassWords(positive, unknown.any(-1), negative.all(-1) & allowed[..., 0], confidence)


def confidence_risk(
    probability: Tensor, words: ClassWords, positive_weight: Tensor, threshold: float, per_word: bool = True
) -> Tensor:
    """Confidence-based MPU risk of a batch, a scalar, with the mean absolute error.

    The loss of a word is ``1 - p`` of its class. The risk of the non-entity class is that of unknown words with confidence at
    most η, plus that of words above it, estimated from annotated words, each weighted by ``1 / λ``.

    Args:
        probability: ``(B, n, K + 1)``, ``O`` first.
        words: what is known about them.
        positive_weight: ``(K,)`` weight of annotated words, ``m π``.
        threshold: η, the confidence above which a word is taken for an entity.
        per_word: clip the risk of each annotated word at 0. Otherwise clip that of all annotated words of a batch, and take
            means over the words above or below η, as in the released code.
    """
    outside_error, type_error = 1 - probability[..., 0], 1 - probability[..., 1:]
    looks_like = words.confidence > threshold
    hidden = torch.where(looks_like, outside_error / words.confidence.clamp(min=1e-6), torch.zeros_like(outside_error))
    taught = words.negative | (words.unknown & ~looks_like)
    if per_word:
        excess = (type_error - outside_error[..., None] + hidden[..., None]).clamp(min=0)
        positive_risk = (positive_weight * mean_by_type(excess, words.positive)).sum()
        outside = words.negative | words.unknown
        return positive_risk + (outside_error * taught).sum() / outside.sum().clamp(min=1)
    excess = mean_by_type(type_error - outside_error[..., None], words.positive)
    excess = excess + mean_by_type(hidden[..., None], words.positive & looks_like[..., None])
    positive_risk = (positive_weight * excess).sum()
    return positive_risk.clamp(min=0) + (outside_error * taught).sum() / taught.sum().clamp(min=1)


PARTS = (EntityConfidence, ConfidenceRisk)
METHODS = (
    TokenMethod(
        name="conf-mpu",
        paper="Zhou et al. 2022, Distantly Supervised NER via Confidence-Based Multi-Class PU Learning (ACL)",
        summary="A first model estimates entity probabilities; untagged words that look like entities are "
        "left out of training.",
        head=SoftmaxConfig(scheme="io"),
        unlabeled=Marginalize(),
        loss=ConfidenceRisk(),
        stage=EntityConfidence(),
    ),
)
