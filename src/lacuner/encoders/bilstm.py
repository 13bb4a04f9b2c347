"""A bidirectional LSTM over padded batches."""

import torch
from torch import Tensor, nn

from lacuner.features.order import backwards, rearrange


class BiLSTM(nn.Module):
    """A forward LSTM, and a backward LSTM that starts at the last word of each sentence.

    Sentences are reversed by indexing, which keeps the batch rectangular and on torch's fast path, unlike packed sequences.
    Padding never affects a word.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(size, hidden, batch_first=True)
        self.backward_lstm = nn.LSTM(size, hidden, batch_first=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """``(B, n, size)`` → ``(B, n, 2 * hidden)``."""
        order = backwards(lengths, words.shape[1])
        from_end, _ = self.backward_lstm(rearrange(words, order))
        return torch.cat([self.forward_lstm(words)[0], rearrange(from_end, order)], dim=-1)
