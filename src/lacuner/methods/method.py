"""Base classes of methods: named compositions of parts, at span level or at token level."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor

from lacuner.corpus import Corpus, Sentence
from lacuner.encoders import Encoder, Inputs
from lacuner.heads import SpanHeadConfig, SpanScores, TagHeadConfig
from lacuner.methods.parts import (
    Contrast,
    Inference,
    MethodPart,
    Negatives,
    Positives,
    Regularizer,
    RescoredBatch,
    Sampling,
    SamplingContext,
    SpanLoss,
    StateSizes,
    Step,
    TokenLoss,
    TrainingData,
    Unlabeled,
)
from lacuner.methods.stages import Stage
from lacuner.models.model import EncodedBatch, Model, PartState, batches_of, evaluating
from lacuner.models.span_model import SpanModel
from lacuner.models.tag_model import TagModel
from lacuner.parts import Part
from lacuner.supervision.spans import Spans, SpanTargets
from lacuner.supervision.tags import TagTargets, TokenSupervision, flat

_FORBIDDEN = float("-inf")


class Method(Part, ABC):
    """A method's metadata and its interface to training; subclasses add their parts as fields."""

    part_types: ClassVar[dict[str, type[Part]]]
    """The kinds of parts, and their base classes."""

    level: Literal["span", "token"]
    paper: str = Field(description="where it was published")
    summary: str = Field(description="the idea, in a sentence")
    head: SerializeAsAny[Part]
    training: dict[str, Any] = Field(default_factory=dict, description="training settings that belong to it")
    stage: SerializeAsAny[Stage] | None = None

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The kinds of parts of this method."""
        return tuple(cls.part_types)

    @classmethod
    def optional(cls, kind: str) -> bool:
        """Whether this kind of part may be absent (``none``)."""
        return NoneType in get_args(cls.model_fields[kind].annotation)

    def parts(self) -> Iterator[tuple[str, MethodPart]]:
        """Yield the parts that are present, by kind; the head is not included."""
        for kind in self.kinds():
            part = getattr(self, kind)
            if isinstance(part, MethodPart):
                yield kind, part

    def stages(self) -> tuple[Stage, ...]:
        """The stages that run before the model is trained."""
        return tuple(part for _, part in self.parts() if isinstance(part, Stage))

    def check(self, data: TrainingData) -> None:
        """Reject data that the method cannot be trained on."""
        for _, part in self.parts():
            part.check(self, data)

    def for_data(self, data: TrainingData, width_quantile: float | None = None) -> Self:
        """Return a copy with data-dependent settings filled in.

        Args:
            data: what the method will be trained on.
            width_quantile: raise the head's maximum span width to this quantile of entity widths.
        """
        return self.model_copy(update={kind: part.for_data(data) for kind, part in self.parts()})

    def build_model(self, encoder: Encoder, labels: Sequence[str]) -> Model:
        """Build a model with a new head and the initial state of all parts; ``labels[0]`` is ``O``."""
        model = self.new_model(encoder, labels)
        for kind, part in self.parts():
            kept = part.initial_state(self.state_sizes(model))
            if kept:
                model.state[kind] = PartState(kept, {})
        return model

    def begin_training(self, model: Model, sentences: int, lengths: Sequence[int] = ()) -> None:
        """Add to the model the state that parts need while training on this many sentences of these lengths."""
        sizes = self.state_sizes(model)._replace(lengths=lengths)
        for kind, part in self.parts():
            needed = part.training_state(sizes, sentences)
            if needed:
                needed = {name: value.to(model.device) for name, value in needed.items()}
                model.state[kind] = PartState(model.state_of(kind), needed)

    def rescored_parts(self, step: Step) -> dict[str, MethodPart]:
        """The parts that need a pass over all training data before this step, by kind."""
        return {kind: part for kind, part in self.parts() if part.rescores_at(step)}

    def rescores_at(self, step: Step) -> bool:
        """Whether any part needs a pass over all training data before this step."""
        return bool(self.rescored_parts(step))

    def rescore(
        self,
        model: Model,
        sentences: Sequence[Sentence],
        known: Sequence[TokenSupervision | None] | None,
        step: Step,
    ) -> None:
        """Run one pass over all training data, without dropout, for the parts that need it before this step.

        Args:
            model: the current model.
            sentences: all of them, as sampled for this epoch.
            known: results of an earlier stage for each sentence, if the method has stages.
            step: the next one.
        """
        asking = self.rescored_parts(step)
        found: dict[str, list[dict[str, Tensor]]] = {kind: [] for kind in asking}
        with evaluating(model):
            for chosen, tokens in batches_of(model, [sentence.tokens for sentence in sentences], range(len(sentences))):
                some = [sentences[index] for index in chosen]
                targets = model.targets(some, None if known is None else [known[index] for index in chosen])
                batch = RescoredBatch(model, chosen, some, model.encode(tokens), targets.to(model.device))
                for kind, part in asking.items():
                    found[kind].append(part.rescore(batch))
            for kind, part in asking.items():
                together = {name: torch.cat([one[name] for one in found[kind]]) for name in found[kind][0]}
                part.update_state(together, model.state_of(kind))

    @abstractmethod
    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> Model:
        """Build a model with a new head."""

    def state_sizes(self, model: Model) -> StateSizes:
        """The sizes that may determine the state of parts."""
        return StateSizes(len(model.labels), model.encoder.size, dict(model.named_parameters()))

    def before_step(self, model: Model, step: Step) -> None:
        """Let parts update their state or the model before a training step."""
        changing = [kind for kind, part in self.parts() if type(part).before_step is not MethodPart.before_step]
        with torch.no_grad():
            for kind in changing:
                getattr(self, kind).before_step(dict(model.named_parameters()), step, model.state_of(kind))

    @abstractmethod
    def training_loss(self, model: Model, inputs: Inputs, targets: Any, step: Step) -> Tensor:
        """Return the scalar loss of a batch."""

    def finish_training(self, model: Model, corpus: Corpus) -> None:
        """Make a final pass over the training set with the best weights."""

    def unlearnable(self, corpus: Corpus) -> str | None:
        """Describe in one sentence which annotated entities the method cannot learn; None if it can learn them all."""
        return None


class SpanMethod(Method):
    """A span-level method."""

    part_types: ClassVar = {
        "head": SpanHeadConfig,
        "negatives": Negatives,
        "positives": Positives,
        "loss": SpanLoss,
        "contrast": Contrast,
        "inference": Inference,
        "stage": Stage,
        "teacher": Stage,
    }

    level: Literal["span"] = "span"
    head: SerializeAsAny[SpanHeadConfig]
    negatives: SerializeAsAny[Negatives]
    positives: SerializeAsAny[Positives] | None = None
    loss: SerializeAsAny[SpanLoss]
    contrast: SerializeAsAny[Contrast] | None = None
    inference: SerializeAsAny[Inference] | None = None
    teacher: SerializeAsAny[Stage] | None = None

    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> SpanModel:
        return SpanModel(encoder, self.head, labels, self.inference)

    def state_sizes(self, model: Model) -> StateSizes:
        assert isinstance(model, SpanModel)
        sizes = super().state_sizes(model)
        return sizes._replace(hidden=model.head.hidden_size, max_span_width=model.max_span_width)

    def for_data(self, data: TrainingData, width_quantile: float | None = None) -> Self:
        method = super().for_data(data, width_quantile)
        head, bound = self.head, self.head.max_span_width
        widths = sorted(entity.end - entity.start for sentence in data.corpus for entity in sentence.entities)
        if width_quantile is not None and bound is not None and widths:
            needed = widths[math.ceil(width_quantile * len(widths)) - 1]
            head = head.model_copy(update={"max_span_width": max(bound, needed)})
        if head.outside_bias == "prior":
            head = head.model_copy(
                update={"outside_bias": outside_prior(data.corpus, method.negatives, head.max_span_width)}
            )
        return method.model_copy(update={"head": head})

    def training_loss(self, model: Model, inputs: Inputs, targets: SpanTargets, step: Step) -> Tensor:
        assert isinstance(model, SpanModel)
        parts = targets.partition(model.max_span_width)
        projected = model.head.project(model.encoder(inputs))
        context = SamplingContext(
            parts.unknown,
            parts.positives,
            targets.lengths,
            partial(model.head.score_no_grad, projected),
            partial(model.head.represent, projected),
            step,
            model.state_of("negatives"),
            targets.negative.sum(-1) == 1,
        )
        sampled = parts.unknown[self.negatives.sample(context)]
        if step.watch is not None:
            step.watch(sampled)
        negatives = Spans.concatenate([parts.negatives, sampled])
        may_be = targets.negative[negatives.row]  # (negatives, L)
        may_be[: parts.rejected, 1:] = False
        positives, labels = parts.positives, parts.possible
        if self.positives is not None:
            kept = self.positives.keep(positives, step, model.state_of("positives"))
            positives, labels = positives[kept], labels[kept]
        trained = Spans.concatenate([positives, negatives])
        scores: SpanScores = model.head(projected, trained, hidden=self.contrast is not None)
        if not len(scores.logits):
            return scores.logits.sum()
        possible = torch.cat([labels, may_be])  # (N, L)
        is_sampled = torch.arange(len(possible), device=possible.device) >= len(possible) - len(sampled)
        costs = self.loss(scores.logits, possible, is_sampled, step, model.state_of("loss"))
        loss = self.loss.reduce(costs, targets.lengths.sum())
        if self.contrast is None:
            return loss
        assert scores.hidden is not None
        certain = possible.sum(-1) == 1
        hidden, label = scores.hidden[certain], possible[certain].int().argmax(-1)
        contrast = self.contrast(hidden, label, step, model.state_of("contrast"))
        return torch.lerp(loss, contrast, self.contrast.weight)

    def finish_training(self, model: Model, corpus: Corpus) -> None:
        if self.inference is None:
            return
        assert isinstance(model, SpanModel)
        with evaluating(model):
            self.inference.fit(_hidden_layers(model, corpus), model.state_of("inference"))

    def unlearnable(self, corpus: Corpus) -> str | None:
        max_width = self.head.max_span_width
        widths = [entity.end - entity.start for sentence in corpus for entity in sentence.entities]
        too_wide = 0 if max_width is None else sum(width > max_width for width in widths)
        if not too_wide:
            return None
        return (
            f"{too_wide} of {len(widths)} entities have more than {max_width} words and cannot be found "
            f"(--set head.max_span_width={max(widths)} finds all)."
        )


def outside_prior(corpus: Corpus, negatives: Negatives, max_width: int | None) -> float:
    """Bias of ``O`` such that an untrained model predicts entities as often as training will show them.

    With ``L`` labels of logit 0, ``O`` has odds ``exp(b) / L``, set to the odds of negatives to positives in training.
    """
    lengths = torch.tensor([len(sentence) for sentence in corpus], dtype=torch.long)
    width = lengths if max_width is None else lengths.clamp(max=max_width)
    spans = width * lengths - width * (width - 1) // 2
    positives = torch.tensor(
        [
            len({(e.start, e.end) for e in sentence.entities if max_width is None or e.end - e.start <= max_width})
            for sentence in corpus
        ],
        dtype=torch.long,
    )
    others = spans - positives
    complete = torch.tensor([sentence.complete for sentence in corpus], dtype=torch.bool)
    sampled = torch.where(complete, others, negatives.expected(others, lengths))
    if not positives.sum() or not sampled.sum():
        return 0.0
    return math.log(len(corpus.labels) * float(sampled.sum()) / float(positives.sum()))


def _hidden_layers(model: SpanModel, corpus: Corpus) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield hidden layers and label indices of all spans of a corpus, batch by batch."""
    for chosen, tokens in batches_of(model, corpus.tokens, range(len(corpus))):
        targets = model.targets([corpus[index] for index in chosen]).to(model.device)
        yield from model.hidden_layers(model.encode(tokens), targets)


class TokenMethod(Method):
    """A token-level method: a tagger and its treatment of unlabeled words."""

    part_types: ClassVar = {
        "head": TagHeadConfig,
        "unlabeled": Unlabeled,
        "sampling": Sampling,
        "loss": TokenLoss,
        "regularizer": Regularizer,
        "stage": Stage,
    }

    level: Literal["token"] = "token"
    head: SerializeAsAny[TagHeadConfig]
    unlabeled: SerializeAsAny[Unlabeled]
    sampling: SerializeAsAny[Sampling] | None = None
    loss: SerializeAsAny[TokenLoss]
    regularizer: SerializeAsAny[Regularizer] | None = None

    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> TagModel:
        return TagModel(encoder, self.head, labels, self.sampling is not None and self.sampling.non_entity_class)

    def training_loss(self, model: Model, inputs: Inputs, targets: TagTargets, step: Step) -> Tensor:
        assert isinstance(model, TagModel)
        decisions = model.decisions(EncodedBatch(model.encoder(inputs), targets.lengths))
        log_weights = self._log_weights(model, targets, step)
        step = step._replace(score_with=partial(model.decisions_with, inputs))
        loss = self.loss(model.head, decisions, log_weights, targets, step, model.state_of("loss"))
        if self.regularizer is None:
            return loss
        expected = model.head.expected(decisions, targets.lengths, model.in_entity).sum()
        return loss + self.regularizer(expected / targets.lengths.sum())

    def _log_weights(self, model: TagModel, targets: TagTargets, step: Step) -> Tensor:
        """Log-weights of the tags of each word: ``(B, n, T)``."""
        allowed = self.unlabeled.allow(targets)
        weights = torch.zeros(allowed.shape, device=allowed.device).masked_fill(~allowed, _FORBIDDEN)
        if targets.weights is not None:
            given = targets.unknown & (targets.weights > _FORBIDDEN).any(-1)
            weights = torch.where(given[..., None], targets.weights, weights)
        if self.sampling is None:
            return weights
        sampled = self.sampling.sample(targets.unknown, targets.lengths, step)
        if step.watch is not None:
            step.watch(sampled)
        return _tag_as_non_entities(weights, sampled, targets.allowed, model)

    def unlearnable(self, corpus: Corpus) -> str | None:
        return lost_to_overlaps(corpus)


def lost_to_overlaps(corpus: Corpus) -> str | None:
    """Describe in one sentence how many annotated entities are lost by a method that cannot predict overlapping ones."""
    lost, count = count_overlapping(corpus)
    if not lost:
        return None
    return f"{lost} of {count} entities overlap others; a tagger cannot learn them (a span-level method can)."


def count_overlapping(corpus: Corpus) -> tuple[int, int]:
    """Count the annotated entities that overlap others and so cannot be encoded as tags, and all entities."""
    lost = annotated = 0
    for sentence in corpus:
        spans = {(entity.start, entity.end) for entity in sentence.entities}
        lost += len(spans) - len(flat(sentence.entities))
        annotated += len(spans)
    return lost, annotated


def _tag_as_non_entities(weights: Tensor, sampled: Spans, allowed: Tensor, model: TagModel) -> Tensor:
    """Tag these spans as non-entities; labels that the sentence is not annotated for remain possible."""
    if not len(sampled):
        return weights
    own_class, label = model.tags.non_entity_class, len(model.labels)
    rows: list[int] = []
    words: list[int] = []
    tags: list[int] = []
    for row, start, end in zip(sampled.row.tolist(), sampled.start.tolist(), sampled.end.tolist(), strict=True):
        rows += [row] * (end - start)
        words += range(start, end)
        tags += model.tags.write(end - start, label) if own_class else [0] * (end - start)
    weights[rows, words] = torch.zeros_like(weights[rows, words]).masked_fill(~allowed[rows, words], _FORBIDDEN)
    weights[rows, words, 0] = _FORBIDDEN
    weights[rows, words, tags] = 0.0
    return weights
