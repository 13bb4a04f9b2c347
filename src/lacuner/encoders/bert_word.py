"""BERT+Word: the words around each character beside BERT's vector of it, fused by a BiLSTM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.encoder import Encoder
from lacuner.encoders.lexicon import (
    LexiconBertConfig,
    WordAttention,
    choose_lexicon,
    restore_lexicon,
    save_lexicon,
)
from lacuner.encoders.recurrent import BiLSTM
from lacuner.encoders.table import VectorTable
from lacuner.encoders.transformer import TransformerEncoder
from lacuner.encoders.words import EncodedWords
from lacuner.features.lexicon import CoveredPieceIndex, CoveredPieces, Lexicon


class BertWordConfig(LexiconBertConfig):
    """``bert-word``: a Hugging Face encoder, and a BiLSTM that reads its vectors beside those of lexicon words."""

    name: Literal["bert-word"] = "bert-word"
    hidden: int = Field(200, ge=1, description="size of the BiLSTM, in each direction")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the vectors before the BiLSTM and behind it")

    def create(self, sentences: Sequence[Sequence[str]]) -> "BertWordEncoder":
        return BertWordEncoder(self, self.bert.create(), *choose_lexicon(self, sentences))

    def restore(self, architecture: dict[str, Any], folder: Path) -> "BertWordEncoder":
        return BertWordEncoder(self, self.bert.restore(architecture, folder), *restore_lexicon(folder))


class BertWordEncoder(Encoder):
    """Words → vectors of size ``2 * hidden``.

    The baseline of Liu et al. 2021, *Lexicon Enhanced Chinese Sequence Labeling Using BERT Adapter* (ACL): where LEBERT takes
    words into BERT, this one adds them behind it.
    """

    def __init__(self, config: BertWordConfig, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> None:
        super().__init__()
        self.config = config
        self.index: CoveredPieceIndex = CoveredPieceIndex(bert.index, lexicon)
        self.bert = bert
        self.words = WordAttention(table, bert.size)
        self.fusion = BiLSTM(2 * bert.size, config.hidden)
        self.dropout = Dropout(config.dropout)
        self.size = 2 * config.hidden

    @property
    def pretrained(self) -> nn.Module:
        return self.bert.pretrained

    def save(self, folder: Path) -> dict[str, Any]:
        save_lexicon(self.index.lexicon, self.words.table, folder)
        return self.bert.save(folder)

    def forward(self, inputs: CoveredPieces) -> EncodedWords:
        characters = self.bert(inputs.pieces).mean()  # (B, n, d)
        cover = inputs.cover
        words = self.words(characters.flatten(0, 1), cover.words, cover.places.flatten(0, 1)).view_as(characters)
        fused = self.dropout(self.fusion(torch.cat([characters, words], dim=-1), inputs.lengths))  # (B, n, 2 * hidden)
        return EncodedWords(fused, fused)


PARTS = (BertWordConfig,)
