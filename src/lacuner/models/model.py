"""What is trained, and what predicts: an encoder, a head and a method."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lacuner.corpus import Entity, Sentence
from lacuner.encoders import Encoder, Inputs
from lacuner.features.batches import plan_batches
from lacuner.methods.method import Method, Step
from lacuner.supervision.tags import TokenSupervision


class Model(nn.Module, ABC):
    """An encoder with a head that is trained as a method says.

    Args:
        encoder: words → vectors.
        method: which head there is, what training does with the unknown, what decides at inference.
        labels: names of the labels; the first is ``O``.
        memory: what the method's inference keeps of the training set.

    Attributes:
        threshold: how much more than ``O`` an entity must weigh, as a difference of logits; 0 lets the greater one win.
    """

    method: Method
    head: nn.Module

    def __init__(
        self, encoder: Encoder, method: Method, labels: Sequence[str], memory: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.method = method
        self.labels = tuple(labels)
        self.memory = dict(memory or {})
        self.threshold = 0.0

    @abstractmethod
    def targets(self, sentences: Sequence[Sentence], advice: Sequence[TokenSupervision | None] | None = None) -> Any:
        """What is known about a batch of sentences.

        Args:
            sentences: of the batch.
            advice: what an earlier stage of training has found out about each, if the method has stages.
        """

    @abstractmethod
    def forward(self, inputs: Any, targets: Any, step: Step) -> Tensor:
        """The loss of a batch."""

    @abstractmethod
    def entities(self, inputs: Inputs, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        """What the model finds in a batch."""


_BATCH_TOKENS = 4096
"""Tokens of a batch outside of training, padding included."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; afterwards the model is in the mode in which it was."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def batches_of(
    model: Model, sentences: Sequence[Sequence[str]], places: Sequence[int]
) -> Iterator[tuple[list[int], Any]]:
    """The sentences at ``places`` once, as batches: their places and the model's inputs."""
    device = next(model.parameters()).device
    lengths = model.encoder.index.lengths(sentences[place] for place in places)
    for batch in plan_batches(lengths, _BATCH_TOKENS):
        chosen = [places[number] for number in batch]
        yield chosen, model.encoder.index.collate([sentences[place] for place in chosen]).to(device)
