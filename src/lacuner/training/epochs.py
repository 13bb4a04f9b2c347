"""The sentences of each epoch, and their supervision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.supervision.posterior import IntArray, SpanProbabilities
from lacuner.supervision.tags import TokenSupervision


@dataclass(frozen=True, eq=False)
class EpochSampler:
    """Samples the sentences of every epoch.

    Attributes:
        corpus: all sentences.
        seed: of all sampling here.
        complete_fraction: fraction of complete sentences in an epoch; None: as in the corpus. An epoch always has as many
            sentences as the corpus.
        clean_from: from this epoch on (counted from 0) only complete sentences are used, if there are any.
        posterior: label probabilities of spans in incomplete sentences; each epoch samples a new label for each of these
            spans, so that in expectation the model learns the probabilities themselves.
        rest_as_negative: treat spans without such probabilities as known negatives.
        labels: names of the labels indexed by the posterior.
        supervision: word-level results of an earlier stage, by sentence index.
    """

    corpus: Corpus
    seed: int = 1
    complete_fraction: float | None = None
    clean_from: int | None = None
    posterior: SpanProbabilities | None = None
    rest_as_negative: bool = False
    labels: Sequence[str] = ()
    supervision: Mapping[int, TokenSupervision] = field(default_factory=dict)

    @cached_property
    def _parts(self) -> tuple[list[int], list[int]]:
        """Indices of complete and of incomplete sentences."""
        complete = [index for index, sentence in enumerate(self.corpus) if sentence.complete]
        return complete, [index for index, sentence in enumerate(self.corpus) if not sentence.complete]

    def indices(self, epoch: int) -> list[int]:
        """Corpus indices of the epoch's sentences."""
        clean = self.clean_from is not None and epoch >= self.clean_from
        if (self.complete_fraction is None and not clean) or not all(self._parts):
            return list(range(len(self.corpus)))
        wanted = len(self.corpus) if clean else round((self.complete_fraction or 0) * len(self.corpus))
        generator = np.random.default_rng([self.seed, epoch, 1])
        counts = (wanted, len(self.corpus) - wanted)
        return [
            index for part, count in zip(self._parts, counts, strict=True) for index in _repeat(part, count, generator)
        ]

    def sentence(self, index: int, epoch: int) -> Sentence:
        """A sentence as sampled for this epoch."""
        sentence = self.corpus[index]
        if self.posterior is None or sentence.complete:
            return sentence
        where = self.posterior.of(index)
        sampled = _sample(self.posterior, self.seed, epoch)[where]
        labeled = [
            (Span(int(start), int(end)), label)
            for start, end, label in zip(self.posterior.start[where], self.posterior.end[where], sampled, strict=True)
        ]
        entities = [
            Entity(span.start, span.end, self.labels[label], source="model") for span, label in labeled if label
        ]
        rejected = [span for span, label in labeled if not label]
        spans = {span for span, _ in labeled}
        kept = [entity for entity in sentence.entities if Span(entity.start, entity.end) not in spans]
        return replace(
            sentence,
            entities=tuple(sorted([*kept, *entities])),
            non_entities=tuple(sorted({*sentence.non_entities, *rejected})),
            complete=self.rest_as_negative,
        )

    def supervision_of(self, indices: Sequence[int]) -> list[TokenSupervision | None] | None:
        """Results of an earlier stage for these sentences; None if there was no such stage."""
        return [self.supervision.get(index) for index in indices] if self.supervision else None


@lru_cache(maxsize=2)
def _sample(posterior: SpanProbabilities, seed: int, epoch: int) -> IntArray:
    return posterior.sample(np.random.default_rng([seed, epoch, 2]))


def _repeat(part: Sequence[int], count: int, generator: np.random.Generator) -> list[int]:
    """``count`` items of ``part``, each repeated equally often up to one."""
    whole, rest = divmod(count, len(part))
    return [*part] * whole + [part[number] for number in generator.permutation(len(part))[:rest]]
