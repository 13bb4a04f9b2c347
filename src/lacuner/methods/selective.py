"""Span selection: negatives that overlap an entity are certain; other labels are dropped where the model contradicts them.

Ding et al.: *Towards DS-NER: Unveiling and Addressing Latent Noise in Distant Annotations*, IEEE TKDE 2025.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.encoders.device import exact_dtype
from lacuner.heads import ProductConfig
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Positives, RescoredBatch, SamplingContext, State, StateSizes, Step, TrainingData
from lacuner.methods.uniform import Uniform, largest_of_each_row, random_keys
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import flat


class SelectedNegatives(Uniform):
    """``selected``: ``⌈λ n⌉`` spans that overlap an annotated one or that the model does not take for an entity.

    Where entities do not overlap, a span that overlaps an annotated one is certainly none. At first negatives are drawn from
    these only; before each later epoch the model says which of the others it takes for an entity, and these are left out.
    """

    name: Literal["selected"] = "selected"  # type: ignore[assignment]
    certain: bool | None = Field(
        None,
        description="treat spans that overlap an annotated one as certain negatives; none: yes, unless "
        "annotated spans overlap each other",
    )
    first_epochs: int = Field(
        1,
        ge=1,
        description="number of initial epochs that sample only certain negatives, before the model excludes any spans",
    )

    def for_data(self, data: TrainingData) -> "SelectedNegatives":
        if self.certain is not None:
            return self
        nested = any(len({e.span for e in s.entities}) > len(flat(s.entities)) for s in data.corpus)
        return self.model_copy(update={"certain": not nested})

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        return span_flags(sizes)

    def rescores_at(self, step: Step) -> bool:
        return step.epoch >= self.first_epochs and step.batch == 0

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """The unknown spans of a batch that the model predicts as entities."""
        assert isinstance(batch.model, SpanModel)
        unknown = batch.targets.partition(batch.model.max_span_width).unknown
        logits = batch.model.scorer(batch.words)(unknown).logits
        return _described(batch, unknown[logits.argmax(-1) != 0])

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        raise_flags(found, state)

    def sample(self, context: SamplingContext) -> Tensor:
        candidates = self.candidates(context).nonzero().squeeze(-1)
        row = context.unknown.row[candidates]
        keys = random_keys(row, context.step.generator)
        return candidates[largest_of_each_row(keys, row, self.counts(context.lengths))]

    def candidates(self, context: SamplingContext) -> Tensor:
        """``(N,)`` bool: the unknown spans of a batch that may be sampled."""
        certain = torch.zeros_like(context.unknown.row, dtype=torch.bool)
        if self.certain:
            certain = overlapping(context.unknown, context.positives, context.lengths)
            if context.all_labels is not None:  # an entity of an unannotated label may overlap
                certain = certain & context.all_labels[context.unknown.row]
        if context.step.epoch >= self.first_epochs:
            return certain | ~flagged(context.unknown, context.step, context.state)
        return certain if self.certain else ~certain


class ConfidentPositives(Positives):
    """``confident``: annotated spans whose label is at least as probable as on average over the spans annotated with it.

    Of a label that the model does not know yet (it predicts it for too few of the spans that have it) all spans are kept.
    """

    levels: ClassVar = ("span",)
    name: Literal["confident"] = "confident"
    first_epochs: int = Field(1, ge=1, description="number of initial epochs that use all annotated spans")
    min_agreement: float = Field(
        0.6,
        ge=0,
        le=1,
        description="fraction of a label's annotated spans that the model must predict as annotated before "
        "any of them is left out",
    )

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        return span_flags(sizes)

    def rescores_at(self, step: Step) -> bool:
        return step.epoch >= self.first_epochs and step.batch == 0

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        """Predictions for annotated spans with a single label, in incomplete sentences."""
        assert isinstance(batch.model, SpanModel)
        parts = batch.targets.partition(batch.model.max_span_width)
        doubtful = (parts.possible.sum(-1) == 1) & ~batch.targets.complete[parts.positives.row]
        spans, label = parts.positives[doubtful], parts.possible[doubtful].int().argmax(-1)
        probabilities = batch.model.scorer(batch.words)(spans).logits.softmax(-1)
        return _described(batch, spans) | {
            "label": label,
            "probability": probabilities.gather(1, label[:, None]).squeeze(1),
            "agrees": probabilities.argmax(-1) == label,
        }

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        left_out = less_probable(found["label"], found["probability"], found["agrees"], self.min_agreement)
        raise_flags({name: found[name][left_out] for name in ("sentence", "start", "end")}, state)

    def keep(self, positives: Spans, step: Step, state: State) -> Tensor:
        if step.epoch < self.first_epochs:
            return torch.ones_like(positives.row, dtype=torch.bool)
        return ~flagged(positives, step, state)


def less_probable(label: Tensor, probability: Tensor, agrees: Tensor, min_agreement: float) -> Tensor:
    """Spans whose label is less probable than the mean over spans of that label: ``(P,)`` bool.

    Args:
        label: ``(P,)`` label of each annotated span.
        probability: ``(P,)`` predicted probability of this label.
        agrees: ``(P,)`` bool, whether the model predicts it.
        min_agreement: only labels with a greater fraction of agreement lose any spans.
    """
    probability = probability.to(exact_dtype(probability.device))
    count = torch.bincount(label).clamp(min=1)  # (L,)
    mean = torch.bincount(label, probability) / count
    known = torch.bincount(label[agrees], minlength=len(count)) / count > min_agreement
    return known[label] & (probability < mean[label])


def overlapping(spans: Spans, entities: Spans, lengths: Tensor) -> Tensor:
    """Whether each span of a batch shares a word with an entity: ``(N,)`` bool."""
    longest = int(lengths.max()) if len(lengths) else 0
    edges = torch.zeros(len(lengths), longest + 1, dtype=torch.long, device=lengths.device)
    edges.index_put_((entities.row, entities.start), torch.ones_like(entities.row), accumulate=True)
    edges.index_put_((entities.row, entities.end), -torch.ones_like(entities.row), accumulate=True)
    inside = edges.cumsum(1)[:, :-1] > 0  # (B, n): words of entities
    before = torch.nn.functional.pad(inside.long().cumsum(1), (1, 0))  # (B, n + 1)
    return before[spans.row, spans.end] > before[spans.row, spans.start]


def span_flags(sizes: StateSizes) -> dict[str, Tensor]:
    """A flag for each span of the training data, all cleared."""
    lengths = torch.tensor(sizes.lengths, dtype=torch.long)
    width = lengths if sizes.max_span_width is None else lengths.clamp(max=sizes.max_span_width)
    cells = lengths * width
    return {
        "left_out": torch.zeros(int(cells.sum()), dtype=torch.bool),
        "offset": cells.cumsum(0) - cells,  # (sentences,) offset of each sentence's flags
        "width": width,  # (sentences,) flags per start word
    }


def raise_flags(found: Mapping[str, Tensor], state: State) -> None:
    """Set the flags of these spans (``sentence``, ``start`` and ``end``, ``(N,)`` each), and clear all others."""
    state["left_out"].fill_(False)
    state["left_out"][_cells(found["sentence"], found["start"], found["end"], state)] = True


def flagged(spans: Spans, step: Step, state: State) -> Tensor:
    """Whether each span of a batch is flagged: ``(N,)`` bool; none is if the state is empty."""
    if not state:
        return torch.zeros_like(spans.row, dtype=torch.bool)
    sentence = torch.tensor(step.sentences, dtype=torch.long, device=spans.row.device)[spans.row]
    return state["left_out"][_cells(sentence, spans.start, spans.end, state)]


def _cells(sentence: Tensor, start: Tensor, end: Tensor, state: State) -> Tensor:
    return state["offset"][sentence] + start * state["width"][sentence] + (end - start - 1)


def _described(batch: RescoredBatch, spans: Spans) -> dict[str, Tensor]:
    sentence = torch.tensor(batch.indices, device=spans.row.device)[spans.row]
    return {"sentence": sentence, "start": spans.start, "end": spans.end}


PARTS = (SelectedNegatives, ConfidentPositives)
METHODS = (
    SpanMethod(
        name="selective",
        paper="Ding et al. 2025, Towards DS-NER: Unveiling and Addressing Latent Noise in Distant Annotations (IEEE TKDE)",
        summary="Negatives are spans that overlap entities or do not look like one; entities that the model "
        "doubts are left out.",
        head=ProductConfig(dropout=0.2),
        negatives=SelectedNegatives(),
        positives=ConfidentPositives(),
        loss=CrossEntropy(reduction="mean"),
    ),
)
