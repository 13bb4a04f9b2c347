"""Encoders: a batch of sentences → one vector per word.

To add an encoder, add a module to this folder that lists its settings in ``PARTS``; a third-party package names such a module
in the entry-point group ``lacuner.encoders``.
"""

from collections.abc import Mapping

from lacuner.encoders.encoder import Encoder, EncoderConfig, Inputs
from lacuner.encoders.words import EncodedWords
from lacuner.registry import Registry

REGISTRY = Registry("lacuner.encoders", {"encoder": EncoderConfig})
ENCODERS: Mapping[str, type[EncoderConfig]] = REGISTRY.entries("encoder")

__all__ = ["ENCODERS", "EncodedWords", "Encoder", "EncoderConfig", "Inputs"]
