"""Reversing the sentences of a padded batch, each within its own length."""

import torch
from torch import Tensor


def backwards(lengths: Tensor, max_length: int) -> Tensor:
    """``(B, n)``: indices of each sentence's words from its last to its first, padding unmoved; its own inverse."""
    index = torch.arange(max_length, device=lengths.device)
    return torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)


def rearrange(words: Tensor, order: Tensor) -> Tensor:
    """``(B, n, d)`` with the words of each sentence in another order ``(B, n)``."""
    return words.gather(1, order[..., None].expand(-1, -1, words.shape[-1]))
