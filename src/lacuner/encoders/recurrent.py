"""Word vectors + character CNN + BiLSTM: an encoder that needs no download and trains fast on a CPU."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lacuner.encoders.vectors import WordVectors
from lacuner.encoders.words import EncodedWords
from lacuner.encoding.vocabulary import PADDING, UNKNOWN, Vocabulary, WordInputs
from lacuner.parts import Part


class RecurrentConfig(Part):
    """``recurrent``: word vectors, a character CNN and a BiLSTM."""

    name: Literal["recurrent"] = "recurrent"
    vectors: str = Field("auto", description="auto (GloVe if installed and fitting), none, or a word2vec/GloVe text file")
    word_size: int = Field(100, ge=1, description="size of word vectors that are trained from scratch")
    character_size: int = Field(30, ge=1, description="size of character vectors")
    character_filters: int = Field(50, ge=1, description="filters of the character CNN")
    hidden: int = Field(200, ge=1, description="size of the BiLSTM, in each direction")
    layers: int = Field(1, ge=1, description="layers of the BiLSTM")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout on the words before the BiLSTM and behind it")
    unknown_share: float = Field(0.3, ge=0, le=1, description="how often a word seen once is taken as unknown in training")


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
        nn.init.uniform_(self.characters.weight, -((3 / config.character_size) ** 0.5), (3 / config.character_size) ** 0.5)
        self.convolution = nn.Conv1d(config.character_size, config.character_filters, kernel_size=3, padding=1)
        self.lstm = nn.LSTM(
            word_size + config.character_filters,
            config.hidden,
            num_layers=config.layers,
            dropout=config.dropout if config.layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.size = 2 * config.hidden

    @classmethod
    def create(cls, config: RecurrentConfig, vocabulary: Vocabulary, vectors: WordVectors | None) -> "RecurrentEncoder":
        """A fresh encoder, its words initialised from ``vectors``."""
        encoder = cls(config, vocabulary, config.word_size if vectors is None else vectors.table.shape[1])
        if vectors is not None:
            place = {word: number for number, word in enumerate(vectors.words)}
            table = torch.from_numpy(vectors.table)
            both = [(row, place[word]) for row, word in enumerate(vocabulary.words[: vocabulary.trained], 2) if word in place]
            with torch.no_grad():
                if both:
                    rows, places = torch.tensor(both).T
                    encoder.words.weight[rows] = table[places].float()
                encoder.fixed.copy_(table[[place[word] for word in vocabulary.words[vocabulary.trained :]]])
        encoder.words.weight.data[PADDING] = 0
        return encoder

    def forward(self, inputs: WordInputs) -> EncodedWords:
        words = torch.cat([self._look_up(inputs.words), self._spelling(inputs)], dim=-1)  # (B, n, word + filters)
        packed = pack_padded_sequence(
            self.dropout(words), inputs.lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.shape[1])
        hidden = self.dropout(hidden)  # (B, n, 2 * hidden)
        return EncodedWords(hidden, hidden)

    def _look_up(self, words: Tensor) -> Tensor:
        if self.training and self.config.unknown_share:
            trained = words.clamp(max=len(self.rare) - 1)
            forget = self.rare[trained] & (words == trained) & (torch.rand(words.shape) < self.config.unknown_share).to(words.device)
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
