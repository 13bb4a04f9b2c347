"""Which words surely neither begin nor end an entity: spans of them need not be scored."""

import torch
from torch import Tensor, nn

from lacuner.encoders.words import EncodedWords


class WordFilter(nn.Module):
    """Two linear scores of a word vector: below 0, no entity begins there, or none ends there.

    :func:`lacuner.inference.word_filter.fit_word_filter` finds them, so that the model's entities stay what they are, as
    long as none is inside another. Most words of an ordinary text are neither, and few pairs of words are left.

    Args:
        size: of a word vector.
    """

    weight: Tensor  # (2, d): for first and for last words
    bias: Tensor  # (2,)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(2, size))
        self.register_buffer("bias", torch.zeros(2))

    def forward(self, words: EncodedWords, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Words with which entities may begin, and with which they may end: ``(B, n)`` bool each."""
        inside = torch.arange(words.first.shape[1], device=lengths.device) < lengths[:, None]
        starts, ends = self.scores(words)
        return inside & (starts >= 0), inside & (ends >= 0)

    def scores(self, words: EncodedWords) -> tuple[Tensor, Tensor]:
        """``(…, d)`` → ``(…)`` each."""
        if words.first is words.last:
            both = nn.functional.linear(words.first, self.weight, self.bias)
            return both[..., 0], both[..., 1]
        return words.first @ self.weight[0] + self.bias[0], words.last @ self.weight[1] + self.bias[1]
