"""Entity sparsity: sentences have fewer entities than the square root of their length.

Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022, §3.1.3 and Figure 3. It is the
premise under which their bound on missampling holds.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

BAR = 1.6
"""The length of a bar in the paper's figure, in variances; the mean is in its center."""


@dataclass(frozen=True)
class SparsityRow:
    """Sentences of one length.

    Attributes:
        length: words.
        sentences: how many there are.
        mean: of their numbers of entities.
        variance: of the same, around that mean.
        sparse: how many of the sentences have no more than ``√n`` entities.
    """

    length: int
    sentences: int
    mean: float
    variance: float
    sparse: int

    @property
    def root(self) -> float:
        """``√n``."""
        return math.sqrt(self.length)

    @property
    def bar(self) -> tuple[float, float]:
        """Where the paper's bar begins and ends: 1.6 variances long, around the mean."""
        return self.mean - BAR / 2 * self.variance, self.mean + BAR / 2 * self.variance

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"root": self.root, "bar": list(self.bar)}


def sparsity_by_length(sentences: Iterable[tuple[int, int]]) -> list[SparsityRow]:
    """From ``(words, entities)`` of every sentence; those without words are left out.

    >>> row, = sparsity_by_length([(4, 1), (4, 3)])
    >>> row.mean, row.variance, row.bar, row.sparse
    (2.0, 1.0, (1.2, 2.8), 1)
    """
    grouped: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for length, entities in sentences:
        if length:
            grouped[length][entities] += 1
    return [_row(length, counts) for length, counts in sorted(grouped.items())]


def fraction_of_sparse_sentences(rows: Sequence[SparsityRow]) -> float:
    """How many of all sentences have no more than ``√n`` entities."""
    sentences = sum(row.sentences for row in rows)
    return sum(row.sparse for row in rows) / sentences if sentences else 0.0


def _row(length: int, counts: Counter[int]) -> SparsityRow:
    total = counts.total()
    mean = sum(entities * count for entities, count in counts.items()) / total
    variance = math.fsum((entities - mean) ** 2 * count for entities, count in counts.items()) / total
    sparse = sum(count for entities, count in counts.items() if entities**2 <= length)
    return SparsityRow(length, total, mean, variance, sparse)
