"""Missampling: how many of the negatives that a method trains on are entities that nobody annotated.

Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022, §3.1.

The missampling rate of a sentence is ``γ = |ŷ ∩ ỹ| / |ỹ|``: of the spans ``ỹ`` drawn as negatives, the fraction of hidden
entities ``ŷ``. (The formula that the paper prints counts the hidden entities that were *not* drawn; its words mean this one.)
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lacuner.analysis.hidden import SpanSet, span_method
from lacuner.corpus import Corpus
from lacuner.recognizer import Recognizer
from lacuner.supervision.spans import Spans
from lacuner.training.loop import Observer
from lacuner.training.settings import RunSettings


@dataclass(frozen=True)
class EpochMissampling:
    """One epoch of training.

    Attributes:
        epoch: from 1.
        negatives: spans drawn as negatives.
        missampled: how many of them are hidden entities.
        rate: the paper's ``γ``: computed for each sentence, then the mean over those from which anything was drawn.
        pooled_rate: ``missampled / negatives`` of the whole corpus; long sentences weigh more.
        ever_drawn: fraction of the hidden entities that have been a negative in this epoch or before.
        dev_f1: on dev data, if there is any.
    """

    epoch: int
    negatives: int
    missampled: int
    rate: float
    pooled_rate: float
    ever_drawn: float
    dev_f1: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        return asdict(self)


class HiddenEntities:
    """The hidden entities of a corpus, ready to be looked up for all drawn spans at once.

    Args:
        hidden: spans of the hidden entities of each sentence.
    """

    def __init__(self, hidden: Sequence[SpanSet]) -> None:
        triples = [(index, start, end) for index, spans in enumerate(hidden) for start, end in sorted(spans)]
        table = torch.tensor(triples, dtype=torch.long).reshape(-1, 3)
        self.sentences = len(hidden)
        self._max_end = int(table[:, 2].max()) if len(table) else 0
        self._keys = self._key(table[:, 0], table[:, 1], table[:, 2])  # (H,) ascending

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, sentence: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """The number of the hidden entity that each span is, or -1: three times ``(N,) → (N,)``."""
        if not len(self):
            return torch.full_like(sentence, -1)
        keys = self._key(sentence, start, end)
        number = torch.searchsorted(self._keys, keys).clamp(max=len(self) - 1)
        is_hidden = (self._keys[number] == keys) & (end <= self._max_end)  # a longer span's key may be another's
        return torch.where(is_hidden, number, -1)

    def _key(self, sentence: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return (sentence * (self._max_end + 1) + start) * (self._max_end + 1) + end


def missampling_rates(negatives: np.ndarray, missampled: np.ndarray) -> tuple[float, float]:
    """``γ`` as the mean over sentences, and pooled; from the counts of every sentence, ``(S,), (S,)``.

    >>> missampling_rates(np.array([2, 8, 0]), np.array([1, 0, 0]))
    (0.25, 0.1)
    """
    drawn = negatives > 0
    if not drawn.any():
        return 0.0, 0.0
    return float((missampled[drawn] / negatives[drawn]).mean()), float(missampled.sum() / negatives.sum())


class MissamplingObserver(Observer):
    """Counts missampled entities while a model is trained; everything it is told it passes on.

    Teachers, which some methods train first on parts of the corpus, are not counted.

    Args:
        hidden: the hidden entities of each sentence of the training corpus.
        forward_to: another observer, such as one that shows progress.

    Attributes:
        epochs: what was counted, one entry an epoch.
    """

    def __init__(self, hidden: Sequence[SpanSet], forward_to: Observer | None = None) -> None:
        self.epochs: list[EpochMissampling] = []
        self._hidden = HiddenEntities(hidden)
        self._next = forward_to or Observer()
        self._ever = np.zeros(len(self._hidden), dtype=bool)
        self._is_teacher = False

    def stage_started(self, title: str) -> None:
        self._is_teacher = bool(title)  # its sentences are numbered differently
        self._next.stage_started(title)

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        self._negatives = np.zeros(self._hidden.sentences, dtype=np.int64)
        self._missampled = np.zeros(self._hidden.sentences, dtype=np.int64)
        self._next.epoch_started(epoch, epochs, words)

    def negatives_drawn(self, sentences: Sequence[int], spans: Spans) -> None:
        if not self._is_teacher:
            self._count(sentences, spans.to(torch.device("cpu")))
        self._next.negatives_drawn(sentences, spans)

    def batch_done(self, words: int) -> None:
        self._next.batch_done(words)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if not self._is_teacher:
            self.epochs.append(self._summary(record))
        self._next.epoch_ended(record)

    def _count(self, sentences: Sequence[int], spans: Spans) -> None:
        sentence = torch.tensor(sentences, dtype=torch.long)[spans.row]
        found = self._hidden.find(sentence, spans.start, spans.end)
        size = self._hidden.sentences
        self._negatives += np.bincount(sentence.numpy(), minlength=size)
        self._missampled += np.bincount(sentence[found >= 0].numpy(), minlength=size)
        self._ever[found[found >= 0].numpy()] = True

    def _summary(self, record: dict[str, Any]) -> EpochMissampling:
        rate, pooled = missampling_rates(self._negatives, self._missampled)
        return EpochMissampling(
            epoch=record["epoch"],
            negatives=int(self._negatives.sum()),
            missampled=int(self._missampled.sum()),
            rate=rate,
            pooled_rate=pooled,
            ever_drawn=float(self._ever.mean()) if len(self._ever) else 0.0,
            dev_f1=record["dev"]["f1"] if "dev" in record else None,
        )


def measure_missampling(
    train: Corpus,
    hidden: Sequence[SpanSet],
    settings: RunSettings,
    dev: Corpus | None = None,
    observer: Observer | None = None,
) -> list[EpochMissampling]:
    """Train a model, and count in every epoch what it was wrongly told to be no entity.

    Args:
        train: sentences with gaps.
        hidden: the entities that each of them lacks.
        settings: method, encoder, and how they are trained.
        dev: scored after every epoch.
        observer: told about progress.
    """
    span_method(settings, "missampling")
    counting = count_missampling(train, hidden, observer)
    Recognizer.train(train, dev, settings=settings, observer=counting)
    return counting.epochs


def count_missampling(
    train: Corpus, hidden: Sequence[SpanSet], observer: Observer | None = None, trusted: Corpus | None = None
) -> MissamplingObserver:
    """An observer for training on these sentences, numbered as training does: trusted ones first, none without words.

    Args:
        train: sentences with gaps.
        hidden: the entities that each of them lacks.
        observer: told about progress.
        trusted: sentences in which nothing is hidden.
    """
    nothing: list[SpanSet] = [frozenset() for sentence in trusted or () if sentence.tokens]
    lacking = [spans for spans, sentence in zip(hidden, train, strict=True) if sentence.tokens]
    return MissamplingObserver([*nothing, *lacking], observer)
