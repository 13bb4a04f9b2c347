"""Batch → one vector a word."""

from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.encoders.words import EncodedWords

EncoderConfig = RecurrentConfig | TransformerConfig
Encoder = RecurrentEncoder | TransformerEncoder
ENCODERS: dict[str, type[EncoderConfig]] = {"recurrent": RecurrentConfig, "transformer": TransformerConfig}

__all__ = [
    "ENCODERS",
    "EncodedWords",
    "Encoder",
    "EncoderConfig",
    "RecurrentConfig",
    "RecurrentEncoder",
    "TransformerConfig",
    "TransformerEncoder",
]
