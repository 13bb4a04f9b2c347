"""BERT+Word: BERT's character vectors and vectors of matching lexicon words, fused by a BiLSTM."""

from typing import Literal

import torch
from pydantic import Field

from lacuner.encoders.bilstm import BiLSTM
from lacuner.encoders.dropout import Dropout
from lacuner.encoders.lexicon_bert import LexiconBertConfig, LexiconBertEncoder
from lacuner.encoders.table import VectorTable
from lacuner.encoders.transformer import TransformerEncoder
from lacuner.encoders.words import EncodedWords
from lacuner.features.lexicon import CoveredPieces, Lexicon


class BertWordConfig(LexiconBertConfig):
    """``bert-word``: a Hugging Face encoder, and a BiLSTM that reads its vectors beside those of lexicon words."""

    name: Literal["bert-word"] = "bert-word"
    hidden: int = Field(200, ge=1, description="hidden size of the BiLSTM (per direction)")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout before and after the BiLSTM")

    def build(self, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> "BertWordEncoder":
        return BertWordEncoder(self, bert, lexicon, table)


class BertWordEncoder(LexiconBertEncoder):
    """Words → vectors of size ``2 * hidden``.

    The baseline of Liu et al. 2021, *Lexicon Enhanced Chinese Sequence Labeling Using BERT Adapter* (ACL): LEBERT injects
    lexicon words into BERT, this model adds them to its output.
    """

    def __init__(self, config: BertWordConfig, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> None:
        super().__init__(bert, lexicon, table)
        self.config = config
        self.fusion = BiLSTM(2 * bert.size, config.hidden)
        self.dropout = Dropout(config.dropout)
        self.size = 2 * config.hidden

    def forward(self, inputs: CoveredPieces) -> EncodedWords:
        characters = self.bert(inputs.pieces).mean()  # (B, n, d)
        cover = inputs.cover
        words = self.words(characters.flatten(0, 1), cover.words, cover.index.flatten(0, 1)).view_as(characters)
        fused = self.dropout(self.fusion(torch.cat([characters, words], dim=-1), inputs.lengths))  # (B, n, 2 * hidden)
        return EncodedWords(fused, fused)


PARTS = (BertWordConfig,)
