"""RoSTER: a noise-robust loss, distillation of an ensemble, and self-training.

Meng, Zhang, Huang, Wang, Zhang, Ji, Han: *Distantly-Supervised Named Entity Recognition with Noise-Robust Learning and
Language Model Augmented Self-Training*, EMNLP 2021.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, kl_div, logsigmoid

from lacuner.corpus import Corpus, Sentence
from lacuner.encoders import EncodedWords, Encoder, Inputs
from lacuner.errors import ConfigError
from lacuner.heads import TagHeadConfig
from lacuner.heads.softmax import SoftmaxHead
from lacuner.methods.gce import GeneralizedTokenLoss, mean_of, of_words, word_offsets
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import MethodPart, RescoredBatch, State, StateSizes, Step, TokenLoss, TrainingData, Unlabeled
from lacuner.methods.stages import Stage, StageContext, StageResult
from lacuner.methods.token import Outside
from lacuner.models.model import EncodedBatch, Model
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import (
    TagScheme,
    TagSet,
    TagTargets,
    TokenSupervision,
    build_tag_targets,
    rejected_tags,
)


class EntityAndTypeConfig(TagHeadConfig):
    """``entity-and-type``: predicts for each word whether it is in an entity and, if so, of which type."""

    name: Literal["entity-and-type"] = "entity-and-type"
    scheme: TagScheme = Field(
        "io", description="tagging scheme: bioes, bio2 or io; with io, adjacent entities with the same label are merged"
    )

    def build(self, size: int, tags: TagSet) -> "EntityAndTypeHead":
        return EntityAndTypeHead(size, tags)


class EntityAndTypeHead(SoftmaxHead):
    """A sigmoid ``e`` and a softmax ``p``; decision vectors are ``log(1 - e)`` and ``log(e · p)``."""

    def forward(self, words: EncodedWords) -> Tensor:
        output = super().forward(words)  # (B, n, T)
        entity, types = output[..., :1], output[..., 1:]
        return torch.cat([logsigmoid(-entity), logsigmoid(entity) + types.log_softmax(-1)], dim=-1)


class Ensemble(Stage):
    """``ensemble``: models with different seeds and omitted untagged words; their mean prediction is taught (§3.2)."""

    levels: ClassVar = ("token",)
    name: Literal["ensemble"] = "ensemble"
    models: int = Field(5, ge=1, description="K: number of models")
    dropped: float = Field(
        0.5, ge=0, lt=1, description="fraction of untagged words that each model is never trained on"
    )

    def check(self, method: Method, data: TrainingData) -> None:
        if not isinstance(method, Roster):
            raise ConfigError("stage=ensemble: only roster can learn from an ensemble — choose --method roster")

    def run(self, context: StageContext) -> StageResult:
        method = context.method
        assert isinstance(method, Roster)
        found = context.cached_all(
            {f"ensemble-{number}": partial(self._member, context, number) for number in range(1, self.models + 1)}
        )
        tags = TagSet(method.head.scheme, tuple(context.labels))
        known = {}
        for index, sentence in enumerate(context.corpus):
            mean = torch.stack([tables[str(index)] for tables in found]).mean(0)  # (n, T)
            known[index] = TokenSupervision(tag_weights=as_known(mean, sentence, tags).log())
        return StageResult(tokens=known)

    def _member(self, context: StageContext, number: int) -> dict[str, Tensor]:
        """Tag probabilities of one ensemble member, ``(n, T)`` for each sentence."""
        generator = np.random.default_rng([context.seed, number, 31])
        known = drop_untagged(context.corpus, self.dropped, generator)
        alone = context.method.model_copy(update={"stage": None, "self_training": None})
        title = f"model {number}/{self.models}"
        model = context.fit(f"ensemble-{number}", title, alone, supervision=known, seed_offset=number)
        assert isinstance(model, TagModel)
        tags = model.tag_weights(context.corpus, range(len(context.corpus)), any_tag=True)
        return {str(index): table for index, table in tags.items()}


def drop_untagged(corpus: Corpus, fraction: float, generator: np.random.Generator) -> dict[int, TokenSupervision]:
    """Supervision that ignores a random fraction of the unlabeled words."""
    dropped = {}
    for index, sentence in enumerate(corpus):
        known = {word for entity in sentence.entities for word in range(entity.start, entity.end)}
        known |= {span.start for span in sentence.non_entities if span.end - span.start == 1}
        if sentence.complete:
            known |= set(range(len(sentence))) - sentence.unknown_tokens
        drawn = (generator.random(len(sentence)) < fraction).nonzero()[0].tolist()
        dropped[index] = TokenSupervision(ignored=tuple(word for word in drawn if word not in known))
    return dropped


def as_known(probabilities: Tensor, sentence: Sentence, tags: TagSet) -> Tensor:
    """Tag probabilities of a sentence, ``(n, T)``, renormalized without the tags that are known to be impossible.

    These are the tags excluded by the annotation of a complete sentence, and the entity tags of rejected words.
    """
    targets = build_tag_targets([sentence], tags)
    possible = (targets.possible if sentence.complete else ~rejected_tags(targets, tags))[0]
    weighed = probabilities.clamp(min=1e-9) * possible
    return weighed / weighed.sum(-1, keepdim=True)


class SelfTraining(MethodPart):
    """``augmented``: late in training, the model learns its own sharpened types, also on augmented sentences (§3.3).

    The targets of words that are probably in entities are its own types, sharpened. A copy of each sentence, in which some
    words are replaced, has the same targets where it leads to the same type.
    """

    levels: ClassVar = ("token",)
    name: Literal["augmented"] = "augmented"
    fraction: float = Field(0.3, gt=0, lt=1, description="final fraction of training, which is self-training")
    min_entity: float = Field(
        0.8, ge=0, le=1, description="words with a lower entity probability are not trained on types"
    )
    interval: int = Field(100, ge=1, description="steps between updates of the self-training targets")
    replaced: float = Field(
        0.15,
        ge=0,
        lt=1,
        description="fraction of words that are replaced in the augmented copy of a sentence; 0: no copies",
    )
    same_case: bool = Field(
        True, description="replace capitalized words only by capitalized ones, and others only by others"
    )

    def check(self, method: Method, data: TrainingData) -> None:
        if method.stage is None:
            raise ConfigError(
                "self_training=augmented continues from an ensemble, but stage=none — "
                "set self_training=none, too, or stage=ensemble"
            )
        scheme = getattr(method.head, "scheme", None)
        if scheme != "io":
            raise ConfigError(
                f"self_training=augmented trains whole types, but head.scheme={scheme} splits them — "
                "set head.scheme=io, or self_training=none"
            )

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        targets = torch.zeros(sum(sizes.lengths), sizes.labels - 1)
        return {"targets": targets, "offset": word_offsets(sizes.lengths)}

    def first_epoch(self, epochs: int) -> int:
        """First epoch of self-training; at least one epoch precedes it."""
        return max(1, epochs - max(1, round(self.fraction * epochs)))

    def rescores_at(self, step: Step) -> bool:
        begin = self.first_epoch(step.epochs)
        at_first = step.epoch == begin and step.batch == 0
        return at_first or (step.epoch >= begin and step.number % self.interval == 0)

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """Type probabilities of words that are probably inside entities; in complete sentences, the annotated types."""
        assert isinstance(batch.model, TagModel)
        probable = batch.model.decisions(batch.words).softmax(-1)
        targets: TagTargets = batch.targets
        sure = targets.known & (targets.allowed.sum(-1) == 1)
        probable = torch.where(sure[..., None], targets.allowed.to(probable.dtype), probable)
        row, word = (targets.taught & (1 - probable[..., 0] > self.min_entity)).nonzero(as_tuple=True)
        types = probable[row, word, 1:]
        sentence = torch.tensor(batch.indices, device=row.device)[row]
        return {"sentence": sentence, "word": word, "types": types / types.sum(-1, keepdim=True)}

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        state["targets"].zero_()
        state["targets"][state["offset"][found["sentence"]] + found["word"]] = sharpened(found["types"])

    def copies(self, sentences: Sequence[Sequence[str]], generator: torch.Generator) -> list[list[str]]:
        """Copies of the sentences, with some words replaced by random words of the batch (the unigram distribution)."""
        pool = [word for sentence in sentences for word in sentence]
        changed = torch.rand(len(pool), generator=generator) < self.replaced
        drawn = torch.randint(max(1, len(pool)), (len(pool),), generator=generator)
        words = [
            pool[other] if change and (not self.same_case or _is_capital(pool[other]) == _is_capital(word)) else word
            for word, other, change in zip(pool, drawn.tolist(), changed.tolist(), strict=True)
        ]
        rest = iter(words)
        return [[next(rest) for _ in sentence] for sentence in sentences]


def _is_capital(word: str) -> bool:
    return word[:1].isupper()


def sharpened(types: Tensor) -> Tensor:
    """``p² / Σ p``, the sum over all words, normalized: sharpens, and down-weights frequent types: ``(N, K)``."""
    weighed = types.square() / types.sum(0).clamp(min=1e-9)
    return weighed / weighed.sum(-1, keepdim=True)


def distillation_loss(decisions: Tensor, soft: Tensor) -> Tensor:
    """Cross-entropy of entity vs. non-entity plus type divergence, each a mean over words: ``(N, T), (N, T) → ()``."""
    wanted = soft[:, 1:] / soft[:, 1:].sum(-1, keepdim=True).clamp(min=1e-9)
    return entity_loss(decisions, soft) + mean_of(type_divergence(decisions, wanted))


def entity_loss(decisions: Tensor, soft: Tensor) -> Tensor:
    """Mean cross-entropy of entity vs. non-entity: ``(N, T), (N, T) → ()``."""
    logit = decisions[:, 1:].logsumexp(-1) - decisions[:, 0]
    return mean_of(binary_cross_entropy_with_logits(logit, 1 - soft[:, 0], reduction="none"))


def type_divergence(decisions: Tensor, wanted: Tensor) -> Tensor:
    """``KL(wanted || p(type | entity))`` of each word: ``(N, T), (N, K) → (N,)``."""
    return kl_div(decisions[:, 1:].log_softmax(-1), wanted, reduction="none").sum(-1)


@dataclass(frozen=True)
class SoftTagTargets(TagTargets):
    """Tag targets, plus the ensemble's probabilities and the tokens of a batch."""

    soft: Tensor | None = None  # (B, n, T) probabilities, 0 in the padding
    tokens: tuple[tuple[str, ...], ...] = ()


class RosterModel(TagModel):
    """A tagger trained on tag probabilities, also where a tag is annotated."""

    def targets(
        self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None
    ) -> SoftTagTargets:
        targets = super().targets(sentences, known)
        tables = [None if found is None else found.tag_weights for found in known or ()]
        soft = torch.zeros(targets.allowed.shape)
        for row, table in enumerate(tables):
            if table is not None:
                soft[row, : len(table)] = table.exp()
        is_taught = any(table is not None for table in tables)
        return SoftTagTargets(
            **vars(targets), soft=soft if is_taught else None, tokens=tuple(s.tokens for s in sentences)
        )


class Roster(TokenMethod):
    """Learns from labels, then from an ensemble of such models, and finally from its own predictions."""

    part_types: ClassVar = {
        "head": TagHeadConfig,
        "unlabeled": Unlabeled,
        "loss": TokenLoss,
        "stage": Stage,
        "self_training": SelfTraining,
    }

    self_training: SerializeAsAny[SelfTraining] | None = None

    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> RosterModel:
        return RosterModel(encoder, self.head, labels)

    def rescored_parts(self, step: Step) -> dict[str, MethodPart]:
        asking = super().rescored_parts(step)
        if isinstance(self.stage, Ensemble):  # its tags replace the labels, so the loss removes no labels
            asking.pop("loss", None)
        return asking

    def training_loss(self, model: Model, inputs: Inputs, targets: TagTargets, step: Step) -> Tensor:
        assert isinstance(model, RosterModel)
        assert isinstance(targets, SoftTagTargets)
        if targets.soft is None:
            return super().training_loss(model, inputs, targets, step)
        words = targets.taught & (targets.soft.sum(-1) > 0)
        decisions = model.decisions(EncodedBatch(model.encoder(inputs), targets.lengths))
        if self.self_training is None or step.epoch < self.self_training.first_epoch(step.epochs):
            return distillation_loss(decisions[words], targets.soft[words])
        state = model.state_of("self_training")
        wanted = of_words(state["targets"], state["offset"], targets, step)  # (B, n, K)
        chosen = words & (wanted.sum(-1) > 0)
        loss = entity_loss(decisions[words], targets.soft[words])
        loss = loss + mean_of(type_divergence(decisions[chosen], wanted[chosen]))
        if not self.self_training.replaced:
            return loss
        copied = model.decisions(model.encode(self.self_training.copies(targets.tokens, step.generator)))
        agreed = chosen & (copied[..., 1:].argmax(-1) == decisions[..., 1:].argmax(-1))
        return loss + mean_of(type_divergence(copied[agreed], wanted[agreed]))


PARTS = (EntityAndTypeConfig, Ensemble, SelfTraining)
METHODS = (
    Roster(
        name="roster",
        paper="Meng et al. 2021, Distantly-Supervised NER with Noise-Robust Learning and Self-Training (EMNLP)",
        summary="An ensemble trained with a noise-robust loss teaches one model, which finally self-trains on "
        "its confident predictions.",
        head=EntityAndTypeConfig(),
        unlabeled=Outside(),
        loss=GeneralizedTokenLoss(),
        stage=Ensemble(),
        self_training=SelfTraining(),
    ),
)
