"""Partial CRF: an unlabeled word may have any tag; the loss sums over all tag sequences consistent with the annotation.

Yang, Chen, Li, He, Zhang: *Distantly Supervised NER with Partial Annotation Learning and Reinforcement Learning*, COLING
2018.
"""

from typing import Literal

from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import CrfConfig
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import TrainingData, Unlabeled
from lacuner.methods.token import Likelihood
from lacuner.supervision.tags import TagTargets


class Marginalize(Unlabeled):
    """``marginalize``: any tag; all tags are summed over, so the word alone gives no training signal."""

    name: Literal["marginalize"] = "marginalize"

    def check(self, method: Method, data: TrainingData) -> None:
        if any(part.teaches_outside for _, part in method.parts()):
            return
        if any(stage.gives_tag_weights for stage in method.stages()):
            return
        if not any(sentence.complete for sentence in data.corpus):
            raise ConfigError(
                f"{method.name} cannot learn what is not an entity: no sentence is complete — "
                "give complete sentences (--trusted), or sample non-entities (--set sampling=spans --set sampling.label=O)"
            )

    def allow(self, targets: TagTargets) -> Tensor:
        return targets.possible


PARTS = (Marginalize,)
METHODS = (
    TokenMethod(
        name="partial-crf",
        paper="Yang et al. 2018, Distantly Supervised NER with Partial Annotation Learning (COLING)",
        summary="A CRF tagger in which untagged words may have any tag; also requires complete sentences.",
        head=CrfConfig(),
        unlabeled=Marginalize(),
        loss=Likelihood(),
    ),
)
