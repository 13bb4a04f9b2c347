"""Self-training: a partly trained tagger becomes its own teacher.

Liang, Yu, Jiang, Er, Wang, Zhao, Zhang: *BOND: BERT-Assisted Open-Domain Named Entity Recognition with Distant Supervision*,
KDD 2020.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig, TagHead
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import State, StateSizes, Step, TokenLoss, TrainingData
from lacuner.methods.token import Outside
from lacuner.supervision.tags import TagTargets, rejected_tags

_TEACHER, _INITIAL = "teacher.", "initial."


class OwnTeacher(TokenLoss):
    """Base of losses that first fit the annotation, then a sequence of teachers copied from the model itself."""

    levels: ClassVar = ("token",)
    teaches_outside: ClassVar = True
    begin: float = Field(
        0.4,
        gt=0,
        lt=1,
        description="initial fraction of training, in which the model learns from the annotation itself",
    )
    teachers: int = Field(5, ge=1, description="number of successive teachers, each a copy of the current model")
    reinitialize: bool = Field(
        False, description="reset the model to its initial weights whenever the teacher is replaced"
    )

    def check(self, method: Method, data: TrainingData) -> None:
        if method.head.name == "crf":
            raise ConfigError(f"loss={self.name} does not train transitions — set head=softmax")
        if any(getattr(part, "non_entity_class", False) for _, part in method.parts()):
            raise ConfigError(
                f"loss={self.name} has no label for sampled non-entities — set sampling.label=O, or sampling=none"
            )

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        copies = (_TEACHER, _INITIAL) if self.reinitialize else (_TEACHER,)
        kept = {f"{copy}{name}": weight.detach().clone() for copy in copies for name, weight in sizes.weights.items()}
        return {"number": torch.zeros((), dtype=torch.long), **kept}

    def teacher_number(self, progress: float) -> int:
        """Number of the current teacher, from 1; 0 before the first."""
        if progress < self.begin:
            return 0
        return 1 + int((progress - self.begin) / (1 - self.begin) * self.teachers)

    def before_step(self, weights: State, step: Step, state: State) -> None:
        due = self.teacher_number(step.progress)
        if due <= int(state["number"]):
            return
        state["number"].fill_(due)
        for name, weight in weights.items():
            state[_TEACHER + name].copy_(weight)
            if self.reinitialize:
                weight.copy_(state[_INITIAL + name])

    def teacher_probabilities(self, head: TagHead, targets: TagTargets, step: Step, state: State) -> Tensor | None:
        """Teacher's tag probabilities for the batch, ``(B, n, T)``; None before the first teacher.

        Tags that a reviewer has rejected are excluded. Incomplete annotation excludes nothing: it may be wrong.
        """
        if not int(state["number"]):
            return None
        assert step.score_with is not None
        teacher = {name.removeprefix(_TEACHER): value for name, value in state.items() if name.startswith(_TEACHER)}
        excluded = rejected_tags(targets, head.tags)
        return step.score_with(teacher).masked_fill(excluded, float("-inf")).softmax(-1)


class SelfTraining(OwnTeacher):
    """``self-training``: trains on the annotation first, then on confident predictions of earlier copies of the model.

    The first stage ends early, before wrong and missing labels are learned by heart. Then a copy of the model is its teacher,
    whose probabilities, sharpened, are its targets; from time to time the teacher is replaced by the model as it is then.
    """

    name: Literal["self-training"] = "self-training"
    confidence: float = Field(
        0.9, ge=0, lt=1, description="ε: train only on words whose largest target probability is above this"
    )
    divergence: Literal["kl", "linear"] = Field(
        "kl", description="loss for deviating from a target: kl (as printed), or linear in the scores (as released)"
    )

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        probability = self.teacher_probabilities(head, targets, step, state)
        if probability is None:
            return head.loss(decisions, log_weights, targets.lengths, targets.ignored)
        goal = soft_targets(probability, targets.inside)
        taught = goal.amax(-1) > self.confidence
        costs = divergence(decisions, goal, self.divergence == "linear")
        return mean_cost(costs, taught, decisions, log_weights, targets)


def soft_targets(probability: Tensor, words: Tensor) -> Tensor:
    """Soft targets from probabilities ``(B, n, T)``: squared, and divided by tag frequency among the ``words`` ``(B, n)``.

    A word's targets sum to 1. Squaring sharpens; the division keeps frequent tags from dominating.
    """
    frequency = (probability * words[..., None]).sum((0, 1)).clamp(min=1e-12)  # (T,)
    weight = probability.square() / frequency
    return weight / weight.sum(-1, keepdim=True).clamp(min=1e-12)


def divergence(decisions: Tensor, goal: Tensor, linear: bool = False) -> Tensor:
    """Divergence of each word's prediction from its targets ``goal``, both ``(B, n, T)``: ``(B, n)``.

    Args:
        decisions: scores of the tags.
        goal: target probabilities.
        linear: use the scores as log-probabilities, as the released code does.
    """
    log_probability = decisions if linear else decisions.log_softmax(-1)
    return (goal.xlogy(goal) - goal * log_probability).sum(-1)


def mean_cost(costs: Tensor, taught: Tensor, decisions: Tensor, log_weights: Tensor, targets: TagTargets) -> Tensor:
    """Mean loss over the words of a batch that have a confident teacher target or a known label.

    Known words of complete sentences are trained on their annotation.

    Args:
        costs: ``(B, n)`` divergence from the teacher.
        taught: ``(B, n)`` bool, words for which the teacher is confident.
        decisions: ``(B, n, T)`` scores of the tags.
        log_weights: ``(B, n, T)`` log-weights of the tags according to the annotation.
        targets: what is known about the words.
    """
    annotation = decisions.logsumexp(-1) - (decisions + log_weights).logsumexp(-1)
    counted = (taught | targets.known) & targets.taught
    costs = torch.where(targets.known, annotation, costs)[counted]
    return costs.mean() if len(costs) else decisions.sum() * 0


PARTS = (SelfTraining,)
METHODS = (
    TokenMethod(
        name="bond",
        paper="Liang et al. 2020, BOND: BERT-Assisted Open-Domain NER with Distant Supervision (KDD)",
        summary="A tagger is trained briefly on the annotation, then self-trained on confident predictions of "
        "earlier copies of itself.",
        head=SoftmaxConfig(),
        unlabeled=Outside(),
        loss=SelfTraining(),
    ),
)
