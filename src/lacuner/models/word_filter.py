"""A filter for words that certainly neither begin nor end an entity, so that their spans need not be scored."""

import torch
from torch import Tensor, nn

from lacuner.encoders.words import EncodedWords


class WordFilter(nn.Module):
    """Two linear classifiers of word vectors: a score below 0 means that no entity begins there, or that none ends there.

    They are fitted by :func:`lacuner.inference.word_filter.fit_word_filter` such that the model's non-nested predictions do
    not change. Since most words are filtered out, few pairs of words remain.

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
        """Words that may begin, and words that may end, an entity: ``(B, n)`` bool each."""
        inside = torch.arange(words.first.shape[1], device=lengths.device) < lengths[:, None]
        starts, ends = self.scores(words)
        return inside & (starts >= 0), inside & (ends >= 0)

    def scores(self, words: EncodedWords) -> tuple[Tensor, Tensor]:
        """Scores of first and of last words: ``(…, d) → (…)`` each."""
        if words.first is words.last:
            both = nn.functional.linear(words.first, self.weight, self.bias)
            return both[..., 0], both[..., 1]
        return words.first @ self.weight[0] + self.bias[0], words.last @ self.weight[1] + self.bias[1]
