"""Shared parts of lexicon-based encoders: file, vectors, and attention of tokens over matching words."""

import logging
from abc import ABC
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.corpus.files import read_lines
from lacuner.encoders.encoder import EncoderConfig
from lacuner.encoders.table import VectorTable, read_stored, write_stored
from lacuner.encoders.vectors import WordVectors, read_vectors
from lacuner.errors import DataError
from lacuner.features.lexicon import Lexicon, lexicon_words, read_words

logger = logging.getLogger(__name__)

_LEXICON_FILE = "lexicon.json"


class LexiconConfig(EncoderConfig, ABC):
    """Settings of an encoder with a lexicon."""

    lexicon: str = Field(
        description="a word2vec/GloVe text file, or a list with one word per line, optionally followed by a "
        "tab and a type"
    )
    word_size: int = Field(100, ge=1, description="size of word vectors trained from scratch")

    @property
    def files(self) -> tuple[Path, ...]:
        return (Path(self.lexicon), *super().files)


def choose_lexicon(config: LexiconConfig, sentences: Sequence[Sequence[str]]) -> tuple[Lexicon, VectorTable]:
    """Select the useful words of a file, with new vectors initialized from the file's, if any. Logs the choice."""
    path = config.lexicon
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError:
        changed = 0  # reported when the file is read
    words, vectors = _read_lexicon(path, changed)
    lexicon = Lexicon.build(sentences, words, vectors is not None)
    if not lexicon.trained:
        raise DataError("none of the words occurs in the training data", "give a lexicon of its language", path)
    others = "the others are dropped" if vectors is None else f"{len(lexicon) - lexicon.trained} others have vectors"
    logger.info("Lexicon: %s (words in the corpus: %d; %s).", Path(path).name, lexicon.trained, others)
    table = lexicon_table(lexicon, config.word_size if vectors is None else vectors.table.shape[1])
    table.load_vectors(vectors, lexicon.words)
    return lexicon, table


@lru_cache(maxsize=1)
def _read_lexicon(path: str, changed: int) -> tuple[tuple[str, ...], WordVectors | None]:
    """Words of at least two characters; with vectors, if the file's first line has the format of a vector file."""
    vectors = read_vectors(path) if _has_vectors(path) else None
    rows = lexicon_words(read_words(path) if vectors is None else vectors.words)
    if not rows:
        raise DataError("there are no words of two characters or more", "give a lexicon", path)
    if vectors is not None:
        vectors = WordVectors(vectors.name, tuple(rows), vectors.table[list(rows.values())])
    return tuple(rows), vectors


def _has_vectors(path: str) -> bool:
    fields = next((line.rstrip(" ").split(" ") for _, line in read_lines(path)), [])
    numbers = fields if len(fields) == 2 else fields[1:]  # a header, or a word and its vector
    return len(numbers) > 1 and all(map(_is_number, numbers[-2:]))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def save_lexicon(lexicon: Lexicon, table: VectorTable, folder: Path) -> None:
    """Write the words to a model folder; their vectors are weights of the model."""
    write_stored(folder, _LEXICON_FILE, lexicon.as_dict() | {"size": table.size})


def restore_lexicon(folder: Path) -> tuple[Lexicon, VectorTable]:
    """Read the words from a model folder, and create a table for their vectors."""

    def build(content: dict[str, Any]) -> tuple[Lexicon, VectorTable]:
        lexicon = Lexicon.from_dict(content)
        return lexicon, lexicon_table(lexicon, content["size"])

    return read_stored(folder, _LEXICON_FILE, build)


def lexicon_table(lexicon: Lexicon, size: int) -> VectorTable:
    """Create new vectors for a lexicon's words."""
    return VectorTable(1 + lexicon.trained, len(lexicon) - lexicon.trained, size)


class WordAttention(nn.Module):
    """Bilinear attention of a token over its matching lexicon words.

    Liu et al. 2021, *Lexicon Enhanced Chinese Sequence Labeling Using BERT Adapter* (ACL): a word's vector ``x`` is aligned
    as ``v = W₂ tanh(W₁ x + b₁) + b₂``; the words ``V`` around a token ``h`` are weighted by ``softmax(h W_attn Vᵀ)``.

    Args:
        table: vectors of the lexicon's words.
        size: of a token's vector.
    """

    def __init__(self, table: VectorTable, size: int) -> None:
        super().__init__()
        self.table = table
        self.align = nn.Sequential(nn.Linear(table.size, size), nn.Tanh(), nn.Linear(size, size))
        self.bilinear = nn.Linear(size, size, bias=False)

    def forward(self, tokens: Tensor, words: Tensor, index: Tensor) -> Tensor:
        """Weighted sums ``(N, d)`` for tokens ``(N, d)``; see :class:`Cover` for ``words (U,)`` and ``index (N, k)``."""
        return weigh_words(self.bilinear(tokens), self.align(self.table(words)), index)


def weigh_words(tokens: Tensor, words: Tensor, index: Tensor) -> Tensor:
    """``Σ softmax(t · v) v`` over the words of each token; zero for a token without words.

    Args:
        tokens: ``(N, d)``.
        words: ``(U, d)``.
        index: ``(N, k)`` into ``words`` for each token; 0 is none.
    """
    around = words.index_select(0, index.flatten()).view(*index.shape, words.shape[-1])  # (N, k, d)
    scores = (around @ tokens[..., None]).squeeze(-1)  # (N, k)
    there = index > 0
    weights = scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(-1) * there
    return (weights[:, None, :] @ around).squeeze(1)
