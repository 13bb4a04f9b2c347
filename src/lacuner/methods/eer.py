"""The expected entity ratio.

Effland, Collins: *Partially Supervised Named Entity Recognition via the Expected Entity Ratio Loss*, TACL 2021.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from lacuner.heads import CrfConfig
from lacuner.methods.tagging import Anything, Balance, TokenMethod

USUAL = 0.15
"""The paper's ratio, for all its corpora."""


class EntityRatio(Balance):
    """``entity-ratio``: ``λ max(0, |ρ - ρ̂| - γ)``, with ``ρ̂`` the share of words expected to belong to entities (§3.2).

    It keeps a tagger that learns from entities alone from seeing them everywhere.
    """

    name: Literal["entity-ratio"] = "entity-ratio"
    ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="ρ: share of words in entities; none: as in complete sentences, or dev data, or else 0.15",
    )
    margin: float = Field(0.05, ge=0, le=1, description="γ: by how much it may differ without cost")
    weight: float = Field(10.0, ge=0, description="λ: what a difference of 1 costs")

    def __call__(self, share: Tensor) -> Tensor:
        ratio = USUAL if self.ratio is None else self.ratio
        return self.weight * ((share - ratio).abs() - self.margin).clamp(min=0)

    def prepared(self, share: float | None) -> "EntityRatio":
        if self.ratio is not None:
            return self
        return self.model_copy(update={"ratio": USUAL if share is None else share})


PARTS = (EntityRatio,)
METHODS = (
    TokenMethod(
        name="eer",
        paper="Effland and Collins 2021, Partially Supervised NER via the Expected Entity Ratio Loss (TACL)",
        summary="A word without a tag may be anything, but about as many words as usual belong to entities.",
        head=CrfConfig(),
        untagged=Anything(),
        balance=EntityRatio(),
    ),
)
