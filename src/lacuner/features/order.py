"""Reversal of the sentences of a padded batch, each within its own length."""

import torch
from torch import Tensor


def backwards(lengths: Tensor, max_length: int) -> Tensor:
    """Indices that reverse each sentence without its padding: ``(B, n)``; its own inverse."""
    index = torch.arange(max_length, device=lengths.device)
    return torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)


def rearrange(words: Tensor, order: Tensor) -> Tensor:
    """Reorder the words ``(B, n, d)`` of each sentence by ``(B, n)``."""
    return words.gather(1, order[..., None].expand(-1, -1, words.shape[-1]))
