"""Backends: what turns words into vectors. Heads and decoding are ours, whatever computes the vectors."""

from collections.abc import Sequence
from typing import Protocol

from lacuner.models.model import EncodedBatch, Model


class Backend(Protocol):
    """Computes word vectors."""

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        """Word vectors of a batch of sentences, on the device of the head."""


class TorchBackend:
    """The model's own encoder."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        return self._model.encode(sentences)
