"""Curriculum-based positive-unlabeled learning: easy words first, then self-training.

Li, Zhou, Qiao, Wang, Li: *Re-Examine Distantly Supervised NER: A New Benchmark and a Simple Approach*, COLING 2025.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig, TagHead
from lacuner.methods.bond import OwnTeacher, divergence, mean_cost
from lacuner.methods.conf_mpu import CONFIDENCE, ConfidenceRisk
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.parts import State, Step, TrainingData
from lacuner.methods.roster import drop_untagged
from lacuner.methods.stages import Stage, StageContext, StageResult
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagTargets, TokenSupervision

DIFFICULTY = "difficulty"
"""Name of the per-word difficulty: the fraction of all words that are easier."""


class Voters(Stage):
    """``voters``: several models each leave out some untagged words; words that they agree on are easy.

    Each learns with the risk of ``conf-mpu`` from what is annotated, as if nothing were missing.
    """

    levels: ClassVar = ("token",)
    gives_numbers: ClassVar = (CONFIDENCE, DIFFICULTY)
    name: Literal["voters"] = "voters"
    voters: int = Field(5, ge=2, description="K: number of models")
    epochs: int = Field(3, ge=1, description="number of epochs for each model")
    dropped: float = Field(0.3, ge=0, lt=1, description="fraction of untagged words that each model leaves out")

    def check(self, method: Method, data: TrainingData) -> None:
        if not isinstance(getattr(method, "loss", None), ConfidenceRisk):
            raise ConfigError("stage=voters requires a loss that uses confidences — set loss=curriculum")

    def run(self, context: StageContext) -> StageResult:
        votes_of = {f"voter-{number}": partial(self._vote, context, number) for number in range(self.voters)}
        found = context.cached_all(votes_of)
        votes = [torch.stack([vote[str(index)] for vote in found]) for index in range(len(context.corpus))]  # (K, n, T)
        difficulty = ranks(torch.cat([disagreement(vote) for vote in votes]))
        parts = torch.split(difficulty, [vote.shape[1] for vote in votes])
        confidence = [1 - vote[..., 0].mean(0) for vote in votes]
        return StageResult(
            tokens={
                index: TokenSupervision(numbers={CONFIDENCE: own, DIFFICULTY: parts[index]})
                for index, own in enumerate(confidence)
            }
        )

    def _vote(self, context: StageContext, number: int) -> dict[str, Tensor]:
        """Tag probabilities of all words, ``(n, T)`` for each sentence."""
        assert isinstance(context.method, TokenMethod)
        assert isinstance(context.method.loss, ConfidenceRisk)
        risk = ConfidenceRisk(weight=context.method.loss.weight, prior=context.method.loss.prior)
        model = context.fit(
            f"voter-{number}",
            f"voter {number + 1}/{self.voters}",
            context.method.model_copy(update={"loss": risk}),
            epochs=self.epochs,
            supervision=self._annotation(context, number),
            seed_offset=number,
        )
        assert isinstance(model, TagModel)
        tags = model.tag_weights(context.corpus, range(len(context.corpus)), any_tag=True)
        return {str(index): table for index, table in tags.items()}

    def _annotation(self, context: StageContext, number: int) -> dict[int, TokenSupervision]:
        """Supervision in which annotated words are entities and all others are not, some of which are left out."""
        dropped = drop_untagged(context.corpus, self.dropped, np.random.default_rng([context.seed, number, 31]))
        known: dict[int, TokenSupervision] = {}
        for index, sentence in enumerate(context.corpus):
            annotated = torch.zeros(len(sentence))
            for entity in sentence.entities:
                annotated[entity.start : entity.end] = 1
            known[index] = replace(dropped[index], numbers={CONFIDENCE: annotated})
        return known


def disagreement(votes: Tensor) -> Tensor:
    """Mean symmetric KL divergence between all pairs of ``K`` voters, per word: ``(K, n, T) → (n,)``."""
    logs = votes.clamp(min=1e-12).log()
    pairs: Sequence[tuple[int, int]] = list(combinations(range(len(votes)), 2))
    divergences = [((votes[one] - votes[other]) * (logs[one] - logs[other])).sum(-1) for one, other in pairs]
    return torch.stack(divergences).mean(0)


def ranks(values: Tensor) -> Tensor:
    """Rank of each value as a fraction of their number, from 0; ties are ranked in order: ``(N,)``."""
    order = values.argsort(stable=True)
    found = torch.empty(len(values))
    found[order] = torch.arange(len(values)) / max(1, len(values))
    return found


class Curriculum(ConfidenceRisk, OwnTeacher):
    """``curriculum``: the risk of ``conf-mpu``, on easy words first; then self-training.

    With five stages, the easiest 16, 24, 28, 30 and all 31 of 31 words count.
    """

    name: Literal["curriculum"] = "curriculum"  # type: ignore[assignment]
    begin: float = Field(
        0.5, gt=0, lt=1, description="initial fraction of training, in which words are added, from the easiest to all"
    )
    stages: int = Field(5, ge=1, description="number of steps in which words are added")
    entity_confidence: float = Field(
        0.8, ge=0, lt=1, description="words to which the teacher gives a higher entity probability are trained on types"
    )

    def check(self, method: Method, data: TrainingData) -> None:
        super().check(method, data)
        if not any(DIFFICULTY in stage.gives_numbers for stage in method.stages()):
            raise ConfigError(f"loss={self.name} needs to know which words are easy — set stage=voters")

    def easiest(self, progress: float) -> float:
        """The fraction of words, easiest first, that are trained on at this point of training."""
        stage = min(self.stages - 1, int(progress / self.begin * self.stages))
        left = 0.5 ** (1 + stage)
        return (1 - left) / (1 - 0.5**self.stages)

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        probability = self.teacher_probabilities(head, targets, step, state)
        if probability is None:
            later = (targets.numbers[DIFFICULTY] >= self.easiest(step.progress)) & ~targets.known
            easy = replace(targets, ignored=targets.ignored | later)
            return super().__call__(head, decisions, log_weights, easy, step, state)
        goal = entity_targets(probability, targets.inside, self.entity_confidence)
        everywhere = torch.ones_like(targets.unknown)
        return mean_cost(divergence(decisions, goal), everywhere, decisions, log_weights, targets)


def entity_targets(probability: Tensor, words: Tensor, threshold: float) -> Tensor:
    """Soft targets ``(B, n, T)`` from a teacher's probabilities.

    For ``words`` ``(B, n)`` whose entity probability exceeds ``threshold``, the targets of types are their squared
    probabilities, normalized by the frequency of each type among these words. For the others, only ``O`` has a target: its
    probability.
    """
    entity = (1 - probability[..., 0] > threshold) & words
    types = probability[..., 1:]
    frequency = (types * entity[..., None]).sum((0, 1)).clamp(min=1e-12)  # (K,)
    weight = types.square() / frequency
    types = weight / weight.sum(-1, keepdim=True).clamp(min=1e-12)
    zero = torch.zeros_like(probability[..., :1])
    return torch.where(
        entity[..., None],
        torch.cat([zero, types], dim=-1),
        torch.cat([probability[..., :1], torch.zeros_like(types)], dim=-1),
    )


PARTS = (Voters, Curriculum)
METHODS = (
    TokenMethod(
        name="cupul",
        paper="Li et al. 2025, Re-Examine Distantly Supervised NER: A New Benchmark and a Simple Approach (COLING)",
        summary="Curriculum learning with the loss of conf-mpu, first on words that several models agree on; "
        "then self-training.",
        head=SoftmaxConfig(scheme="io"),
        unlabeled=Marginalize(),
        loss=Curriculum(),
        stage=Voters(),
    ),
)
