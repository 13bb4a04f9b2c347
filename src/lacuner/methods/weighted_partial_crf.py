"""Weighted partial CRF: an unlabeled word may have any tag, weighted by models that have not seen the sentence.

Jie, Xie, Lu, Ding, Li: *Better Modeling of Incomplete Annotations for Named Entity Recognition*, NAACL 2019.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.heads import CrfConfig
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.stages import Stage, StageContext, StageResult
from lacuner.methods.token import Likelihood, Outside
from lacuner.models.model import Model
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TokenSupervision

_MIN_WEIGHT = 1e-9
"""Minimum weight of possible tags, so that the sum is never empty because a model rules out a tag."""


class WeightedFolds(Stage):
    """``tag-weights``: tags of unknown words are weighted by models that have not seen the sentence (§3).

    The corpus is divided into ``folds`` parts. Models learn from all parts but one, the first time with ``O`` at every
    untagged word, later with the weights of the round before; each then gives weights to the part that it has not seen.
    """

    levels: ClassVar = ("token",)
    gives_tag_weights: ClassVar = True
    name: Literal["tag-weights"] = "tag-weights"
    folds: int = Field(2, ge=2, description="number of folds; each gets its weights from a model trained on the others")
    rounds: int = Field(2, ge=1, description="number of rounds in which all folds get new weights")
    hard: bool = Field(
        False, description="use only the best tag sequence, instead of weighting all by their probability"
    )

    def run(self, context: StageContext) -> StageResult:
        incomplete = [index for index, sentence in enumerate(context.corpus) if not sentence.complete]
        outside = context.method.model_copy(update={"unlabeled": Outside()})
        known: dict[int, TokenSupervision] = {}
        predict = partial(self._predict, context.corpus)
        for number in range(1, self.rounds + 1):
            found = context.cross_fit(
                f"fold-{number}",
                f"round {number}, fold",
                incomplete,
                self.folds,
                predict,
                method=outside if number == 1 else context.method,
                supervision=known,
            )
            known = {
                int(index): TokenSupervision(tag_weights=weights) for part in found for index, weights in part.items()
            }
        return StageResult(tokens=known)

    def _predict(self, corpus: Corpus, model: Model, unseen: Sequence[int]) -> dict[str, Tensor]:
        """Log-weights of all tags, ``(n, T)`` for each sentence."""
        assert isinstance(model, TagModel)
        weights = model.tag_weights(corpus, unseen, self.hard)
        return {str(index): table.clamp(min=_MIN_WEIGHT).log() for index, table in weights.items()}


PARTS = (WeightedFolds,)
METHODS = (
    TokenMethod(
        name="weighted-partial-crf",
        paper="Jie et al. 2019, Better Modeling of Incomplete Annotations for Named Entity Recognition (NAACL)",
        summary="Untagged words may have any tag, weighted by the predictions of models that have not seen "
        "the sentence.",
        head=CrfConfig(),
        unlabeled=Marginalize(),
        loss=Likelihood(),
        stage=WeightedFolds(),
    ),
)
