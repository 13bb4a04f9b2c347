"""Length-bucketed batches under a token budget."""

from collections.abc import Sequence

import numpy as np

_POOL = 64
"""Number of batches whose sentences are sorted together: similar lengths per batch, but different batches every epoch."""


def plan_batches(lengths: Sequence[int], budget: int, shuffle: tuple[int, int] | None = None) -> list[list[int]]:
    """Plan batches, as lists of sentence indices.

    A batch, padded to its longest sentence, has at most ``budget`` tokens; a longer sentence is alone in its batch.

    Args:
        lengths: sentence lengths in tokens, as counted by the encoder.
        budget: maximum number of tokens in a batch, including padding.
        shuffle: ``(seed, epoch)``; ``None`` sorts all sentences by length, for prediction.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if shuffle is None:
        return _pack(np.argsort(sizes, kind="stable"), sizes, budget)
    random = np.random.default_rng(shuffle)
    order = random.permutation(len(sizes))
    pool = max(1, int(_POOL * budget / max(1.0, float(sizes.mean())))) if len(sizes) else 1
    batches = []
    for begin in range(0, len(order), pool):
        part = order[begin : begin + pool]
        batches += _pack(part[np.argsort(sizes[part], kind="stable")], sizes, budget)
    return [batches[index] for index in random.permutation(len(batches))]


def _pack(order: np.ndarray, sizes: np.ndarray, budget: int) -> list[list[int]]:
    """Split ascending ``order`` into batches."""
    batches: list[list[int]] = []
    for index in order.tolist():
        if batches and (len(batches[-1]) + 1) * sizes[index] <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
