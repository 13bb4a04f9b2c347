"""Output of encoders."""

from typing import NamedTuple

from torch import Tensor


class EncodedWords(NamedTuple):
    """Vectors of ``B`` sentences of up to ``n`` words.

    ``first`` represents a word that begins a span, ``last`` one that ends it; they differ if a word has several subword
    pieces.
    """

    first: Tensor  # (B, n, d)
    last: Tensor  # (B, n, d)

    def mean(self) -> Tensor:
        """One vector per word, the mean of its first and last piece."""
        return (self.first + self.last) / 2  # (B, n, d)
