"""Embedding tables whose first rows are trained, and whose other rows are fixed vectors from a file."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lacuner.encoders.rows import draw
from lacuner.encoders.vectors import WordVectors
from lacuner.errors import ModelError
from lacuner.features.stored import read_json
from lacuner.features.vocabulary import PADDING, UNKNOWN

Content = TypeVar("Content")


def trained_table(rows: int, size: int) -> nn.Embedding:
    """Create random vectors of about unit length; that of the padding is zero."""
    table = nn.Embedding(rows, size, padding_idx=PADDING)
    nn.init.uniform_(table.weight, -((3 / size) ** 0.5), (3 / size) ** 0.5)
    table.weight.data[PADDING] = 0
    return table


def fixed_table(rows: int, size: int) -> Tensor:
    """Allocate fixed vectors, in half precision."""
    return torch.zeros(rows, size, dtype=torch.float16)


@torch.no_grad()
def load_vectors(vectors: WordVectors | None, words: Sequence[str], trained: nn.Embedding, fixed: Tensor) -> None:
    """Copy the vectors of a file into new tables.

    Args:
        vectors: of all words that have fixed vectors, and of any others.
        words: of the last rows of ``trained``, followed by those of ``fixed``.
        trained: keeps its initial vectors for words missing from the file.
        fixed: rows after those of ``trained``.
    """
    if vectors is None:
        return
    row_of = {word: row for row, word in enumerate(vectors.words)}
    table = torch.from_numpy(vectors.table)
    learned = len(words) - len(fixed)
    first = trained.num_embeddings - learned
    both = [(row, row_of[word]) for row, word in enumerate(words[:learned], first) if word in row_of]
    if both:
        rows, rows_in_file = torch.tensor(both).T
        trained.weight[rows] = table[rows_in_file].float()
    fixed.copy_(table[[row_of[word] for word in words[learned:]]])


def look_up(numbers: Tensor, trained: nn.Embedding, fixed: Tensor) -> Tensor:
    """Look up vectors of word indices ``(…)``: ``(…, size)``."""
    count = trained.num_embeddings
    vectors: Tensor = trained(numbers.clamp(max=count - 1))
    if not len(fixed):
        return vectors
    beyond = fixed[(numbers - count).clamp(min=0)].to(vectors.dtype)
    return torch.where((numbers >= count)[..., None], beyond, vectors)


def replace_rare(numbers: Tensor, rare: Tensor, fraction: float) -> Tensor:
    """Replace this fraction of the ``rare`` words ``(trained rows,)`` by *unknown*, to train its vector."""
    trained = numbers.clamp(max=len(rare) - 1)
    drawn = (draw(numbers.shape, torch.rand) < fraction).to(numbers.device)
    return numbers.masked_fill(rare[trained] & (numbers == trained) & drawn, UNKNOWN)


class VectorTable(nn.Module):
    """Trained and fixed vectors of an encoder's words.

    Args:
        trained: number of trained rows, including padding.
        fixed: number of fixed rows after them.
        size: of a vector.
    """

    fixed: Tensor

    def __init__(self, trained: int, fixed: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.trained = trained_table(trained, size)
        self.register_buffer("fixed", fixed_table(fixed, size))

    def load_vectors(self, vectors: WordVectors | None, words: Sequence[str]) -> None:
        """Initialize from the vectors of a file, where available."""
        load_vectors(vectors, words, self.trained, self.fixed)

    def forward(self, numbers: Tensor) -> Tensor:
        return look_up(numbers, self.trained, self.fixed)


def write_stored(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write words as JSON to a model folder."""
    (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def read_stored(folder: Path, name: str, build: Callable[[dict[str, Any]], Content]) -> Content:
    """Read a file of :func:`write_stored`, or raise an error that says what is wrong with it."""
    content = read_json(folder, name)
    try:
        return build(content)
    except (KeyError, TypeError) as error:
        raise ModelError(f"{folder / name} is damaged ({error!r}) — copy the folder again") from error


def read_size(architecture: Mapping[str, Any], folder: Path) -> int:
    """Size of word vectors, from a model folder."""
    size = architecture.get("word_size")
    if not isinstance(size, int):
        raise ModelError(f"{folder / 'config.json'} lacks architecture.word_size — copy the folder again")
    return size
