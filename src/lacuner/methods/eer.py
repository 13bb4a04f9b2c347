"""The expected entity ratio.

Effland, Collins: *Partially Supervised Named Entity Recognition via the Expected Entity Ratio Loss*, TACL 2021.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field
from torch import Tensor

from lacuner.corpus import Sentence
from lacuner.heads import CrfConfig
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.parts import Regularizer, TrainingData
from lacuner.methods.token import Likelihood

USUAL_RATIO = 0.15
"""The ratio used in the paper for all corpora."""
_MIN_WORDS = 100
"""Minimum number of words to estimate the entity ratio."""


class EntityRatio(Regularizer):
    """``entity-ratio``: ``λ max(0, |ρ - ρ̂| - γ)``, where ``ρ̂`` is the expected fraction of words in entities (§3.2).

    It keeps a tagger that learns from entities alone from seeing them everywhere.
    """

    name: Literal["entity-ratio"] = "entity-ratio"
    ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="ρ: fraction of words in entities; none: estimated from complete sentences or dev data, "
        "otherwise 0.15",
    )
    margin: float = Field(0.05, ge=0, le=1, description="γ: deviation from ρ that is not penalized")
    weight: float = Field(10.0, ge=0, description="λ: weight of the penalty")

    def __call__(self, entity_fraction: Tensor) -> Tensor:
        ratio = USUAL_RATIO if self.ratio is None else self.ratio
        return self.weight * ((entity_fraction - ratio).abs() - self.margin).clamp(min=0)

    def for_data(self, data: TrainingData) -> "EntityRatio":
        if self.ratio is not None:
            return self
        known = [entity_fraction(data.corpus)]
        if data.dev is not None and not data.dev_incomplete:
            known.append(entity_fraction(data.dev, all_complete=True))
        ratio = next((fraction for fraction in known if fraction is not None), USUAL_RATIO)
        return self.model_copy(update={"ratio": ratio})


def entity_fraction(sentences: Iterable[Sentence], all_complete: bool = False) -> float | None:
    """Fraction of words inside entities, in fully annotated sentences; None if these have too few words.

    Args:
        sentences: only complete ones count.
        all_complete: treat all as complete, such as dev data.
    """
    complete = fully_annotated(sentences, all_complete)
    words = sum(map(len, complete))
    inside = sum(len({word for e in sentence.entities for word in range(e.start, e.end)}) for sentence in complete)
    return inside / words if words else None


def fully_annotated(sentences: Iterable[Sentence], all_complete: bool = False) -> list[Sentence]:
    """The fully annotated sentences; empty if they have too few words for an estimate.

    Args:
        sentences: only complete ones count.
        all_complete: treat all as complete, such as dev data.
    """
    complete = [
        sentence
        for sentence in sentences
        if (sentence.complete or all_complete) and sentence.annotated_labels is None and not sentence.unknown_tokens
    ]
    return complete if sum(map(len, complete)) >= _MIN_WORDS else []


PARTS = (EntityRatio,)
METHODS = (
    TokenMethod(
        name="eer",
        paper="Effland and Collins 2021, Partially Supervised NER via the Expected Entity Ratio Loss (TACL)",
        summary="Untagged words may have any tag, but the expected fraction of words in entities must be "
        "close to the usual one.",
        head=CrfConfig(),
        unlabeled=Marginalize(),
        loss=Likelihood(),
        regularizer=EntityRatio(),
    ),
)
