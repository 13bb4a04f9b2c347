"""Base classes of encoders and their settings."""

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
    """A batch of sentences, in the encoder's input format."""

    @property
    def lengths(self) -> Tensor:
        """Sentence lengths in words: ``(B,)``."""

    def to(self, device: torch.device) -> Self: ...

    def rows(self, begin: int, end: int) -> Self:
        """The rows ``[begin, end)``, with unchanged padding; used only if several processes divide a batch."""


class Index(Protocol):
    """Converts words to inputs."""

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """Size of each sentence in a batch."""

    def collate(self, sentences: Sequence[Sequence[str]]) -> Any:
        """Build a batch of :class:`Inputs`."""


class Encoder(nn.Module, ABC):
    """Words → vectors of ``size`` elements."""

    index: Index
    size: int
    precision: Precision = "fp32"
    """Training precision; set by :meth:`train_in`."""
    draws_rows: ClassVar[bool] = False
    """Whether all its random numbers in training come from :func:`~lacuner.encoders.rows.draw`, one row per sentence.

    If so, processes that divide a batch draw the same numbers as a single process. Otherwise each draws its own.
    """

    @property
    def pretrained(self) -> nn.Module:
        """The module trained at the encoder's learning rate; all other weights are new, and trained at the head's."""
        return self

    def train_in(self, precision: Precision) -> None:
        """Set the precision of matrix products in pretrained layers, in training mode only."""
        for module in self.modules():
            if isinstance(module, Encoder):
                module.precision = precision

    def autocast(self) -> AbstractContextManager[Any]:
        """Context for computing pretrained layers. Their output may be bfloat16, and must be cast to float32."""
        if not self.training or self.precision == "fp32":
            return nullcontext()  # not a disabled autocast, which would end an enclosing one
        return torch.autocast(next(self.parameters()).device.type, torch.bfloat16)

    @abstractmethod
    def forward(self, inputs: Any) -> EncodedWords:
        """One vector per word, or two; float32."""

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write files other than weights and settings to a model folder; return the rest, for JSON."""


class EncoderConfig(Part, ABC):
    """Settings of an encoder."""

    epochs: ClassVar[int]
    """Number of epochs for a corpus of ordinary size."""
    min_steps: ClassVar[int] = 400
    """A small corpus is trained on for at least this many steps."""
    training: ClassVar[dict[str, Any]]
    """Other training settings that depend on the encoder."""
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32",)
    """Supported training precisions: more than float32 only if pretrained layers run in :meth:`Encoder.autocast`."""
    auto_precision: ClassVar[Precision] = "fp32"
    """The precision chosen by ``auto`` if supported by the hardware; models must be known to be equally good."""

    @property
    def title(self) -> str:
        """Name for the model card."""
        return self.name

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of words, vectors or weights that the encoder is created from, and that determine its identity."""
        return ()

    def check(self) -> None:
        """Reject early what :meth:`create` would reject for any sentences."""

    @abstractmethod
    def create(self, sentences: Sequence[Sequence[str]]) -> Encoder:
        """Create an untrained encoder with the vocabulary of these sentences."""

    @abstractmethod
    def restore(self, architecture: dict[str, Any], folder: Path) -> Encoder:
        """Rebuild the encoder described by :meth:`Encoder.save`; its weights are loaded afterwards."""
