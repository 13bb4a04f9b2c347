"""What every encoder returns."""

from typing import NamedTuple

from torch import Tensor


class EncodedWords(NamedTuple):
    """Vectors of ``B`` sentences of up to ``n`` words.

    ``first`` represents a word that begins a span, ``last`` one that ends it; they differ where words consist of pieces.
    """

    first: Tensor  # (B, n, d)
    last: Tensor  # (B, n, d)

    def mean(self) -> Tensor:
        """One vector a word; that of its only piece, where it has only one."""
        return (self.first + self.last) / 2  # (B, n, d)
