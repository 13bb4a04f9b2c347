"""A model that tags words."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.encoders import Encoder, Inputs
from lacuner.errors import ConfigError
from lacuner.heads import TagHead, TagHeadConfig
from lacuner.heads.linear_chain import marginals, viterbi
from lacuner.models.model import Decodable, EncodedBatch, Model, batches_of, evaluating
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TagSet, TagTargets, TokenSupervision, build_tag_targets

_FORBIDDEN = float("-inf")


@dataclass(frozen=True)
class _ScoredWords(Decodable):
    head: TagHead
    decisions: Tensor  # (B, n, T), before the threshold is applied
    lengths: Tensor  # (B,)

    def decode(self, threshold: float, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        refuse_nested(nested)
        return self.head.decode(shift_outside_tag(self.decisions, threshold), self.lengths, min_score)


class TagModel(Model):
    """Tags the words of sentences.

    Args:
        encoder: words → vectors.
        head: scores tags.
        labels: names of the labels; the first is ``O``.
        non_entity_class: add a class for sampled non-entities (see :class:`TagSet`).
    """

    def __init__(
        self, encoder: Encoder, head: TagHeadConfig, labels: Sequence[str], non_entity_class: bool = False
    ) -> None:
        super().__init__(encoder, labels)
        self.tags = TagSet(head.scheme, self.labels, non_entity_class)
        self.head: TagHead = head.build(encoder.size, self.tags)
        self.in_entity: Tensor
        self.register_buffer("in_entity", torch.tensor(self.tags.label_of).ne(0).float(), persistent=False)  # (T,)

    def targets(
        self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None
    ) -> TagTargets:
        return build_tag_targets(sentences, self.tags, known)

    def decisions(self, batch: EncodedBatch) -> Tensor:
        """Decision vectors of a batch, before the threshold is applied: ``(B, n, T)``."""
        decisions: Tensor = self.head(batch.words)
        return decisions

    def forward(self, inputs: Inputs) -> Tensor:
        """Decision vectors of a batch: ``(B, n, T)``."""
        return self.decisions(EncodedBatch(self.encoder(inputs), inputs.lengths))

    def decisions_with(self, inputs: Inputs, weights: Mapping[str, Tensor]) -> Tensor:
        """Decision vectors under other weights, without dropout and gradient: ``(B, n, T)``."""
        with evaluating(self):
            decisions: Tensor = functional_call(self, dict(weights), (inputs,))
        return decisions

    def _shifted(self, batch: EncodedBatch) -> Tensor:
        return shift_outside_tag(self.decisions(batch), float(self.threshold))

    @torch.no_grad()
    def score(self, batch: EncodedBatch) -> _ScoredWords:
        return _ScoredWords(self.head, self.decisions(batch), batch.lengths)

    @torch.no_grad()
    def entities(self, batch: EncodedBatch, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        refuse_nested(nested)
        return self.head.decode(self._shifted(batch), batch.lengths, min_score)

    @torch.no_grad()
    def span_probabilities(
        self, batch: EncodedBatch, sentences: Sequence[Sentence], min_probability: float, use_threshold: bool = True
    ) -> tuple[Spans, Tensor]:
        """Predicted and annotated spans only; a tagger gives no probabilities to the others."""
        number = {label: index for index, label in enumerate(self.labels)}
        decisions = self._shifted(batch) if use_threshold else self.decisions(batch)
        scored = [
            (row, entity)
            for row, found in enumerate(self.head.decode(decisions, batch.lengths))
            for entity in found
            if (entity.score or 0.0) >= min_probability
        ]
        for layer in _layers([sentence.entities for sentence in sentences], number):
            scores = self.head.probabilities(decisions, batch.lengths, layer)
            scored += [
                (row, replace(entity, score=score))
                for row, (entities, values) in enumerate(zip(layer, scores, strict=True))
                for entity, score in zip(entities, values, strict=True)
            ]
        table: dict[tuple[int, int, int], dict[int, float]] = {}
        for row, entity in scored:
            table.setdefault((row, entity.start, entity.end), {})[number[entity.label]] = entity.score or 0.0
        probable = torch.zeros(len(table), len(number))
        for span, values in enumerate(table.values()):
            for label, value in values.items():
                probable[span, label] = value
        probable[:, 0] = 1 - probable.sum(1)
        return Spans.of(table), probable

    @torch.no_grad()
    def probabilities(self, batch: EncodedBatch, entities: Sequence[Sequence[Entity]]) -> list[list[float]]:
        """Probability of each entity with exactly these boundaries and label; those of a sentence must not overlap."""
        return self.head.probabilities(self._shifted(batch), batch.lengths, entities)

    def o_values(self, corpus: Corpus) -> dict[str, Tensor]:
        """The score of ``O`` at every unlabeled word of a corpus.

        Returns:
            ``sentence`` and ``token`` indices, and ``value``, each ``(m,)``, in corpus order.
        """
        columns = []
        with evaluating(self):
            for chosen, tokens in batches_of(self, corpus.tokens, range(len(corpus))):
                targets = self.targets([corpus[index] for index in chosen])
                decisions = self.decisions(self.encode(tokens)).cpu()
                row, token = targets.unknown.nonzero(as_tuple=True)
                columns.append((torch.tensor(chosen)[row], token, decisions[row, token, 0]))
        sentence, token, value = (torch.cat(column) for column in zip(*columns, strict=True))
        order = sentence.argsort(stable=True)
        return {"sentence": sentence[order], "token": token[order], "value": value[order]}

    def tag_weights(
        self, corpus: Corpus, indices: Sequence[int], hard: bool = False, any_tag: bool = False
    ) -> dict[int, Tensor]:
        """Tag marginals of sentences, constrained by their annotation.

        Args:
            corpus: all sentences.
            indices: the sentences to predict.
            hard: one-hot tags of the best allowed sequence instead.
            any_tag: ignore the annotation.

        Returns:
            For each index, ``(n, T)`` weights from 0 to 1, without the non-entity class.
        """
        ordinary = self.tags.ordinary
        found: dict[int, Tensor] = {}
        with evaluating(self):
            for chosen, tokens in batches_of(self, corpus.tokens, indices):
                batch = self.encode(tokens)
                emissions = self.head.emissions(self.decisions(batch), batch.lengths)[..., :ordinary]
                if not any_tag:
                    targets = self.targets([corpus[index] for index in chosen]).to(batch.lengths.device)
                    emissions = emissions.masked_fill(~targets.possible[..., :ordinary], _FORBIDDEN)
                transitions = self.head.transition_scores[:ordinary, :ordinary]
                if hard:
                    best = viterbi(emissions, transitions, batch.lengths)
                    weights = torch.nn.functional.one_hot(best, ordinary).float()
                else:
                    weights = marginals(emissions, transitions, batch.lengths)
                for index, length, table in zip(chosen, batch.lengths.tolist(), weights.cpu(), strict=True):
                    found[index] = table[:length].clone()
        return found


def shift_outside_tag(decisions: Tensor, threshold: float) -> Tensor:
    """Add ``threshold`` to the score of ``O``: ``(B, n, T)``."""
    if not threshold:
        return decisions
    return torch.cat([decisions[..., :1] + threshold, decisions[..., 1:]], dim=-1)


def refuse_nested(nested: bool) -> None:
    """Reject ``nested``: a model that segments a sentence cannot find nested entities."""
    if nested:
        raise ConfigError(
            "a tagger cannot find nested entities — train a span-level method (lacuner methods), or leave out --nested"
        )


def _layers(sentences: Sequence[Sequence[Entity]], known: Container[str]) -> Iterator[list[list[Entity]]]:
    """Split the entities with known labels into layers without overlaps."""
    left = [[entity for entity in entities if entity.label in known] for entities in sentences]
    while any(left):
        layer, later = [], []
        for entities in left:
            taken: list[Entity] = []
            for entity in entities:
                if not taken or taken[-1].end <= entity.start:
                    taken.append(entity)
            layer.append(taken)
            later.append([entity for entity in entities if entity not in taken])
        yield layer
        left = later
