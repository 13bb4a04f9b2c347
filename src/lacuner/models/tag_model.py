"""A model that tags words."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.encoders import Encoder, Inputs
from lacuner.errors import ConfigError
from lacuner.heads.linear_chain import marginals, viterbi
from lacuner.heads.tagging import TagHead
from lacuner.methods.method import Step
from lacuner.methods.tagging import TokenMethod
from lacuner.models.model import Model, batches_of, evaluating
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TagSet, TagTargets, TokenSupervision, build_tag_targets

_FORBIDDEN = float("-inf")


class TagModel(Model):
    """Tags the words of sentences."""

    method: TokenMethod

    def __init__(
        self, encoder: Encoder, method: TokenMethod, labels: Sequence[str], memory: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(encoder, method, labels, memory)
        extra = method.sampling is not None and method.sampling.extra
        self.tags = TagSet(method.head.scheme, self.labels, extra)
        self.head: TagHead = method.head.build(encoder.size, self.tags)
        self.in_entity: Tensor
        self.register_buffer("in_entity", torch.tensor(self.tags.label_of).ne(0).float(), persistent=False)  # (T,)

    def targets(
        self, sentences: Sequence[Sentence], advice: Sequence[TokenSupervision | None] | None = None
    ) -> TagTargets:
        return build_tag_targets(sentences, self.tags, advice)

    def decisions(self, inputs: Inputs) -> Tensor:
        """The decision vectors of a batch: ``(B, n, T)``."""
        decisions: Tensor = self.head(self.encoder(inputs))
        return decisions

    def forward(self, inputs: Inputs, targets: TagTargets, step: Step) -> Tensor:
        method = self.method
        decisions = self.decisions(inputs)
        loss = self.head.loss(decisions, self._weights(targets, step), targets.lengths, targets.removed)
        if method.balance is None:
            return loss
        expected = self.head.expected(decisions, targets.lengths, self.in_entity).sum()
        return loss + method.balance(expected / targets.lengths.sum())

    def _weights(self, targets: TagTargets, step: Step) -> Tensor:
        """Logs of what each tag counts at each word: ``(B, n, T)``."""
        method = self.method
        allowed = method.untagged.allow(targets)
        weights = torch.zeros(allowed.shape, device=allowed.device).masked_fill(~allowed, _FORBIDDEN)
        if targets.weights is not None:
            judged = targets.unknown & (targets.weights > _FORBIDDEN).any(-1)
            weights = torch.where(judged[..., None], targets.weights, weights)
        if method.sampling is None:
            return weights
        drawn = method.sampling.draw(targets.unknown, targets.lengths, step)
        if step.watch is not None:
            step.watch(drawn)
        return self._tag(weights, drawn, targets.allowed)

    def _tag(self, weights: Tensor, drawn: Spans, allowed: Tensor) -> Tensor:
        """Weights with these spans tagged as no entity; labels that nobody looked for they may have nevertheless."""
        if not len(drawn):
            return weights
        extra, label = self.tags.extra, len(self.labels)
        rows: list[int] = []
        places: list[int] = []
        tags: list[int] = []
        for row, start, end in zip(drawn.row.tolist(), drawn.start.tolist(), drawn.end.tolist(), strict=True):
            rows += [row] * (end - start)
            places += range(start, end)
            tags += self.tags.write(end - start, label) if extra else [0] * (end - start)
        weights[rows, places] = torch.zeros_like(weights[rows, places]).masked_fill(~allowed[rows, places], _FORBIDDEN)
        weights[rows, places, 0] = _FORBIDDEN
        weights[rows, places, tags] = 0.0
        return weights

    def o_values(self, corpus: Corpus) -> dict[str, Tensor]:
        """The score of ``O`` at every untagged word of a corpus.

        Returns:
            ``sentence`` and ``token``, their places, and ``value``, each ``(m,)``, in the order of the corpus.
        """
        columns = []
        with evaluating(self):
            for chosen, inputs in batches_of(self, corpus.tokens, range(len(corpus))):
                targets = self.targets([corpus[place] for place in chosen])
                decisions = self.decisions(inputs).cpu()
                row, token = targets.unknown.nonzero(as_tuple=True)
                columns.append((torch.tensor(chosen)[row], token, decisions[row, token, 0]))
        sentence, token, value = (torch.cat(column) for column in zip(*columns, strict=True))
        order = sentence.argsort(stable=True)
        return {"sentence": sentence[order], "token": token[order], "value": value[order]}

    def tag_weights(self, corpus: Corpus, places: Sequence[int], hard: bool = False) -> dict[int, Tensor]:
        """What the model thinks of each tag at each word of sentences, as far as their annotation allows it.

        Args:
            corpus: all sentences.
            places: of those to look at.
            hard: only the best sequence that is allowed counts.

        Returns:
            For each place, ``(n, T)`` weights from 0 to 1, without the extra label's.
        """
        ordinary = self.tags.ordinary
        found: dict[int, Tensor] = {}
        with evaluating(self):
            for chosen, inputs in batches_of(self, corpus.tokens, places):
                targets = self.targets([corpus[place] for place in chosen]).to(inputs.lengths.device)
                emissions = self.head.emissions(self.decisions(inputs), inputs.lengths)[..., :ordinary]
                emissions = emissions.masked_fill(~targets.possible[..., :ordinary], _FORBIDDEN)
                transitions = self.head.transition_scores[:ordinary, :ordinary]
                if hard:
                    best = viterbi(emissions, transitions, inputs.lengths)
                    weights = torch.nn.functional.one_hot(best, ordinary).float()
                else:
                    weights = marginals(emissions, transitions, inputs.lengths)
                for place, length, table in zip(chosen, inputs.lengths.tolist(), weights.cpu(), strict=True):
                    found[place] = table[:length].clone()
        return found

    @torch.no_grad()
    def probabilities(self, inputs: Inputs, entities: Sequence[Sequence[Entity]]) -> list[list[float]]:
        """The probability that exactly these words are such an entity; those of a sentence must not overlap."""
        return self.head.probabilities(self.decisions(inputs), inputs.lengths, entities)

    @torch.no_grad()
    def entities(self, inputs: Inputs, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        if nested:
            raise ConfigError(
                f"{self.method.name} tags words, and so finds no nested entities — "
                "train a span-level method, or leave out --nested"
            )
        return self.head.decode(self.decisions(inputs), inputs.lengths, min_score)
