"""Texts of several people, encoded together and decided about one by one, so that nobody's result depends on the others.

Whatever is computed in one batch may change each other's last digits: matrix products of other sizes add up in another order.
Scores of spans are therefore computed text by text. Word vectors, which take most of the time, are computed in batches if the
encoder gives the same ones, bit by bit, in any company. Ours does where words are read by an LSTM; transformers and dynamically
quantized models do not. :func:`encodes_alike` tries it with the model at hand, on the machine at hand.
"""

from collections.abc import Iterator, Sequence

import torch

from lacuner.corpus.tokenize import Splitting, cut_words
from lacuner.inference.backends import Backend, TorchBackend
from lacuner.inference.passages import MAX_PASSAGE
from lacuner.models.model import EncodedBatch, Model, batches_of, evaluating
from lacuner.sample import read_sample

_PROBES = 24
"""Sentences that are encoded alone and in company."""
_COMPANY = (2, 3, 8, _PROBES)
"""Sizes of batches that are tried."""


class EncodedTogether:
    """A backend that has encoded some sentences in batches; it hands out each as if it had been encoded alone.

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
        """Encode all texts that are one passage; the passages of longer ones are each other's company already."""
        sentences = [cut_words(text, split) for text in texts]
        return cls(model, [words for words in sentences if 0 < len(words) <= MAX_PASSAGE], backend)

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        if len(sentences) == 1 and (row := self._rows.get(tuple(sentences[0]))) is not None:
            return row
        return self._backend.encode(sentences)


def rows_of(batch: EncodedBatch) -> Iterator[EncodedBatch]:
    """Each sentence of a batch as a batch of its own, without padding."""
    for row, length in enumerate(batch.lengths.tolist()):
        words = type(batch.words)(*(vectors[row : row + 1, :length].contiguous() for vectors in batch.words))
        yield EncodedBatch(words, batch.lengths[row : row + 1])


def encodes_alike(model: Model, backend: Backend | None = None) -> bool:
    """Whether sentences of the built-in sample get the same word vectors, bit by bit, alone and in batches of any size."""
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
