"""Vectors of numbered words: some are trained, those behind them stay as a file has them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lacuner.encoders.vectors import WordVectors
from lacuner.errors import ModelError
from lacuner.features.stored import read_json
from lacuner.features.vocabulary import PADDING, UNKNOWN

Content = TypeVar("Content")


def trained_table(rows: int, size: int) -> nn.Embedding:
    """Fresh vectors of about unit length; that of the padding is zero."""
    table = nn.Embedding(rows, size, padding_idx=PADDING)
    nn.init.uniform_(table.weight, -((3 / size) ** 0.5), (3 / size) ** 0.5)
    table.weight.data[PADDING] = 0
    return table


def fixed_table(rows: int, size: int) -> Tensor:
    """Room for vectors that are not trained, in half precision."""
    return torch.zeros(rows, size, dtype=torch.float16)


@torch.no_grad()
def start_from(vectors: WordVectors | None, words: Sequence[str], trained: nn.Embedding, fixed: Tensor) -> None:
    """Put the vectors of a file into fresh tables.

    Args:
        vectors: of all words that have fixed vectors, and of any others.
        words: of the last rows of ``trained``, followed by those of ``fixed``.
        trained: keeps its own vectors for words that the file lacks.
        fixed: rows behind those of ``trained``.
    """
    if vectors is None:
        return
    place = {word: number for number, word in enumerate(vectors.words)}
    table = torch.from_numpy(vectors.table)
    learned = len(words) - len(fixed)
    first = trained.num_embeddings - learned
    both = [(row, place[word]) for row, word in enumerate(words[:learned], first) if word in place]
    if both:
        rows, places = torch.tensor(both).T
        trained.weight[rows] = table[places].float()
    fixed.copy_(table[[place[word] for word in words[learned:]]])


def look_up(numbers: Tensor, trained: nn.Embedding, fixed: Tensor) -> Tensor:
    """Vectors of words ``(…)``: ``(…, size)``."""
    count = trained.num_embeddings
    vectors: Tensor = trained(numbers.clamp(max=count - 1))
    if not len(fixed):
        return vectors
    beyond = fixed[(numbers - count).clamp(min=0)].to(vectors.dtype)
    return torch.where((numbers >= count)[..., None], beyond, vectors)


def forget(numbers: Tensor, rare: Tensor, share: float) -> Tensor:
    """Words with some of the ``rare`` ones ``(trained rows,)`` taken as unknown, which is how *unknown* is learned."""
    trained = numbers.clamp(max=len(rare) - 1)
    drawn = (torch.rand(numbers.shape) < share).to(numbers.device)
    return numbers.masked_fill(rare[trained] & (numbers == trained) & drawn, UNKNOWN)


class VectorTable(nn.Module):
    """Both tables of an encoder's words.

    Args:
        trained: rows that are trained, padding included.
        fixed: rows behind them.
        size: of a vector.
    """

    fixed: Tensor

    def __init__(self, trained: int, fixed: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.trained = trained_table(trained, size)
        self.register_buffer("fixed", fixed_table(fixed, size))

    def start_from(self, vectors: WordVectors | None, words: Sequence[str]) -> None:
        """Fresh vectors: a file's where it has some."""
        start_from(vectors, words, self.trained, self.fixed)

    def forward(self, numbers: Tensor) -> Tensor:
        return look_up(numbers, self.trained, self.fixed)


def write_stored(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Words as JSON, in a model folder."""
    (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def read_stored(folder: Path, name: str, build: Callable[[dict[str, Any]], Content]) -> Content:
    """What :func:`write_stored` wrote, or in one sentence what is wrong with it."""
    content = read_json(folder, name)
    try:
        return build(content)
    except (KeyError, TypeError) as error:
        raise ModelError(f"{folder / name} is damaged ({error!r}) — copy the folder again") from error


def read_size(architecture: Mapping[str, Any], folder: Path) -> int:
    """The size of word vectors in a model folder."""
    size = architecture.get("word_size")
    if not isinstance(size, int):
        raise ModelError(f"{folder / 'config.json'} lacks architecture.word_size — copy the folder again")
    return size
