"""Word vectors + character CNN + BiLSTM: an encoder that needs no download and trains fast on a CPU."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.vectors import WordVectors
from lacuner.encoders.words import EncodedWords
from lacuner.encoding.vocabulary import PADDING, UNKNOWN, Vocabulary, WordInputs
from lacuner.parts import Part


class RecurrentConfig(Part):
    """``recurrent``: word vectors, a character CNN and a BiLSTM."""

    name: Literal["recurrent"] = "recurrent"
    vectors: str = Field(
        "auto", description="auto (GloVe if installed and fitting), none, or a word2vec/GloVe text file"
    )
    word_size: int = Field(100, ge=1, description="size of word vectors that are trained from scratch")
    character_size: int = Field(30, ge=1, description="size of character vectors")
    character_filters: int = Field(50, ge=1, description="filters of the character CNN")
    hidden: int = Field(200, ge=1, description="size of the BiLSTM, in each direction")
    layers: int = Field(1, ge=1, description="layers of the BiLSTM")
    dropout: float = Field(0.35, ge=0, lt=1, description="dropout on the words before the BiLSTM and behind it")
    unknown_share: float = Field(
        0.3, ge=0, le=1, description="how often a word seen once is taken as unknown in training"
    )


class BiLSTM(nn.Module):
    """Two LSTMs, one of which reads each sentence from its own last word to its first.

    Turning the sentences around by index keeps the batch rectangular, and so on torch's fast path, which packed sequences
    are not. What stands in the padding never reaches a word.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.onward = nn.LSTM(size, hidden, batch_first=True)
        self.inward = nn.LSTM(size, hidden, batch_first=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        place = torch.arange(words.shape[1], device=words.device)  # (n,)
        turned = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)  # (B, n), its own inverse
        read_back, _ = self.inward(_rearrange(words, turned))
        return torch.cat([self.onward(words)[0], _rearrange(read_back, turned)], dim=-1)


def _rearrange(words: Tensor, order: Tensor) -> Tensor:
    return words.gather(1, order[..., None].expand(-1, -1, words.shape[-1]))


class RecurrentEncoder(nn.Module):
    """Words → vectors of size ``2 * hidden``.

    Words of the training corpus have vectors that are trained (starting from a file's, if there is one); all other words of
    the file keep theirs. Case is in the characters.
    """

    def __init__(self, config: RecurrentConfig, vocabulary: Vocabulary, word_size: int) -> None:
        super().__init__()
        self.config = config
        self.index = vocabulary
        self.words = nn.Embedding(vocabulary.trained + 2, word_size, padding_idx=PADDING)
        nn.init.uniform_(self.words.weight, -((3 / word_size) ** 0.5), (3 / word_size) ** 0.5)
        fixed = torch.zeros(len(vocabulary.words) - vocabulary.trained, word_size, dtype=torch.float16)
        self.fixed: Tensor
        self.register_buffer("fixed", fixed)
        self.rare: Tensor
        self.register_buffer("rare", vocabulary.rare_words(), persistent=False)
        self.characters = nn.Embedding(len(vocabulary.characters) + 2, config.character_size, padding_idx=PADDING)
        nn.init.uniform_(
            self.characters.weight, -((3 / config.character_size) ** 0.5), (3 / config.character_size) ** 0.5
        )
        self.convolution = nn.Conv1d(config.character_size, config.character_filters, kernel_size=3, padding=1)
        sizes = [word_size + config.character_filters, *[2 * config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(BiLSTM(size, config.hidden) for size in sizes)
        self.dropout = Dropout(config.dropout)
        self.size = 2 * config.hidden

    @classmethod
    def create(cls, config: RecurrentConfig, vocabulary: Vocabulary, vectors: WordVectors | None) -> "RecurrentEncoder":
        """A fresh encoder, its words initialised from ``vectors``."""
        encoder = cls(config, vocabulary, config.word_size if vectors is None else vectors.table.shape[1])
        if vectors is not None:
            place = {word: number for number, word in enumerate(vectors.words)}
            table = torch.from_numpy(vectors.table)
            both = [
                (row, place[word])
                for row, word in enumerate(vocabulary.words[: vocabulary.trained], 2)
                if word in place
            ]
            with torch.no_grad():
                if both:
                    rows, places = torch.tensor(both).T
                    encoder.words.weight[rows] = table[places].float()
                encoder.fixed.copy_(table[[place[word] for word in vocabulary.words[vocabulary.trained :]]])
        for embedding in (encoder.words, encoder.characters):
            embedding.weight.data[PADDING] = 0  # as the convolution itself pads, so that a longer word changes nothing
        return encoder

    def forward(self, inputs: WordInputs) -> EncodedWords:
        hidden = torch.cat([self._look_up(inputs.words), self._spelling(inputs)], dim=-1)  # (B, n, word + filters)
        hidden = self.dropout(hidden)
        for layer in self.layers:
            hidden = self.dropout(layer(hidden, inputs.lengths))  # (B, n, 2 * hidden)
        return EncodedWords(hidden, hidden)

    def _look_up(self, words: Tensor) -> Tensor:
        if self.training and self.config.unknown_share:
            trained = words.clamp(max=len(self.rare) - 1)
            forget = (
                self.rare[trained]
                & (words == trained)
                & (torch.rand(words.shape) < self.config.unknown_share).to(words.device)
            )
            words = words.masked_fill(forget, UNKNOWN)
        count = self.words.num_embeddings
        vectors: Tensor = self.words(words.clamp(max=count - 1))
        if not len(self.fixed):
            return vectors
        beyond = words >= count
        fixed = self.fixed[(words - count).clamp(min=0)].to(vectors.dtype)
        return torch.where(beyond[..., None], fixed, vectors)

    def _spelling(self, inputs: WordInputs) -> Tensor:
        embedded = self.characters(inputs.characters)  # (U, longest word, character)
        filtered = self.convolution(embedded.transpose(1, 2))  # (U, filters, longest word)
        blank = (inputs.characters == PADDING)[:, None, :]
        spelled = torch.relu(filtered.masked_fill(blank, float("-inf")).amax(-1))  # (U, filters)
        return spelled.index_select(0, inputs.forms.flatten()).view(*inputs.forms.shape, -1)
