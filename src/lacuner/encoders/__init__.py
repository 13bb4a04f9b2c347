"""Batch → one vector a word."""

from lacuner.encoders.bert_word import BertWordConfig
from lacuner.encoders.encoder import Encoder, EncoderConfig, Inputs
from lacuner.encoders.flat import FlatConfig
from lacuner.encoders.lebert import LebertConfig
from lacuner.encoders.recurrent import RecurrentConfig
from lacuner.encoders.transformer import TransformerConfig
from lacuner.encoders.words import EncodedWords

ENCODERS: dict[str, type[EncoderConfig]] = {
    "recurrent": RecurrentConfig,
    "transformer": TransformerConfig,
    "flat": FlatConfig,
    "bert-word": BertWordConfig,
    "lebert": LebertConfig,
}

__all__ = ["ENCODERS", "EncodedWords", "Encoder", "EncoderConfig", "Inputs", "RecurrentConfig", "TransformerConfig"]
