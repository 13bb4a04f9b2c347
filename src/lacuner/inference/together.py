"""Batched encoding of several users' texts such that no result depends on the other texts.

Batching can change the last digits of results, because matrix products of different sizes sum in a different order. Span
scores are therefore computed text by text. Word vectors, which take most of the time, are computed in batches if the encoder
is bitwise independent of the batch. That holds for LSTM encoders, but not for transformers and dynamically quantized models;
:func:`encodes_alike` tests it for the model and machine at hand.
"""

from collections.abc import Iterator, Sequence

import torch

from lacuner.corpus.tokenize import Splitting, cut_words
from lacuner.inference.backends import Backend, TorchBackend
from lacuner.inference.passages import MAX_PASSAGE
from lacuner.models.model import EncodedBatch, Model, batches_of, evaluating
from lacuner.sample import read_sample

_PROBES = 24
"""Number of sentences that are encoded alone and in batches."""
_COMPANY = (2, 3, 8, _PROBES)
"""Batch sizes to test."""


class EncodedTogether:
    """A backend that encodes sentences in batches in advance, and returns each as if it had been encoded alone.

    Args:
        model: plans the batches.
        sentences: their words.
        backend: computes the vectors; by default the model's own encoder.
    """

    def __init__(self, model: Model, sentences: Sequence[Sequence[str]], backend: Backend | None = None) -> None:
        self._backend = backend or TorchBackend(model)
        self._rows: dict[tuple[str, ...], EncodedBatch] = {}
        different = list(dict.fromkeys(map(tuple, sentences)))
        with evaluating(model):
            for _, tokens in batches_of(model, different, range(len(different))):
                rows = rows_of(self._backend.encode(tokens))
                self._rows |= {tuple(words): row for words, row in zip(tokens, rows, strict=True)}

    @classmethod
    def of_texts(
        cls, model: Model, texts: Sequence[str], split: Splitting, backend: Backend | None = None
    ) -> "EncodedTogether":
        """Encode all texts of a single passage; passages of longer texts are batched with each other anyway."""
        sentences = [cut_words(text, split) for text in texts]
        return cls(model, [words for words in sentences if 0 < len(words) <= MAX_PASSAGE], backend)

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        if len(sentences) == 1 and (row := self._rows.get(tuple(sentences[0]))) is not None:
            return row
        return self._backend.encode(sentences)


def rows_of(batch: EncodedBatch) -> Iterator[EncodedBatch]:
    """Split a batch into single sentences without padding."""
    for row, length in enumerate(batch.lengths.tolist()):
        words = type(batch.words)(*(vectors[row : row + 1, :length].contiguous() for vectors in batch.words))
        yield EncodedBatch(words, batch.lengths[row : row + 1])


def encodes_alike(model: Model, backend: Backend | None = None) -> bool:
    """Whether sentences of the built-in sample get bitwise identical word vectors alone and in batches of any size."""
    backend = backend or TorchBackend(model)
    probes = [sentence.tokens for sentence in read_sample("train")[:_PROBES]]
    with evaluating(model):
        alone = [backend.encode([words]).words for words in probes[: _COMPANY[0]]]
        for size in _COMPANY:
            alone += [backend.encode([words]).words for words in probes[len(alone) : size]]
            for begin in range(0, len(alone) - size + 1, size):
                company = rows_of(backend.encode(probes[begin : begin + size]))
                pairs = zip(alone[begin : begin + size], company, strict=True)
                if not all(_are_equal(one, other.words) for one, other in pairs):
                    return False
    return True


def _are_equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))
