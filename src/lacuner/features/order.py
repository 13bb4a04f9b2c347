"""Sentences of a batch read backwards, without leaving the rectangle that they are padded to."""

import torch
from torch import Tensor


def backwards(lengths: Tensor, places: int) -> Tensor:
    """``(B, n)``: the places of each sentence's words from its last to its first, padding where it was; its own inverse."""
    place = torch.arange(places, device=lengths.device)
    return torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)


def rearrange(words: Tensor, order: Tensor) -> Tensor:
    """``(B, n, d)`` with the words of each sentence in another order ``(B, n)``."""
    return words.gather(1, order[..., None].expand(-1, -1, words.shape[-1]))
