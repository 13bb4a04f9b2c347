"""Label probabilities of spans: held-out predictions, used as soft targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lacuner.corpus import Corpus

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SpanProbabilities:
    """Label probabilities (``O`` is 0) of some spans of a corpus, ordered by sentence."""

    sentence: IntArray  # (N,) ascending sentence indices
    start: IntArray  # (N,)
    end: IntArray  # (N,)
    probabilities: FloatArray  # (N, L), rows sum to 1

    def __len__(self) -> int:
        return len(self.sentence)

    def __getitem__(self, chosen: npt.NDArray[np.bool_]) -> "SpanProbabilities":
        return SpanProbabilities(**{name: value[chosen] for name, value in vars(self).items()})

    def sample(self, generator: np.random.Generator) -> IntArray:
        """Sample a label index for each span."""
        reached = self.probabilities.cumsum(1)
        labels: IntArray = (reached < generator.random((len(self), 1)) * reached[:, -1:]).sum(1)
        return labels

    def of(self, sentence: int) -> slice:
        """Slice of the spans of a sentence."""
        begin, end = np.searchsorted(self.sentence, [sentence, sentence + 1])
        return slice(int(begin), int(end))

    def spans(self) -> IntArray:
        """``(N, 3)``: sentence, start and end."""
        return np.stack([self.sentence, self.start, self.end], axis=1)

    def tensors(self) -> dict[str, Tensor]:
        """Return tensors for storage; see :meth:`from_tensors`."""
        return {name: torch.from_numpy(value).clone() for name, value in vars(self).items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "SpanProbabilities":
        return cls(**{name: value.numpy() for name, value in tensors.items()})

    @classmethod
    def empty(cls, labels: int) -> "SpanProbabilities":
        """Probabilities of zero spans."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, np.zeros((0, labels), dtype=np.float32))


def concatenate(parts: Sequence[SpanProbabilities]) -> SpanProbabilities:
    """Concatenate probabilities of spans of different sentences."""
    order = np.argsort(np.concatenate([part.sentence for part in parts]), kind="stable")
    sentence, start, end, probabilities = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("sentence", "start", "end", "probabilities")
    )
    return SpanProbabilities(sentence, start, end, probabilities)


def mean(parts: Sequence[SpanProbabilities], asked: Sequence[Sequence[int]] | None = None) -> SpanProbabilities:
    """Mean over several models; a span missing from a model's predictions counts as ``O``.

    Args:
        parts: the predictions of each model.
        asked: indices of the sentences that each model predicted; by default the same for all.
    """
    spans, inverse = np.unique(np.concatenate([part.spans() for part in parts]), axis=0, return_inverse=True)
    total = np.zeros((len(spans), parts[0].probabilities.shape[1]), dtype=np.float32)
    np.add.at(total, inverse.reshape(-1), np.concatenate([part.probabilities for part in parts]))
    if asked is None:
        total /= len(parts)
    else:
        voices = np.bincount(np.concatenate([np.asarray(each, dtype=np.int64) for each in asked]))
        total /= voices[spans[:, 0]].astype(np.float32)[:, None]
    total[:, 0] += 1 - total.sum(1)
    return SpanProbabilities(spans[:, 0], spans[:, 1], spans[:, 2], total)


def annotated_labels(spans: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> Tensor:
    """Labels annotated for each span, ``(N, L)`` bool; labels not in ``labels`` are ignored."""
    number = {label: index for index, label in enumerate(labels)}
    annotated = torch.zeros(spans.probabilities.shape, dtype=torch.bool)
    for index in np.unique(spans.sentence).tolist():
        if not (entities := corpus[index].entities):
            continue
        own = spans.of(index)
        row = dict(zip(zip(spans.start[own].tolist(), spans.end[own].tolist(), strict=True), count(own.start)))
        for entity in entities:
            found = row.get((entity.start, entity.end))
            if found is not None and entity.label in number:
                annotated[found, number[entity.label]] = True
    return annotated
