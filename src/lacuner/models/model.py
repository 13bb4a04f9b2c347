"""Base class of models: an encoder with a head. How it is trained is up to the method."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import EncodedWords, Encoder
from lacuner.features.batches import plan_batches
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision

_BATCH_TOKENS = 4096
"""Tokens per batch outside of training, including padding."""
_DOT = "/"
"""Replaces dots in buffer names, where they are not allowed; names of weights that a part may copy contain them."""


class EncodedBatch(NamedTuple):
    """Word vectors of ``B`` sentences of up to ``n`` words."""

    words: EncodedWords  # (B, n, d)
    lengths: Tensor  # (B,)


class PartState(nn.Module):
    """The state of one part of a method, as buffers, which follow the model's devices, copies, checkpoints and folders.

    Args:
        kept: saved with the model.
        training: needed during training only; saved in checkpoints, but not in model folders.
    """

    def __init__(self, kept: Mapping[str, Tensor], training: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, value in kept.items():
            self.register_buffer(name.replace(".", _DOT), value)
        for name, value in training.items():
            self.register_buffer(name.replace(".", _DOT), value, persistent=False)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name; in-place changes persist."""
        return {name.replace(_DOT, "."): value for name, value in self.named_buffers()}


class Decodable(ABC):
    """A scored batch that can be decoded with different thresholds."""

    @abstractmethod
    def decode(self, threshold: float, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        """The entities of each sentence; see :attr:`Model.threshold`."""


class Model(nn.Module, ABC):
    """An encoder with a head.

    Args:
        encoder: words → vectors.
        labels: names of the labels; the first is ``O``.

    Attributes:
        threshold: by how much the logit of an entity must exceed that of ``O``; 0 is the argmax.
        state: state of the method's parts, by kind of part.
    """

    head: nn.Module
    threshold: Tensor
    finds_nested: bool = False

    def __init__(self, encoder: Encoder, labels: Sequence[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = tuple(labels)
        self.register_buffer("threshold", torch.zeros(()))
        self.state = nn.ModuleDict()

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def state_of(self, kind: str) -> dict[str, Tensor]:
        """The state of the method's part of this kind; empty if it has none."""
        if kind not in self.state:
            return {}
        state = self.state[kind]
        assert isinstance(state, PartState)
        return state.tensors()

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        """Encode a batch of sentences into word vectors."""
        inputs = self.encoder.index.collate(sentences).to(self.device)
        return EncodedBatch(self.encoder(inputs), inputs.lengths)

    @abstractmethod
    def targets(self, sentences: Sequence[Sentence], known: Sequence[TokenSupervision | None] | None = None) -> Any:
        """Supervision of a batch of sentences, as tensors.

        Args:
            sentences: of the batch.
            known: results of an earlier stage for each sentence, if the method has stages.
        """

    @abstractmethod
    def score(self, batch: EncodedBatch) -> Decodable:
        """Score a batch for decoding with any threshold."""

    @abstractmethod
    def entities(self, batch: EncodedBatch, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        """Predict the entities of each sentence."""

    @abstractmethod
    def span_probabilities(
        self, batch: EncodedBatch, sentences: Sequence[Sentence], min_probability: float, use_threshold: bool = True
    ) -> tuple[Spans, Tensor]:
        """Label probabilities ``(N, L)`` of annotated spans, and of all others above a minimum probability.

        Args:
            batch: the encoded sentences.
            sentences: with their annotation.
            min_probability: minimum entity probability of unannotated spans.
            use_threshold: shift the probabilities by the model's threshold.
        """


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the previous mode is restored on exit."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def batches_of(
    model: Model, sentences: Sequence[Sequence[str]], indices: Sequence[int]
) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
    """Yield the sentences at ``indices`` in batches of similar length: their indices and their words."""
    lengths = model.encoder.index.lengths(sentences[index] for index in indices)
    for batch in plan_batches(lengths, _BATCH_TOKENS):
        chosen = [indices[number] for number in batch]
        yield chosen, [sentences[index] for index in chosen]
