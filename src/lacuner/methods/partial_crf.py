"""Partial CRFs: words without a tag may have any, and all sequences that the annotation allows are summed over.

Yang, Chen, Li, He, Zhang: *Distantly Supervised NER with Partial Annotation Learning and Reinforcement Learning*, COLING 2018.
Jie, Xie, Lu, Ding, Li: *Better Modeling of Incomplete Annotations for Named Entity Recognition*, NAACL 2019.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from lacuner.errors import TrainingError
from lacuner.heads import CrfConfig
from lacuner.methods.tagging import Anything, Findings, Outside, Stage, StageContext, TokenMethod
from lacuner.supervision.tags import TokenSupervision

_LEAST = 1e-9
"""No tag that a word may have counts less: one that a model thinks impossible must not make the sum empty."""


class WeightedFolds(Stage):
    """``folds``: tags of unknown words count as much as models think that have not seen the sentence (§3).

    The corpus is divided into ``folds`` parts. Models learn from all parts but one, the first time with ``O`` at every
    untagged word, later with the weights of the round before; each then gives weights to the part that it has not seen.
    """

    weighs: ClassVar = True
    name: Literal["folds"] = "folds"
    folds: int = Field(2, ge=2, description="parts of the corpus; each is judged by a model of the others")
    rounds: int = Field(2, ge=1, description="how often all parts are judged")
    hard: bool = Field(False, description="only the best sequence counts, instead of all by their probability")

    def run(self, studio: StageContext) -> Findings:
        unsure = [place for place, sentence in enumerate(studio.corpus) if not sentence.complete]
        order = np.random.default_rng([studio.seed, 4]).permutation(unsure).tolist()
        outside = studio.method.model_copy(update={"untagged": Outside()})
        advice: dict[int, TokenSupervision] = {}
        for number in range(1, self.rounds + 1):
            judged: dict[int, TokenSupervision] = {}
            for fold in range(1, min(self.folds, len(order)) + 1):
                away = sorted(order[fold - 1 :: self.folds])
                title = f"round {number}, fold {fold}/{self.folds}"
                method = outside if number == 1 else studio.method
                judged |= self._judge(studio, method, f"fold-{number}-{fold}", title, away, advice)
            advice = judged
        return Findings(advice, {})

    def _judge(
        self,
        studio: StageContext,
        method: TokenMethod,
        name: str,
        title: str,
        away: list[int],
        advice: dict[int, TokenSupervision],
    ) -> dict[int, TokenSupervision]:
        """Weights for the sentences at ``away`` from a model that learns from the others."""
        hidden = set(away)
        places = [place for place in range(len(studio.corpus)) if place not in hidden]
        if not any(studio.corpus[place].entities for place in places):
            raise TrainingError(
                f"{title}: no annotated entity is left to learn from — annotate more sentences, or train with --method crf"
            )

        def find_out() -> dict[str, Tensor]:
            model = studio.fit(name, title, method, places=places, advice=advice)
            weights = model.tag_weights(studio.corpus, away, self.hard)
            return {str(place): table.clamp(min=_LEAST).log() for place, table in weights.items()}

        return {
            int(place): TokenSupervision(weights=weights) for place, weights in studio.remember(name, find_out).items()
        }


PARTS = (WeightedFolds,)
METHODS = (
    TokenMethod(
        name="partial-crf",
        paper="Yang et al. 2018, Distantly Supervised NER with Partial Annotation Learning (COLING)",
        summary="A word without a tag may be anything; needs sentences or spans that are known to hold no entity.",
        head=CrfConfig(),
        untagged=Anything(),
    ),
    TokenMethod(
        name="weighted-partial-crf",
        paper="Jie et al. 2019, Better Modeling of Incomplete Annotations for Named Entity Recognition (NAACL)",
        summary="A word without a tag may be anything, as likely as models think that have not seen the sentence.",
        head=CrfConfig(),
        untagged=Anything(),
        stage=WeightedFolds(),
    ),
)
