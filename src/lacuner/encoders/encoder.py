"""What every encoder is, and what describes it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from lacuner.encoders.device import Precision
from lacuner.encoders.words import EncodedWords
from lacuner.parts import Part


class Inputs(Protocol):
    """A batch of sentences, as an encoder wants it."""

    @property
    def lengths(self) -> Tensor:
        """``(B,)`` words of each sentence."""

    def to(self, device: torch.device) -> Self: ...

    def rows(self, begin: int, end: int) -> Self:
        """The rows ``[begin, end)`` alone, padded as they are; needed only where several processes divide a batch."""


class Index(Protocol):
    """Turns words into inputs."""

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """What each sentence costs in a batch."""

    def collate(self, sentences: Sequence[Sequence[str]]) -> Any:
        """A batch: :class:`Inputs`."""


class Encoder(nn.Module, ABC):
    """Words → vectors of ``size`` elements."""

    index: Index
    size: int
    precision: Precision = "fp32"
    """What it is trained in; :meth:`train_in` sets it."""
    draws_rows: ClassVar[bool] = False
    """Whether all that it draws in training is drawn by :func:`~lacuner.encoders.rows.draw`, a row for each sentence.

    Then processes that divide a batch draw what one process would draw. Otherwise each draws for itself.
    """

    @property
    def pretrained(self) -> nn.Module:
        """What is trained at the encoder's learning rate; all its other weights are new, and trained at the head's."""
        return self

    def train_in(self, precision: Precision) -> None:
        """Multiply the matrices of pretrained layers in this precision, in training mode only."""
        for module in self.modules():
            if isinstance(module, Encoder):
                module.precision = precision

    def autocast(self) -> AbstractContextManager[Any]:
        """Pretrained layers are computed in it. What comes out may be bfloat16, and has to become float32 again."""
        if not self.training or self.precision == "fp32":
            return nullcontext()  # not a disabled autocast, which would end one that is around it
        return torch.autocast(next(self.parameters()).device.type, torch.bfloat16)

    @abstractmethod
    def forward(self, inputs: Any) -> EncodedWords:
        """One vector a word, or two; float32."""

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write whatever its weights and settings do not tell into a model folder; the rest is returned, for JSON."""


class EncoderConfig(Part, ABC):
    """Settings of an encoder."""

    epochs: ClassVar[int]
    """How often it reads a corpus of ordinary size."""
    min_steps: ClassVar[int] = 400
    """A small corpus is read so often that there are as many batches."""
    training: ClassVar[dict[str, Any]]
    """What else of the settings of training depends on it."""
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32",)
    """What it can be trained in: more than float32 if it computes its pretrained layers in :meth:`Encoder.autocast`."""
    auto_precision: ClassVar[Precision] = "fp32"
    """The one that ``auto`` chooses where hardware has it: it has to be known that the models are as good."""

    @property
    def title(self) -> str:
        """What to call it in a model card."""
        return self.name

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of words, vectors or weights that it is created from: with other ones it would be another encoder."""
        return ()

    def check(self) -> None:
        """Refuse what :meth:`create` would refuse whatever the sentences are, before anything long begins."""

    @abstractmethod
    def create(self, sentences: Sequence[Sequence[str]]) -> Encoder:
        """An encoder that has not been trained on these sentences yet, but knows their words."""

    @abstractmethod
    def restore(self, architecture: dict[str, Any], folder: Path) -> Encoder:
        """What :meth:`Encoder.save` described; the weights are loaded afterwards."""
