"""AutoNER: predicts which neighboring words are tied together, then the type of each resulting chunk.

Shang, Liu, Gu, Ren, Ren, Han: *Learning Named Entity Tagger using Domain-Specific Dictionary*, EMNLP 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, pad

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.encoders import EncodedWords, Encoder, Inputs
from lacuner.encoders.device import exact_dtype
from lacuner.encoders.dropout import Dropout
from lacuner.heads.decoding import decode, shift_outside
from lacuner.heads.scores import gather
from lacuner.methods.full import summed_cross_entropy
from lacuner.methods.method import Method, lost_to_overlaps
from lacuner.methods.parts import Step
from lacuner.models.model import Decodable, EncodedBatch, Model
from lacuner.models.span_model import annotated_spans
from lacuner.models.tag_model import refuse_nested
from lacuner.parts import Part
from lacuner.supervision.spans import Spans, enumerate_spans
from lacuner.supervision.tags import TokenSupervision, flat


class TieOrBreakConfig(Part):
    """``tie-or-break``: predicts whether adjacent words are tied together, then the type of each chunk of tied words."""

    name: Literal["tie-or-break"] = "tie-or-break"
    hidden: int = Field(150, ge=1, description="size of the hidden layers for ties and for types")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the hidden layers")

    def build(self, size: int, labels: int) -> "TieOrBreakHead":
        """Build a new head."""
        return TieOrBreakHead(self, size, labels)


class TieOrBreakHead(nn.Module):
    """Two classifiers on pairs of words: the two around a gap, and the first and last word of a chunk."""

    def __init__(self, config: TieOrBreakConfig, size: int, labels: int) -> None:
        super().__init__()
        self.tie_scorer, self.type_scorer = (
            nn.Sequential(
                nn.Linear(2 * size, config.hidden),
                nn.ReLU(),
                Dropout(config.dropout),
                nn.Linear(config.hidden, outputs),
            )
            for outputs in (1, labels)
        )

    def gaps(self, words: EncodedWords) -> Tensor:
        """Logits of a tie between each word and the next: ``(B, n - 1)``."""
        pairs = torch.cat([words.last[:, :-1], words.first[:, 1:]], dim=-1)  # (B, n - 1, 2 d)
        logits: Tensor = self.tie_scorer(pairs)
        return logits.squeeze(-1).float()

    def types(self, words: EncodedWords, chunks: Spans) -> Tensor:
        """Label logits of chunks: ``(N, L)``."""
        first, last = gather(words.first, chunks.row, chunks.start), gather(words.last, chunks.row, chunks.end - 1)
        logits: Tensor = self.type_scorer(torch.cat([first, last], dim=-1))
        return logits.float()


@dataclass(frozen=True)
class ChunkTargets:
    """Known gaps and chunks of ``B`` sentences of up to ``n`` words."""

    lengths: Tensor  # (B,)
    tied: Tensor  # (B, n - 1) bool: the words around the gap are in one entity
    known: Tensor  # (B, n - 1) bool: gaps known to be tie or break; all others are ignored
    chunks: Spans  # N of them
    possible: Tensor  # (N, L) bool: the labels that each chunk may have

    def to(self, device: torch.device) -> "ChunkTargets":
        return ChunkTargets(**{name: value.to(device) for name, value in vars(self).items()})


def build_chunk_targets(
    sentences: Sequence[Sentence], labels: Sequence[str], known: Sequence[TokenSupervision | None] | None = None
) -> ChunkTargets:
    """Targets of a batch; ``labels[0]`` is ``O``.

    Gaps inside an annotated entity are ties, those at its boundaries breaks. All other gaps are breaks, too, except next to
    an unknown word (``unknown_tokens``), and in sentences that are not annotated for all labels, where they are ignored. An
    annotated entity has its label; a rejected span, and every other word by itself, has none. Of overlapping entities only
    one can be a chunk (see :func:`flat`): the others only train their type, and the rest of their words are ignored.
    """
    number = {label: index for index, label in enumerate(labels)}
    longest = max(map(len, sentences), default=0)
    tied = np.zeros((len(sentences), max(0, longest - 1)), dtype=bool)
    sure = np.zeros_like(tied)
    single = np.zeros((len(sentences), longest), dtype=bool)  # words that are no entity by themselves
    negative = np.zeros((len(sentences), len(labels)), dtype=bool)
    negative[:, 0] = True
    decided: dict[tuple[int, int, int], set[int]] = {}
    for row, sentence in enumerate(sentences):
        unsought = [number[label] for label in labels[1:] if not sentence.looked_for([label])]
        negative[row, unsought] = True
        found = None if known is None else known[row]
        single[row, : len(sentence)] = True
        single[row, [*sentence.unknown_tokens, *(() if found is None else (*found.ignored, *found.unconstrained))]] = (
            False
        )
        spans = flat(sentence.entities)
        lost = [entity for entity in sentence.entities if (entity.start, entity.end) not in spans]
        for entity in lost:
            single[row, entity.start : entity.end] = False
        if not unsought:
            sure[row, : len(sentence) - 1] = single[row, : len(sentence) - 1] & single[row, 1 : len(sentence)]
        for start, end in spans:
            tied[row, start : end - 1] = True
            sure[row, max(0, start - 1) : min(end, len(sentence) - 1)] = True
        for entity in lost:
            inside = slice(entity.start, entity.end - 1)
            sure[row, inside] &= tied[row, inside]
        decided |= {(row, span.start, span.end): {0} for span in sentence.non_entities}
        for entity in sentence.entities:
            single[row, entity.start : entity.end] = False
            decided.setdefault((row, entity.start, entity.end), set()).add(number[entity.label])
        single[row, [span.start for span in sentence.non_entities if span.end - span.start == 1]] = False
    rows, words = torch.from_numpy(single).nonzero(as_tuple=True)
    possible = torch.zeros(len(decided), len(labels), dtype=torch.bool)
    for index, options in enumerate(decided.values()):
        possible[index, sorted(options)] = True
    return ChunkTargets(
        lengths=torch.tensor([len(sentence) for sentence in sentences]),
        tied=torch.from_numpy(tied),
        known=torch.from_numpy(sure),
        chunks=Spans.concatenate([Spans.of(decided), Spans(rows, words, words + 1)]),
        possible=torch.cat([possible, torch.from_numpy(negative)[rows]]),
    )


def tie_or_break_loss(gaps: Tensor, types: Tensor, targets: ChunkTargets) -> Tensor:
    """Mean cross-entropy of known gaps plus that of chunks; a chunk may have any of its possible labels.

    Args:
        gaps: ``(B, n - 1)`` logits of ties.
        types: ``(N, L)`` logits of labels.
        targets: known gaps and chunks.
    """
    tie = binary_cross_entropy_with_logits(gaps, targets.tied.float(), targets.known.float(), reduction="sum")
    chosen = summed_cross_entropy(types, targets.possible).sum()
    return tie / targets.known.sum().clamp(min=1) + chosen / max(1, len(types))


def split_at_breaks(tied: Tensor, lengths: Tensor) -> Spans:
    """Chunks of sentences, in order, each from one break to the next: ``(B, n - 1), (B,)``."""
    word = torch.arange(tied.shape[1] + 1, device=tied.device)
    inside = word < lengths[:, None]  # (B, n)
    row, start = (inside & ~pad(tied, (1, 0))).nonzero(as_tuple=True)
    last = (inside & (~pad(tied, (0, 1)) | (word == lengths[:, None] - 1))).nonzero(as_tuple=True)[1]
    return Spans(row, start, last + 1)


def chunk_probabilities(gaps: Tensor, lengths: Tensor, spans: Spans) -> Tensor:
    """Probability that each span is a chunk: ties inside, breaks at both ends; sentence boundaries are certain breaks.

    ``(B, n - 1), (B,), N spans → (N,)``
    """
    gaps = gaps.to(exact_dtype(gaps.device))
    ties = pad(logsigmoid(gaps).cumsum(1), (1, 0))  # (B, n): cumulative over the gaps before a word
    breaks = pad(logsigmoid(-gaps), (1, 1))  # (B, n + 1): before each word, and after the last
    column = torch.arange(breaks.shape[1], device=breaks.device)
    breaks = breaks.masked_fill(column >= lengths[:, None], 0.0)
    inside = ties[spans.row, spans.end - 1] - ties[spans.row, spans.start]
    return (inside + breaks[spans.row, spans.start] + breaks[spans.row, spans.end]).exp().float()


@dataclass(frozen=True)
class _ScoredChunks(Decodable):
    chunks: Spans
    certainty: Tensor  # (N,) probability of each chunk
    types: Tensor  # (N, L) probabilities, without a threshold
    lengths: Tensor  # (B,)
    labels: Sequence[str]

    def decode(self, threshold: float, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        refuse_nested(nested)
        probable = shift_outside(self.types, threshold) * self.certainty[:, None]
        return decode(self.chunks, probable, self.lengths, self.labels, min_score=min_score)


class TieOrBreakModel(Model):
    """Segments sentences into chunks and assigns them types.

    Args:
        encoder: words → vectors.
        head: scores gaps and chunks.
        labels: names of the labels; the first is ``O``.
    """

    def __init__(self, encoder: Encoder, head: TieOrBreakConfig, labels: Sequence[str]) -> None:
        super().__init__(encoder, labels)
        self.head: TieOrBreakHead = head.build(encoder.size, len(self.labels))

    def targets(
        self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None
    ) -> ChunkTargets:
        return build_chunk_targets(sentences, self.labels, known)

    @torch.no_grad()
    def score(self, batch: EncodedBatch) -> _ScoredChunks:
        gaps = self.head.gaps(batch.words)
        chunks = split_at_breaks(gaps > 0, batch.lengths)
        certainty = chunk_probabilities(gaps, batch.lengths, chunks)
        types = self.head.types(batch.words, chunks).softmax(-1)
        return _ScoredChunks(chunks, certainty, types, batch.lengths, self.labels)

    def entities(self, batch: EncodedBatch, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        return self.score(batch).decode(float(self.threshold), nested, min_score)

    @torch.no_grad()
    def span_probabilities(
        self, batch: EncodedBatch, sentences: Sequence[Sentence], min_probability: float, use_threshold: bool = True
    ) -> tuple[Spans, Tensor]:
        gaps = self.head.gaps(batch.words)
        spans = enumerate_spans(batch.lengths)
        spans = spans[chunk_probabilities(gaps, batch.lengths, spans) >= min_probability]  # an upper bound
        annotated = annotated_spans(sentences).to(batch.lengths.device)
        asked = Spans.concatenate([spans, annotated])
        types = self.head.types(batch.words, asked).softmax(-1)
        types = shift_outside(types, float(self.threshold)) if use_threshold else types
        probable = types * chunk_probabilities(gaps, batch.lengths, asked)[:, None]
        probable[:, 0] = 1 - probable[:, 1:].sum(1)
        kept = 1 - probable[:, 0] >= min_probability
        kept[len(spans) :] = True
        return asked[kept], probable[kept]


class AutoNer(Method):
    """Ties or breaks between words, then types of chunks."""

    part_types: ClassVar = {"head": TieOrBreakConfig}

    level: Literal["token"] = "token"
    head: SerializeAsAny[TieOrBreakConfig]

    def new_model(self, encoder: Encoder, labels: Sequence[str]) -> TieOrBreakModel:
        return TieOrBreakModel(encoder, self.head, labels)

    def training_loss(self, model: Model, inputs: Inputs, targets: ChunkTargets, step: Step) -> Tensor:
        assert isinstance(model, TieOrBreakModel)
        words = model.encoder(inputs)
        return tie_or_break_loss(model.head.gaps(words), model.head.types(words, targets.chunks), targets)

    def unlearnable(self, corpus: Corpus) -> str | None:
        return lost_to_overlaps(corpus)


PARTS = (TieOrBreakConfig,)
METHODS = (
    AutoNer(
        name="autoner",
        paper="Shang et al. 2018, Learning Named Entity Tagger using Domain-Specific Dictionary (EMNLP)",
        summary="Decides whether adjacent words belong together, then gives each chunk a type; unknown words "
        "are ignored.",
        head=TieOrBreakConfig(),
    ),
)
