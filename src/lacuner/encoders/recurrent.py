"""Word vectors + character CNN + BiLSTM: an encoder that needs no download and trains fast on a CPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.encoder import Encoder, EncoderConfig
from lacuner.encoders.table import (
    fixed_table,
    forget,
    look_up,
    read_size,
    read_stored,
    start_from,
    trained_table,
    write_stored,
)
from lacuner.encoders.vectors import WordVectors, choose_vectors, vector_files
from lacuner.encoders.words import EncodedWords
from lacuner.features.order import backwards, rearrange
from lacuner.features.vocabulary import PADDING, Vocabulary, WordInputs

VOCABULARY_FILE = "vocabulary.json"


class RecurrentConfig(EncoderConfig):
    """``recurrent``: word vectors, a character CNN and a BiLSTM."""

    epochs: ClassVar = 15
    training: ClassVar = {"batch_tokens": 256, "encoder_learning_rate": 2e-3, "head_learning_rate": 2e-3}

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

    @property
    def files(self) -> tuple[Path, ...]:
        return vector_files(self.vectors)

    def create(self, sentences: Sequence[Sequence[str]]) -> "RecurrentEncoder":
        vectors = choose_vectors(self.vectors, sentences)
        vocabulary = Vocabulary.build(sentences, vectors.words if vectors else ())
        return RecurrentEncoder.create(self, vocabulary, vectors)

    def restore(self, architecture: dict[str, Any], folder: Path) -> "RecurrentEncoder":
        size = read_size(architecture, folder)
        return RecurrentEncoder(self, read_stored(folder, VOCABULARY_FILE, Vocabulary.from_dict), size)


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
        turned = backwards(lengths, words.shape[1])
        read_back, _ = self.inward(rearrange(words, turned))
        return torch.cat([self.onward(words)[0], rearrange(read_back, turned)], dim=-1)


class RecurrentEncoder(Encoder):
    """Words → vectors of size ``2 * hidden``.

    Words of the training corpus have vectors that are trained (starting from a file's, if there is one); all other words of
    the file keep theirs. Case is in the characters.
    """

    def __init__(self, config: RecurrentConfig, vocabulary: Vocabulary, word_size: int) -> None:
        super().__init__()
        self.config = config
        self.index: Vocabulary = vocabulary
        self.words = trained_table(vocabulary.trained + 2, word_size)
        self.fixed: Tensor
        self.register_buffer("fixed", fixed_table(len(vocabulary.words) - vocabulary.trained, word_size))
        self.rare: Tensor
        self.register_buffer("rare", vocabulary.rare_words(), persistent=False)
        # Its padding is zero, as the convolution pads, so that a longer word changes nothing.
        self.characters = trained_table(len(vocabulary.characters) + 2, config.character_size)
        self.convolution = nn.Conv1d(config.character_size, config.character_filters, kernel_size=3, padding=1)
        sizes = [word_size + config.character_filters, *[2 * config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(BiLSTM(size, config.hidden) for size in sizes)
        self.dropout = Dropout(config.dropout)
        self.size = 2 * config.hidden

    @classmethod
    def create(cls, config: RecurrentConfig, vocabulary: Vocabulary, vectors: WordVectors | None) -> "RecurrentEncoder":
        """A fresh encoder, its words initialised from ``vectors``."""
        encoder = cls(config, vocabulary, config.word_size if vectors is None else vectors.table.shape[1])
        start_from(vectors, vocabulary.words, encoder.words, encoder.fixed)
        return encoder

    def save(self, folder: Path) -> dict[str, Any]:
        write_stored(folder, VOCABULARY_FILE, self.index.as_dict())
        return {"word_size": self.words.embedding_dim}

    def forward(self, inputs: WordInputs) -> EncodedWords:
        hidden = torch.cat([self._look_up(inputs.words), self._spelling(inputs)], dim=-1)  # (B, n, word + filters)
        hidden = self.dropout(hidden)
        for layer in self.layers:
            hidden = self.dropout(layer(hidden, inputs.lengths))  # (B, n, 2 * hidden)
        return EncodedWords(hidden, hidden)

    def _look_up(self, words: Tensor) -> Tensor:
        if self.training and self.config.unknown_share:
            words = forget(words, self.rare, self.config.unknown_share)
        return look_up(words, self.words, self.fixed)

    def _spelling(self, inputs: WordInputs) -> Tensor:
        embedded = self.characters(inputs.characters)  # (U, longest word, character)
        filtered = self.convolution(embedded.transpose(1, 2))  # (U, filters, longest word)
        blank = (inputs.characters == PADDING)[:, None, :]
        spelled = torch.relu(filtered.masked_fill(blank, float("-inf")).amax(-1))  # (U, filters)
        return spelled.index_select(0, inputs.forms.flatten()).view(*inputs.forms.shape, -1)


PARTS = (RecurrentConfig,)
