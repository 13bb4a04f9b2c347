"""Reversal of the sentences of a padded batch, each within its own length."""

import torch
from torch import Tensor


def backwards(lengths: Tensor, max_length: int) -> Tensor:
    """Indices that reverse each sentence without its padding: ``(B, n)``; its own inverse."""
    index = torch.arange(max_length, device=lengths.device)
    return torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)


def rearrange(words: Tensor, order: Tensor) -> Tensor:
    """Reorder the words ``(B, n, d)`` of each sentence by ``(B, n)``."""
    begins = torch.arange(0, order.numel(), max(1, order.shape[1]), device=order.device)  # of the sentences, in one row
    index = (order + begins[:, None]).flatten()
    return words.flatten(0, 1).index_select(0, index).view_as(words)  # much faster than gather
