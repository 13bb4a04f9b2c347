"""MRC: NER as reading comprehension; one question per label, whose answers are found by start, end and match.

Li, Feng, Meng, Han, Wu, Li: *A Unified MRC Framework for Named Entity Recognition*, ACL 2020.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad, softplus

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import EncodedWords, Encoder, Inputs
from lacuner.encoders.device import exact_dtype
from lacuner.encoders.dropout import Dropout
from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.errors import ConfigError
from lacuner.features.questions import default_questions
from lacuner.heads.decoding import shift_outside
from lacuner.heads.scores import SpanHead, SpanScores, gather
from lacuner.methods.method import Method
from lacuner.methods.parts import MethodPart, Step, TrainingData
from lacuner.models.model import EncodedBatch, Model
from lacuner.models.span_model import MAX_THRESHOLD, ScoredSpans, annotated_spans
from lacuner.parts import Part
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision


class AnswersConfig(Part):
    """``answers``: predicts, for each question, which words start or end an answer, and which of them belong together."""

    name: Literal["answers"] = "answers"
    questions: dict[str, str] | None = Field(
        None,
        description="question for each label; none, and for labels not listed: made from the label's name",
    )
    hidden: int | None = Field(
        768, ge=1, description="size of the hidden layer that matches starts and ends; none: no hidden layer"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the hidden layer")

    def build(self, size: int) -> "AnswersHead":
        """Build a new head."""
        return AnswersHead(self, size)


class AnswersHead(nn.Module):
    """Three binary classifiers: of a word as a start, of a word as an end, and of a (start, end) pair."""

    def __init__(self, config: AnswersConfig, size: int) -> None:
        super().__init__()
        self.start = nn.Linear(size, 1)
        self.end = nn.Linear(size, 1)
        self.match = MatchHead(config, size)

    def boundaries(self, words: EncodedWords) -> tuple[Tensor, Tensor]:
        """Logits of starts and of ends: ``(R, n)`` each."""
        return self.start(words.first).squeeze(-1), self.end(words.last).squeeze(-1)


class MatchHead(SpanHead):
    """Logit of a span: ``v · gelu(W₁ h_i + W₂ h_j)``, or without a hidden layer ``w₁ · h_i + w₂ · h_j``."""

    def __init__(self, config: AnswersConfig, size: int) -> None:
        super().__init__()
        self.hidden_size = config.hidden or 1
        self.layer = nn.Linear(2 * size, self.hidden_size)
        self.classifier = None if config.hidden is None else nn.Linear(config.hidden, 1)
        self.dropout = Dropout(config.dropout)

    def project(self, words: EncodedWords) -> tuple[Tensor, Tensor]:
        first, last = self.layer.weight.chunk(2, dim=1)  # W₁, W₂
        return linear(words.first, first, self.layer.bias), linear(words.last, last)  # (R, n, h) each

    def combine(self, projected: tuple[Tensor, Tensor], spans: Spans) -> SpanScores:
        summed = self.represent(projected, spans)
        if self.classifier is None:
            return SpanScores(summed, summed)
        hidden = self.dropout(gelu(summed))
        return SpanScores(self.classifier(hidden), hidden)

    def represent(self, projected: tuple[Tensor, Tensor], spans: Spans) -> Tensor:
        left, right = projected
        return gather(left, spans.row, spans.start) + gather(right, spans.row, spans.end - 1)


class Known(NamedTuple):
    """``M`` pairs of a question and a span (or word) in ``P`` groups; at least one pair of each group is an answer."""

    spans: Spans  # M spans, in rows of questions
    group: Tensor  # (M,)
    groups: Tensor  # P, a scalar

    def to(self, device: torch.device) -> "Known":
        return Known(self.spans.to(device), self.group.to(device), self.groups.to(device))


@dataclass(frozen=True)
class AnswerTargets:
    """Known answers to ``K`` questions about ``B`` sentences of up to ``n`` words, in ``R = B * K`` rows."""

    starts: Known
    ends: Known
    matches: Known
    rejected: Spans  # spans known to be no answers, in rows of questions
    lengths: Tensor  # (R,)
    taught: Tensor  # (R, n) bool: words with known status; unannotated ones are trained as no answers

    def to(self, device: torch.device) -> "AnswerTargets":
        return AnswerTargets(**{name: value.to(device) for name, value in vars(self).items()})


def build_answer_targets(sentences: Sequence[Sentence], labels: Sequence[str]) -> AnswerTargets:
    """Targets of a batch; ``labels`` are those with questions, in order.

    An annotated span answers the question of its label, or at least one of them if it has several possible labels. A rejected
    span answers none. Labels that a sentence is not annotated for, and unknown words, contribute nothing else.
    """
    count, number = len(labels), {label: index for index, label in enumerate(labels)}
    taught = torch.zeros(len(sentences), count, max(map(len, sentences), default=0), dtype=torch.bool)
    possible: dict[tuple[int, int, int], list[int]] = {}
    rejected: dict[tuple[int, int, int], None] = {}
    for row, sentence in enumerate(sentences):
        sought = [number[label] for label in sentence.looked_for(labels)]
        taught[row, sought, : len(sentence)] = True
        taught[row, :, sorted(sentence.unknown_tokens)] = False
        for entity in sentence.entities:
            possible.setdefault((row, entity.start, entity.end), []).append(number[entity.label])
        rejected |= dict.fromkeys(
            (row * count + asked, span.start, span.end) for span in sentence.non_entities for asked in range(count)
        )
    spans = [(row, start, end, tuple(sorted(set(asked)))) for (row, start, end), asked in possible.items()]
    starts = dict.fromkeys((row, start, start + 1, asked) for row, start, _, asked in spans)
    ends = dict.fromkeys((row, end - 1, end, asked) for row, _, end, asked in spans)

    def known(groups: Sequence[tuple[int, int, int, tuple[int, ...]]]) -> Known:
        pairs = [
            (group, row * count + one, start, end)
            for group, (row, start, end, asked) in enumerate(groups)
            for one in asked
        ]
        table = torch.tensor(pairs, dtype=torch.long).reshape(-1, 4)
        return Known(Spans(table[:, 1], table[:, 2], table[:, 3]), table[:, 0], torch.tensor(len(groups)))

    lengths = torch.tensor([len(sentence) for sentence in sentences for _ in labels])
    known_all = (known(list(starts)), known(list(ends)), known(spans))
    return AnswerTargets(*known_all, Spans.of(rejected), lengths, taught.flatten(0, 1))


class AnswersLoss(MethodPart):
    """``answers``: weighted sum of the cross-entropies of starts, of ends, and of start-end pairs."""

    levels: ClassVar = ("span",)
    name: Literal["answers"] = "answers"
    start: float = Field(1.0, ge=0, description="α: weight of the loss for starts")
    end: float = Field(1.0, ge=0, description="β: weight of the loss for ends")
    match: float = Field(0.1, ge=0, description="γ: weight of the loss for pairs")
    candidates: Literal["predicted", "all"] = Field(
        "predicted",
        description="pairs to train on: those of predicted or annotated starts and ends (predicted), or all "
        "pairs (all)",
    )

    def __call__(self, head: AnswersHead, words: EncodedWords, targets: AnswerTargets) -> Tensor:
        """Scalar loss of a batch, given its word vectors in rows of questions."""
        start, end = head.boundaries(words)  # (R, n) each
        loss = self.start * boundary_loss(start, targets.starts, targets.taught)
        loss = loss + self.end * boundary_loss(end, targets.ends, targets.taught)
        every = self.candidates == "all"
        wrong = wrong_pairs(start > 0, end > 0, targets, every)
        asked = Spans.concatenate([targets.matches.spans, wrong])
        scores = head.match(head.match.project(words), asked).logits.squeeze(-1)
        answers, others = scores.split([len(targets.matches.spans), len(wrong)])
        return loss + self.match * mean_cost(answers, others, targets.matches)


def boundary_loss(logits: Tensor, known: Known, taught: Tensor) -> Tensor:
    """Mean loss of words as starts, or as ends, of answers: ``(R, n) → ()``."""
    spans = known.spans
    wrong = taught.index_put((spans.row, spans.start), torch.zeros_like(spans.row, dtype=torch.bool))
    return mean_cost(logits[spans.row, spans.start], logits[wrong], known)


def mean_cost(answers: Tensor, others: Tensor, known: Known) -> Tensor:
    """Mean binary cross-entropy over groups and negatives.

    The loss of a group is that of the event that at least one member is an answer, ``-log(1 - Π (1 - p))``, which is
    ``-log p`` for a single member.

    Args:
        answers: ``(M,)`` logits of group members.
        others: ``(N,)`` logits of negatives.
        known: the groups.
    """
    exact = exact_dtype(answers.device)
    none = torch.zeros(int(known.groups), dtype=exact, device=answers.device)
    none = none.index_add(0, known.group, softplus(answers.to(exact)))  # -log Π (1 - p)
    costs = -torch.log(-torch.expm1(-none.clamp(min=torch.finfo(exact).tiny)))
    total = costs.sum() + softplus(others).sum()
    return total.float() / max(1, len(costs) + len(others))


def wrong_pairs(start: Tensor, end: Tensor, targets: AnswerTargets, every: bool = False) -> Spans:
    """The (start, end) pairs that are trained as negatives, in rows of questions.

    These are rejected spans, and pairs of a start and an end that are both predicted, or both annotated, unless they are
    annotated as one answer or consist of unknown words only.

    Args:
        start: ``(R, n)`` bool, predicted starts.
        end: ``(R, n)`` bool, predicted ends.
        targets: known answers.
        every: treat all words as predicted starts and ends.
    """
    true = torch.ones((), dtype=torch.bool, device=start.device)
    starts, ends, together = targets.starts.spans, targets.ends.spans, targets.matches.spans
    begins = torch.zeros_like(start).index_put((starts.row, starts.start), true)
    finishes = torch.zeros_like(end).index_put((ends.row, ends.start), true)
    pairs = (start[:, :, None] & end[:, None, :]) | (begins[:, :, None] & finishes[:, None, :])  # (R, n, n)
    if every:
        pairs = torch.ones_like(pairs)
    count = pad(targets.taught.int().cumsum(1, dtype=torch.int32), (1, 0))  # (R, n + 1)
    pairs &= count[:, None, 1:] > count[:, :-1, None]  # at least one word of the span has known status
    pairs &= (torch.arange(start.shape[1], device=start.device) < targets.lengths[:, None])[:, None, :]
    pairs[together.row, together.start, together.end - 1] = False
    pairs[targets.rejected.row, targets.rejected.start, targets.rejected.end - 1] = True
    row, first, last = pairs.nonzero(as_tuple=True)
    return Spans(row, first, last + 1)


class QuestionModel(Model):
    """Reads each sentence once per label, preceded by the label's question.

    A batch has a row for each pair of a sentence and a question: sentence ``b`` and label ``k`` (from 1) are in row
    ``b * K + k - 1`` of ``B * K``.

    Args:
        encoder: words → vectors, given questions as a prefix.
        head: scores answers.
        labels: names of the labels; the first is ``O``.
    """

    finds_nested = True

    def __init__(self, encoder: TransformerEncoder, head: AnswersConfig, labels: Sequence[str]) -> None:
        super().__init__(encoder, labels)
        self.questions = default_questions(labels[1:], ()) | (head.questions or {})
        encoder.ask([self.questions[label] for label in labels[1:]])
        self.head: AnswersHead = head.build(encoder.size)

    def targets(
        self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None
    ) -> AnswerTargets:
        return build_answer_targets(sentences, self.labels[1:])

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        """Encode a batch, in rows of questions, in chunks, so that memory does not grow with the number of labels."""
        size = max(1, len(sentences) // (len(self.labels) - 1))
        parts = [super(QuestionModel, self).encode(sentences[i : i + size]) for i in range(0, len(sentences), size)]
        length = max(part.words.first.shape[1] for part in parts)

        def joined(tensors: list[Tensor]) -> Tensor:
            return torch.cat([pad(tensor, (0, 0, 0, length - tensor.shape[1])) for tensor in tensors])

        first, last = (joined([getattr(part.words, side) for part in parts]) for side in EncodedWords._fields)
        return EncodedBatch(EncodedWords(first, last), torch.cat([part.lengths for part in parts]))

    @torch.no_grad()
    def score(self, batch: EncodedBatch) -> ScoredSpans:
        spans, logits = self._search(batch, -MAX_THRESHOLD)
        return ScoredSpans(spans, logits.softmax(-1), self._lengths(batch), self.labels)

    def entities(self, batch: EncodedBatch, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        spans, logits = self._search(batch, float(self.threshold))
        found = ScoredSpans(spans, logits.softmax(-1), self._lengths(batch), self.labels)
        return found.decode(float(self.threshold), nested, min_score)

    @torch.no_grad()
    def span_probabilities(
        self, batch: EncodedBatch, sentences: Sequence[Sentence], min_probability: float, use_threshold: bool = True
    ) -> tuple[Spans, Tensor]:
        threshold = float(self.threshold) if use_threshold else 0.0
        odds = min_probability / (1 - min_probability) if min_probability < 1 else math.inf
        # If all labels were equally probable, each would have this fraction of the odds of an entity.
        least = math.log(odds / (len(self.labels) - 1)) if odds else -math.inf
        spans, logits = self._search(batch, least + threshold)
        probable = shift_outside(logits.softmax(-1), threshold)
        kept = 1 - probable[:, 0] >= min_probability
        annotated = annotated_spans(sentences).to(batch.lengths.device)
        asked = shift_outside(self._logits(batch, annotated).softmax(-1), threshold)
        return Spans.concatenate([spans[kept], annotated]), torch.cat([probable[kept], asked])

    def _lengths(self, batch: EncodedBatch) -> Tensor:
        """Length of each sentence in words: ``(B,)``."""
        return batch.lengths[:: len(self.labels) - 1]

    @torch.no_grad()
    def _search(self, batch: EncodedBatch, least: float) -> tuple[Spans, Tensor]:
        """All spans with a label of at least this logit, and possibly more, with their logits ``(N, L)``."""
        asked, lengths = len(self.labels) - 1, self._lengths(batch)
        start, end = (side.view(len(lengths), asked, -1) >= least for side in self.head.boundaries(batch.words))
        pairs = torch.einsum("bki,bkj->bij", start.float(), end.float()) > 0.5  # (B, n, n): for any label
        word = torch.arange(pairs.shape[1], device=pairs.device)
        pairs &= (word[:, None] <= word) & (word < lengths[:, None])[:, None, :]
        row, first, last = pairs.nonzero(as_tuple=True)
        spans = Spans(row, first, last + 1)
        return spans, self._logits(batch, spans)

    def _logits(self, batch: EncodedBatch, spans: Spans) -> Tensor:
        """Logits ``(N, L)``: 0 for ``O``, and for each other label the minimum of its start, end and match logits.

        So a label is more probable than ``O`` if and only if all three classifiers accept it.
        """
        asked = len(self.labels) - 1
        row = (spans.row[:, None] * asked + torch.arange(asked, device=spans.row.device)).flatten()  # (N * K,)
        first, end = spans.start.repeat_interleave(asked), spans.end.repeat_interleave(asked)
        starts, ends = self.head.boundaries(batch.words)
        match: Tensor = self.head.match(self.head.match.project(batch.words), Spans(row, first, end)).logits
        least = torch.stack([starts[row, first], ends[row, end - 1], match.squeeze(-1)]).amin(0)
        return pad(least.view(-1, asked), (1, 0))


class Mrc(Method):
    """One question per label, and binary decisions about starts, ends, and pairs of the two."""

    part_types: ClassVar = {"head": AnswersConfig, "loss": AnswersLoss}

    level: Literal["span"] = "span"
    head: SerializeAsAny[AnswersConfig]
    loss: SerializeAsAny[AnswersLoss]

    def check(self, data: TrainingData) -> None:
        super().check(data)
        if data.encoder is not None and not isinstance(data.encoder, TransformerConfig):
            raise ConfigError(_wrong_encoder(data.encoder.name))
        strange = sorted(set(self.head.questions or ()) - set(data.corpus.labels))
        if strange:
            raise ConfigError(
                f"head.questions asks about {', '.join(strange)}, which are not labels of the training data — "
                f"its labels are {', '.join(data.corpus.labels)}"
            )

    def for_data(self, data: TrainingData, width_quantile: float | None = None) -> Self:
        method = super().for_data(data, width_quantile)
        questions = default_questions(data.corpus.labels, data.corpus.tokens) | (self.head.questions or {})
        return method.model_copy(update={"head": self.head.model_copy(update={"questions": questions})})

    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> QuestionModel:
        if not isinstance(encoder, TransformerEncoder):
            raise ConfigError(_wrong_encoder(type(encoder).__name__))
        return QuestionModel(encoder, self.head, labels)

    def training_loss(self, model: Model, inputs: Inputs, targets: AnswerTargets, step: Step) -> Tensor:
        assert isinstance(model, QuestionModel)
        return self.loss(model.head, model.encoder(inputs), targets)


def _wrong_encoder(name: str) -> str:
    return (
        f"mrc puts a question before each text, which the encoder {name} cannot read — give the name or folder of a Hugging "
        "Face model (--encoder)"
    )


PARTS = (AnswersConfig, AnswersLoss)
METHODS = (
    Mrc(
        name="mrc",
        paper="Li et al. 2020, A Unified MRC Framework for Named Entity Recognition (ACL)",
        summary="Asks a question about the text for each label; unlabeled starts, ends and pairs are negatives.",
        head=AnswersConfig(),
        loss=AnswersLoss(),
    ),
)
