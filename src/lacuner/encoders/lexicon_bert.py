"""Shared parts of Hugging Face encoders with a lexicon."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from lacuner.encoders.encoder import Encoder
from lacuner.encoders.lexicon import LexiconConfig, WordAttention, choose_lexicon, restore_lexicon, save_lexicon
from lacuner.encoders.table import VectorTable
from lacuner.encoders.transformer import PretrainedConfig, TransformerConfig, TransformerEncoder
from lacuner.features.lexicon import CoveredPieceIndex, Lexicon


class LexiconBertConfig(LexiconConfig, PretrainedConfig, ABC):
    """Settings of a Hugging Face encoder with a lexicon."""

    epochs: ClassVar = TransformerConfig.epochs
    min_steps: ClassVar = TransformerConfig.min_steps
    training: ClassVar = TransformerConfig.training

    dropout: float = Field(0.1, ge=0, lt=1)

    @property
    def bert(self) -> TransformerConfig:
        """The encoder without the lexicon."""
        return TransformerConfig(model=self.model, window=self.window, dropout=self.dropout)

    @property
    def title(self) -> str:
        return f"{self.name} ({super().title})"

    def check(self) -> None:
        self.bert.check()

    @abstractmethod
    def build(self, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> "LexiconBertEncoder":
        """Build a new encoder from these components."""

    def create(self, sentences: Sequence[Sequence[str]]) -> "LexiconBertEncoder":
        bert = self.bert.create()
        self.check_model(bert)
        return self.build(bert, *choose_lexicon(self, sentences))

    def check_model(self, bert: TransformerEncoder) -> None:
        """Reject a model that the encoder cannot be built on."""

    def restore(self, architecture: dict[str, Any], folder: Path) -> "LexiconBertEncoder":
        return self.build(self.bert.restore(architecture, folder), *restore_lexicon(folder))


class LexiconBertEncoder(Encoder):
    """A Hugging Face encoder, and attention over the lexicon words around each token."""

    def __init__(self, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> None:
        super().__init__()
        self.index: CoveredPieceIndex = CoveredPieceIndex(bert.index, lexicon)
        self.bert = bert
        self.words = WordAttention(table, bert.size)

    @property
    def pretrained(self) -> nn.Module:
        return self.bert.pretrained

    def save(self, folder: Path) -> dict[str, Any]:
        save_lexicon(self.index.lexicon, self.words.table, folder)
        return self.bert.save(folder)
