"""``token``: each word is tagged independently, and unlabeled words are ``O``. The naive tagger baseline."""

from typing import Literal

from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig, TagHead
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import State, Step, TokenLoss, TrainingData, Unlabeled
from lacuner.supervision.tags import TagTargets


class Outside(Unlabeled):
    """``outside``: only ``O``, or a label that was not searched for."""

    name: Literal["outside"] = "outside"

    def check(self, method: Method, data: TrainingData) -> None:
        for stage in method.stages():
            if stage.gives_tag_weights:
                raise ConfigError(
                    f"stage={stage.name} weighs the tags of untagged words, but unlabeled=outside leaves no choice — "
                    "set unlabeled=marginalize, or stage=none"
                )

    def allow(self, targets: TagTargets) -> Tensor:
        return targets.allowed


class Likelihood(TokenLoss):
    """``likelihood``: negative log of the summed probability of all allowed tag sequences."""

    name: Literal["likelihood"] = "likelihood"

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        return head.loss(decisions, log_weights, targets.lengths, targets.ignored)


PARTS = (Outside, Likelihood)
METHODS = (
    TokenMethod(
        name="token",
        paper="the naive tagger of all papers: a softmax over the tags of every word",
        summary="A softmax tagger; every untagged word is O, and each word is tagged independently.",
        head=SoftmaxConfig(),
        unlabeled=Outside(),
        loss=Likelihood(),
    ),
)
