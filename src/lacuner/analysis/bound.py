"""How likely uniform sampling draws no hidden entity at all, exactly and as the paper bounds it.

Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022, Theorem 1.

For a sentence with ``n`` words, ``m`` annotated and ``ŷ`` hidden entities, of which ``⌈λ n⌉`` negatives are drawn,
``q = Π_{0≤t<⌈λn⌉} (1 - ŷ / (n(n+1)/2 - m - t))``, and ``q > 1 - 4λ√n / (n-1)`` as long as ``m + ŷ ≤ √n``.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np


class SentenceCounts(NamedTuple):
    """What the probability depends on."""

    length: int
    annotated: float  # m
    hidden: float  # ŷ; a mean or an assumption need not be whole


@dataclass(frozen=True)
class BoundRow:
    """Sentences of one length.

    Attributes:
        length: words.
        sentences: how many there are; 0 for the theoretical curve.
        negatives: ``⌈λ n⌉``.
        annotated: mean of ``m``.
        hidden: mean of ``ŷ``.
        exact: mean of the exact probability of zero missampling.
        bound: what the theorem guarantees; 0 where it says nothing.
        dense: sentences with more than ``√n`` entities, for which the theorem promises nothing.
        exhausted: sentences that have fewer spans to draw from than are asked for.
    """

    length: int
    sentences: int
    negatives: int
    annotated: float
    hidden: float
    exact: float
    bound: float
    dense: int = 0
    exhausted: int = 0

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.bound <= 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"vacuous": self.vacuous}


def negatives_drawn(length: int, ratio: float) -> int:
    """``⌈λ n⌉``; rounded first, because ``1.1 * 50`` is a little more than 55 to a computer."""
    return math.ceil(round(ratio * length, 9))


def probability_of_zero_missampling(counts: SentenceCounts, ratio: float) -> float:
    """``q``, as a sum of logarithms, so that many factors close to 1 lose nothing.

    Where all spans are drawn, hidden entities are, too: then it is 0, and never less.

    >>> probability_of_zero_missampling(SentenceCounts(length=4, annotated=1, hidden=1), ratio=0.5)  # 8/9 * 7/8
    0.7777777777777778
    """
    if not counts.hidden:
        return 1.0
    spans = counts.length * (counts.length + 1) / 2 - counts.annotated
    left = spans - np.arange(negatives_drawn(counts.length, ratio))
    if (left <= counts.hidden).any():
        return 0.0
    return math.exp(math.fsum(np.log1p(-counts.hidden / left)))


def lower_bound(length: int, ratio: float) -> float:
    """``1 - 4λ√n / (n-1)``, or 0 where that is negative and says nothing."""
    return 0.0 if length < 2 else max(0.0, 1 - 4 * ratio * math.sqrt(length) / (length - 1))


def bound_is_proved(length: int, ratio: float) -> bool:
    """Whether the proof's last step holds, ``2(λn+1)√n / (n(n-1)+2) ≤ 4λ√n / (n-1)``, and its premise ``⌈λn⌉ ≤ n``.

    It does whenever ``1 ≤ λn ≤ n``. The paper overlooks that ``⌈λn⌉`` is at least 1: with a very small ``λ`` a negative is
    drawn all the same, and the bound promises too much.
    """
    n = length
    return ratio <= 1 and (ratio * n + 1) * (n - 1) <= 2 * ratio * (n * (n - 1) + 2)


def first_informative_length(ratio: float) -> int:
    """The shortest sentence for which the bound says anything: ``n`` beyond ``(2λ + √(4λ² + 1))²``."""
    length = max(2, math.floor((2 * ratio + math.sqrt(4 * ratio**2 + 1)) ** 2) - 1)
    while lower_bound(length, ratio) <= 0:
        length += 1
    return length


def theoretical_curve(lengths: Iterable[int], ratio: float, missing: float = 1.0) -> list[BoundRow]:
    """Sentences with as many entities as the theorem allows, ``√n``, of which the fraction ``missing`` is hidden.

    With ``missing=1`` that is the worst case, from which the paper derives the bound.
    """
    rows = []
    for length in lengths:
        root = math.sqrt(length)
        counts = SentenceCounts(length, (1 - missing) * root, missing * root)
        rows.append(_row([(counts, 1)], ratio, sentences=0))
    return rows


def bound_by_length(sentences: Iterable[SentenceCounts], ratio: float) -> list[BoundRow]:
    """Means over the sentences of each length; those without words are left out."""
    grouped: defaultdict[int, Counter[SentenceCounts]] = defaultdict(Counter)
    for counts in sentences:
        if counts.length:
            grouped[counts.length][counts] += 1
    return [_row(list(group.items()), ratio, group.total()) for _, group in sorted(grouped.items())]


def as_many_as_allowed(length: int, annotated: int) -> SentenceCounts:
    """A sentence with as many hidden entities as the theorem's premise allows: ``√n - m``."""
    return SentenceCounts(length, annotated, max(0.0, math.sqrt(length) - annotated))


def with_assumed_fraction(sentences: Sequence[tuple[int, int]], missing: float) -> list[SentenceCounts]:
    """Sentences, given as ``(n, m)``, of whose entities the fraction ``missing`` is assumed to be hidden.

    Who knows ``m`` of one sentence does not know how many entities it lacks; every sentence of a length is given the mean
    number, ``missing / (1 - missing)`` times the mean of ``m``. ``q`` is convex in ``ŷ``, so that errs on the low side.
    """
    assert 0 <= missing < 1
    total, count = Counter[int](), Counter[int]()
    for length, annotated in sentences:
        total[length] += annotated
        count[length] += 1
    factor = missing / (1 - missing)
    return [SentenceCounts(n, m, factor * total[n] / count[n]) for n, m in sentences]


def mean_probability(rows: Sequence[BoundRow]) -> float:
    """``q`` over all sentences: the fraction from which an epoch draws no hidden entity."""
    sentences = sum(row.sentences for row in rows)
    return math.fsum(row.exact * row.sentences for row in rows) / sentences if sentences else 0.0


def _row(group: Sequence[tuple[SentenceCounts, int]], ratio: float, sentences: int) -> BoundRow:
    """Sentences of one length, each with how often it occurs."""
    length = group[0][0].length
    weight = sum(count for _, count in group)
    spans, drawn = length * (length + 1) // 2, negatives_drawn(length, ratio)

    def mean(values: Iterable[float]) -> float:
        return math.fsum(value * count for value, (_, count) in zip(values, group, strict=True)) / weight

    return BoundRow(
        length=length,
        sentences=sentences,
        negatives=drawn,
        annotated=mean(counts.annotated for counts, _ in group),
        hidden=mean(counts.hidden for counts, _ in group),
        exact=mean(probability_of_zero_missampling(counts, ratio) for counts, _ in group),
        bound=lower_bound(length, ratio),
        dense=sum(n for c, n in group if sentences and c.annotated + c.hidden > math.sqrt(length) + 1e-9),
        exhausted=sum(n for c, n in group if sentences and drawn > spans - c.annotated),
    )
