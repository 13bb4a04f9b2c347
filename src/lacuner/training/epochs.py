"""Which sentences an epoch consists of, and what is taken as known about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.supervision.tags import TokenSupervision

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SpanProbabilities:
    """What a teacher thinks of some spans of a corpus: the probabilities of all labels (``O`` is 0), sentence by sentence."""

    sentence: IntArray  # (N,) ascending places in the corpus
    start: IntArray  # (N,)
    end: IntArray  # (N,)
    probabilities: FloatArray  # (N, L), rows sum to 1

    def __len__(self) -> int:
        return len(self.sentence)

    def draw(self, generator: np.random.Generator) -> IntArray:
        """A label number for each span, as likely as the teacher thinks it is."""
        reached = self.probabilities.cumsum(1)
        labels: IntArray = (reached < generator.random((len(self), 1)) * reached[:, -1:]).sum(1)
        return labels

    def of(self, sentence: int) -> slice:
        """Where the spans of a sentence are."""
        begin, end = np.searchsorted(self.sentence, [sentence, sentence + 1])
        return slice(int(begin), int(end))


@dataclass(frozen=True, eq=False)
class EpochSampler:
    """The sentences of every epoch.

    Attributes:
        corpus: all sentences.
        seed: of everything that is drawn here.
        share: how much of an epoch is complete sentences; none: as much as of the corpus. An epoch has as many sentences as
            the corpus, whatever the share.
        beliefs: what a teacher thinks of the sentences that are not complete; in each epoch its spans get a label that
            is drawn anew from what it thinks. On average, a student learns the probabilities themselves.
        finish: from this epoch on (counted from 0) only complete sentences are read, if there are any.
        settled: take what the teacher did not think worth a thought as known to be no entity.
        labels: names of the labels that the beliefs number.
        advice: what an earlier stage of training has found out about sentences, by place.
    """

    corpus: Corpus
    seed: int = 1
    share: float | None = None
    finish: int | None = None
    beliefs: SpanProbabilities | None = None
    settled: bool = False
    labels: Sequence[str] = ()
    advice: Mapping[int, TokenSupervision] = field(default_factory=dict)

    @cached_property
    def _parts(self) -> tuple[list[int], list[int]]:
        """Places of the complete sentences, and of the others."""
        complete = [index for index, sentence in enumerate(self.corpus) if sentence.complete]
        return complete, [index for index, sentence in enumerate(self.corpus) if not sentence.complete]

    def indices(self, epoch: int) -> list[int]:
        """Places of the epoch's sentences in the corpus."""
        finishing = self.finish is not None and epoch >= self.finish
        if (self.share is None and not finishing) or not all(self._parts):
            return list(range(len(self.corpus)))
        wanted = len(self.corpus) if finishing else round((self.share or 0) * len(self.corpus))
        generator = np.random.default_rng([self.seed, epoch, 1])
        counts = (wanted, len(self.corpus) - wanted)
        return [
            index for part, count in zip(self._parts, counts, strict=True) for index in _repeat(part, count, generator)
        ]

    def sentence(self, index: int, epoch: int) -> Sentence:
        """A sentence as this epoch takes it."""
        sentence = self.corpus[index]
        if self.beliefs is None or sentence.complete:
            return sentence
        where = self.beliefs.of(index)
        drawn = self._drawn(epoch)[where]
        judged = [
            (Span(int(start), int(end)), label)
            for start, end, label in zip(self.beliefs.start[where], self.beliefs.end[where], drawn, strict=True)
        ]
        entities = [Entity(span.start, span.end, self.labels[label], source="model") for span, label in judged if label]
        rejected = [span for span, label in judged if not label]
        spans = {span for span, _ in judged}
        kept = [entity for entity in sentence.entities if Span(entity.start, entity.end) not in spans]
        return replace(
            sentence,
            entities=tuple(sorted([*kept, *entities])),
            non_entities=tuple(sorted({*sentence.non_entities, *rejected})),
            complete=self.settled,
        )

    def advice_for(self, indices: Sequence[int]) -> list[TokenSupervision | None] | None:
        """What is known about these sentences from an earlier stage; none, if there was no such stage."""
        return [self.advice.get(index) for index in indices] if self.advice else None

    def _drawn(self, epoch: int) -> IntArray:
        assert self.beliefs is not None
        return _draw(self.beliefs, self.seed, epoch)


@lru_cache(maxsize=2)
def _draw(beliefs: SpanProbabilities, seed: int, epoch: int) -> IntArray:
    return beliefs.draw(np.random.default_rng([seed, epoch, 2]))


def _repeat(part: Sequence[int], count: int, generator: np.random.Generator) -> list[int]:
    """``count`` items of ``part``, each as often as any other or once more."""
    whole, rest = divmod(count, len(part))
    return [*part] * whole + [part[place] for place in generator.permutation(len(part))[:rest]]
