"""Word vectors + character CNN + BiLSTM: an encoder that needs no download and trains fast on a CPU."""

from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.bilstm import BiLSTM
from lacuner.encoders.dropout import Dropout
from lacuner.encoders.encoder import Encoder
from lacuner.encoders.table import fixed_table, load_vectors, look_up, read_size, replace_rare, trained_table
from lacuner.encoders.vectors import WordVectors
from lacuner.encoders.vocabulary import VocabularyConfig, restore_vocabulary, save_vocabulary
from lacuner.encoders.words import EncodedWords
from lacuner.features.vocabulary import PADDING, Vocabulary, WordInputs


class RecurrentConfig(VocabularyConfig):
    """``recurrent``: word vectors, a character CNN and a BiLSTM."""

    epochs: ClassVar = 15
    training: ClassVar = {"batch_tokens": 256, "encoder_learning_rate": 2e-3, "head_learning_rate": 2e-3}

    name: Literal["recurrent"] = "recurrent"
    character_size: int = Field(30, ge=1, description="size of character vectors")
    character_filters: int = Field(50, ge=1, description="number of filters of the character CNN")
    hidden: int = Field(200, ge=1, description="hidden size of the BiLSTM (per direction)")
    layers: int = Field(1, ge=1, description="number of BiLSTM layers")
    dropout: float = Field(0.35, ge=0, lt=1, description="dropout before and after each BiLSTM layer")

    def create(self, sentences: Sequence[Sequence[str]]) -> "RecurrentEncoder":
        return RecurrentEncoder.create(self, *self.choose_words(sentences))

    def restore(self, architecture: dict[str, Any], folder: Path) -> "RecurrentEncoder":
        size = read_size(architecture, folder)
        return RecurrentEncoder(self, restore_vocabulary(folder), size)


class RecurrentEncoder(Encoder):
    """Words → vectors of size ``2 * hidden``.

    Words of the training corpus have trainable vectors, initialized from a file if given; all other words of the file have
    fixed vectors. Case is represented by the characters.
    """

    draws_rows: ClassVar = True

    def __init__(self, config: RecurrentConfig, vocabulary: Vocabulary, word_size: int) -> None:
        super().__init__()
        self.config = config
        self.index: Vocabulary = vocabulary
        self.words = trained_table(vocabulary.trained + 2, word_size)
        self.fixed: Tensor
        self.register_buffer("fixed", fixed_table(len(vocabulary.words) - vocabulary.trained, word_size))
        self.rare: Tensor
        self.register_buffer("rare", vocabulary.rare_words(), persistent=False)
        # Padding is zero, as in the convolution, so that the longest word of a batch does not affect the others.
        self.characters = trained_table(len(vocabulary.characters) + 2, config.character_size)
        self.convolution = nn.Conv1d(config.character_size, config.character_filters, kernel_size=3, padding=1)
        sizes = chain([word_size + config.character_filters], repeat(2 * config.hidden, config.layers - 1))
        self.layers = nn.ModuleList(BiLSTM(size, config.hidden) for size in sizes)
        self.dropout = Dropout(config.dropout)
        self.size = 2 * config.hidden

    @classmethod
    def create(cls, config: RecurrentConfig, vocabulary: Vocabulary, vectors: WordVectors | None) -> "RecurrentEncoder":
        """Create an encoder with words initialized from ``vectors``."""
        encoder = cls(config, vocabulary, config.size_of(vectors))
        load_vectors(vectors, vocabulary.words, encoder.words, encoder.fixed)
        return encoder

    def save(self, folder: Path) -> dict[str, Any]:
        save_vocabulary(self.index, folder)
        return {"word_size": self.words.embedding_dim}

    def forward(self, inputs: WordInputs) -> EncodedWords:
        hidden = torch.cat([self._look_up(inputs.words), self._spelling(inputs)], dim=-1)  # (B, n, word + filters)
        hidden = self.dropout(hidden)
        for layer in self.layers:
            hidden = self.dropout(layer(hidden, inputs.lengths))  # (B, n, 2 * hidden)
        return EncodedWords(hidden, hidden)

    def _look_up(self, words: Tensor) -> Tensor:
        if self.training and self.config.unknown_fraction:
            words = replace_rare(words, self.rare, self.config.unknown_fraction)
        return look_up(words, self.words, self.fixed)

    def _spelling(self, inputs: WordInputs) -> Tensor:
        embedded = self.characters(inputs.characters)  # (U, longest word, character)
        filtered = self.convolution(embedded.transpose(1, 2))  # (U, filters, longest word)
        blank = (inputs.characters == PADDING)[:, None, :]
        spelled = torch.relu(filtered.masked_fill(blank, float("-inf")).amax(-1))  # (U, filters)
        return spelled.index_select(0, inputs.forms.flatten()).view(*inputs.forms.shape, -1)


PARTS = (RecurrentConfig,)
