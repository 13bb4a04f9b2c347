"""LEBERT: lexicon words are injected between two layers of BERT."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.lexicon_bert import LexiconBertConfig, LexiconBertEncoder
from lacuner.encoders.table import VectorTable
from lacuner.encoders.transformer import TransformerEncoder
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError
from lacuner.features.lexicon import CoveredPieces, Lexicon
from lacuner.features.subwords import PieceInputs


class LebertConfig(LexiconBertConfig):
    """``lebert``: a BERT-like Hugging Face encoder with a lexicon adapter between two of its layers."""

    name: Literal["lebert"] = "lebert"
    layer: int = Field(1, ge=1, description="transformer layer after which lexicon words are added")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout in the lexicon adapter and on the word vectors")

    def check_model(self, bert: TransformerEncoder) -> None:
        check_layers(bert, self)

    def build(self, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> "LebertEncoder":
        return LebertEncoder(self, bert, lexicon, table)


class LebertEncoder(LexiconBertEncoder):
    """Words → vectors of their first and last subword pieces.

    Liu et al. 2021, *Lexicon Enhanced Chinese Sequence Labeling Using BERT Adapter* (ACL): after one layer, a lexicon adapter
    adds the words matching around its token to each piece, ``LayerNorm(dropout(h + Σ aⱼ vⱼ))``; the layers above see both.
    """

    def __init__(self, config: LebertConfig, bert: TransformerEncoder, lexicon: Lexicon, table: VectorTable) -> None:
        super().__init__(bert, lexicon, table)
        self.config = config
        self.norm = nn.LayerNorm(bert.size, eps=bert.model.config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.size = bert.size

    def forward(self, inputs: CoveredPieces) -> EncodedWords:
        cover = inputs.cover
        of_tokens = nn.functional.pad(cover.index.flatten(0, 1), (0, 0, 0, 1))  # (B * n + 1, k): the last has no words
        index = of_tokens[inputs.pieces.word.flatten()]  # (W * m, k)

        def take_in_words(hidden: Tensor) -> Tensor:
            words = self.words(hidden.flatten(0, 1), cover.words, index).view_as(hidden)  # (W, m, d)
            adapted: Tensor = self.norm(self.dropout(hidden + words))
            return adapted

        with self.autocast():
            hidden = run_layers(self.bert.model, inputs.pieces, self.config.layer, take_in_words)
        return self.bert.at_words(hidden, inputs.pieces)


def run_layers(model: Any, inputs: PieceInputs, layer: int, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Last layer ``(W, m, d)`` of a BERT-like model; ``change`` replaces the output of one layer."""
    from transformers.masking_utils import create_bidirectional_mask  # slow to import

    hidden = model.embeddings(input_ids=inputs.pieces)
    if hasattr(model, "embeddings_project"):  # ELECTRA
        hidden = model.embeddings_project(hidden)
    mask = create_bidirectional_mask(model.config, hidden, inputs.attention)
    for number, run in enumerate(model.encoder.layer, 1):
        output = run(hidden, mask)
        hidden = output[0] if isinstance(output, tuple) else output
        if number == layer:
            hidden = change(hidden)
    return hidden  # type: ignore[no-any-return]


@torch.no_grad()
def check_layers(bert: TransformerEncoder, config: LebertConfig) -> None:
    """Reject a model that is not computed layer by layer as BERT is, or lacks the layer."""
    inputs = bert.index.collate([["a"], ["a", "b", "c"]])
    expected = bert.model.eval()(input_ids=inputs.pieces, attention_mask=inputs.attention).last_hidden_state
    there = inputs.attention.bool()
    try:
        found = run_layers(bert.model, inputs, 0, lambda hidden: hidden)
        alike = torch.allclose(found[there], expected[there], atol=1e-4)
    except Exception:  # models of other kinds may raise anything
        alike = False
    if not alike:
        raise ConfigError(
            f"encoder.model={config.model!r} ({bert.model.config.model_type}) is not built like BERT, RoBERTa or ELECTRA, "
            "which lebert requires; give such a model, or use --encoder bert-word, which accepts any"
        )
    count = len(bert.model.encoder.layer)
    if config.layer > count:
        raise ConfigError(
            f"encoder.layer={config.layer}: the model has {count} layers; give a number from 1 to {count}"
        )


PARTS = (LebertConfig,)
