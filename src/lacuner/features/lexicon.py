"""Lexicon words in sentences of characters, for lexicon-enhanced encoders."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError
from lacuner.features.stored import strings_of
from lacuner.features.subwords import PieceIndex, PieceInputs
from lacuner.features.vocabulary import PADDING, Vocabulary

_CACHE_SIZE = 4096
"""Number of sentences whose matches are cached."""
_MIN_LENGTH = 2
"""Minimum length of a word in characters."""

Match = tuple[int, int, int]
"""A word's index, and the tokens ``[begin, end)`` that it covers."""


class Lexicon:
    """Words of at least two characters, with indices from 1.

    A word matches wherever it equals the concatenation of consecutive tokens, be they single characters or longer. Whitespace
    in a word is ignored.

    The first ``trained`` words occur in the training corpus, and their vectors are trained. All others have fixed vectors
    from a file, and are matched in new sentences, too. A word without either would be meaningless to a model: :meth:`build`
    drops it.
    """

    def __init__(self, words: Sequence[str], trained: int) -> None:
        self.words = tuple(words)
        self.trained = trained
        self._numbers = {word: number for number, word in enumerate(self.words, 1)}
        self._reach: dict[str, int] = {}  # maximum length of words with this prefix of two characters
        for word in self.words:
            self._reach[word[:_MIN_LENGTH]] = max(len(word), self._reach.get(word[:_MIN_LENGTH], 0))
        self._recent: dict[tuple[str, ...], tuple[Match, ...]] = {}

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], words: Iterable[str], have_vectors: bool) -> "Lexicon":
        """The words that occur in sentences, followed by all others if words have vectors."""
        every = cls(tuple(lexicon_words(words)), 0)
        seen = {number for tokens in sentences for number, _, _ in every._find(tokens)}
        trained = [every.words[number - 1] for number in sorted(seen)]
        others = [word for number, word in enumerate(every.words, 1) if number not in seen] if have_vectors else []
        return cls([*trained, *others], len(trained))

    def __len__(self) -> int:
        return len(self.words)

    def match(self, tokens: Sequence[str]) -> tuple[Match, ...]:
        """All matches in a sentence, by start and end, with a cache of recent sentences."""
        key = tuple(tokens)
        found = self._recent.get(key)
        if found is None:
            found = tuple(self._find(key))
            if len(self._recent) >= _CACHE_SIZE:
                self._recent = {}  # not cleared: another thread may be using it
            self._recent[key] = found
        return found

    def _find(self, tokens: Sequence[str]) -> Iterator[Match]:
        text = "".join(tokens)
        ends: list[int] = []
        for token in tokens:
            ends.append((ends[-1] if ends else 0) + len(token))
        for first, token in enumerate(tokens):
            start = ends[first] - len(token)
            reach = self._reach.get(text[start : start + _MIN_LENGTH])
            if reach is None:
                continue
            for last in range(first, len(tokens)):
                if ends[last] > start + reach:
                    break
                number = self._numbers.get(text[start : ends[last]])
                if number is not None:
                    yield number, first, last + 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"words": self.words[: self.trained], "vector_words": self.words[self.trained :]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Lexicon":
        words = strings_of(data, "words")
        return cls([*words, *strings_of(data, "vector_words")], len(words))


def lexicon_words(words: Iterable[str]) -> dict[str, int]:
    """Words of at least two characters, without whitespace, and the index of each one's first occurrence in ``words``."""
    first: dict[str, int] = {}
    for index, word in enumerate(words):
        key = "".join(word.split())
        if len(key) >= _MIN_LENGTH:
            first.setdefault(key, index)
    return first


def read_words(path: str | Path) -> list[str]:
    """Read a word list: one word per line, or a word, a tab and its type, as in a dictionary. Types are ignored."""
    words = []
    for number, line in read_lines(path):
        word, *types = line.split("\t")
        if len(types) > 1 or (types and not word.strip()):
            what = "one word, or a word, a tab and its type was expected"
            raise DataError(what, "repair the line or remove it", path, number)
        if word.strip():
            words.append(word)
    return words


@dataclass(frozen=True)
class Cover:
    """The lexicon words of ``B`` sentences, ``U`` distinct ones, and those that cover each of up to ``n`` tokens."""

    words: Tensor  # (U,) indices; the first is padding
    index: Tensor  # (B, n, k) into words; 0 is none

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], lexicon: Lexicon) -> "Cover":
        numbers: dict[int, int] = {PADDING: 0}
        max_length = max(map(len, sentences), default=0)
        table: list[list[int]] = []
        for tokens in sentences:
            covering: list[list[int]] = [[] for _ in range(max_length)]
            for number, begin, end in lexicon.match(tokens):
                index = numbers.setdefault(number, len(numbers))
                for token in range(begin, end):
                    covering[token].append(index)
            table += covering
        max_words = max(map(len, table), default=0)
        padded = torch.tensor([row + [0] * (max_words - len(row)) for row in table], dtype=torch.long)
        return cls(torch.tensor(list(numbers)), padded.reshape(len(sentences), max_length, max_words))

    def to(self, device: torch.device) -> "Cover":
        return Cover(self.words.to(device), self.index.to(device))

    def rows(self, begin: int, end: int) -> "Cover":
        """The sentences ``[begin, end)``."""
        return Cover(self.words, self.index[begin:end])


@dataclass(frozen=True)
class CoveredPieces:
    """A batch for a transformer, with the lexicon words covering each token."""

    pieces: PieceInputs
    cover: Cover

    @property
    def lengths(self) -> Tensor:
        return self.pieces.lengths

    def to(self, device: torch.device) -> "CoveredPieces":
        return CoveredPieces(self.pieces.to(device), self.cover.to(device))

    def rows(self, begin: int, end: int) -> "CoveredPieces":
        """The rows ``[begin, end)``."""
        return CoveredPieces(self.pieces.rows(begin, end), self.cover.rows(begin, end))


class CoveredPieceIndex:
    """Converts words to subword pieces, and matches lexicon words."""

    def __init__(self, pieces: PieceIndex, lexicon: Lexicon) -> None:
        self.pieces = pieces
        self.lexicon = lexicon

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """Size of each sentence in a batch: its pieces."""
        return self.pieces.lengths(sentences)

    def collate(self, sentences: Sequence[Sequence[str]]) -> CoveredPieces:
        """Build a batch of sentences."""
        return CoveredPieces(self.pieces.collate(sentences), Cover.of(sentences, self.lexicon))


@dataclass(frozen=True)
class Lattice:
    """``B`` sentences of up to ``n`` tokens, with up to ``w`` lexicon words each."""

    lengths: Tensor  # (B,)
    tokens: Tensor  # (B, n) vocabulary indices
    words: Tensor  # (B, w) lexicon indices
    begin: Tensor  # (B, w) first token of each word
    end: Tensor  # (B, w) its last token + 1

    def to(self, device: torch.device) -> "Lattice":
        return Lattice(**{name: value.to(device) for name, value in vars(self).items()})

    def rows(self, begin: int, end: int) -> "Lattice":
        """The rows ``[begin, end)``."""
        return Lattice(**{name: value[begin:end] for name, value in vars(self).items()})


class LatticeIndex:
    """Converts sentences to tokens and lexicon words."""

    def __init__(self, vocabulary: Vocabulary, lexicon: Lexicon) -> None:
        self.vocabulary = vocabulary
        self.lexicon = lexicon

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """Size of each sentence in a batch: its tokens and lexicon words."""
        return [len(tokens) + len(self.lexicon.match(tokens)) for tokens in sentences]

    def collate(self, sentences: Sequence[Sequence[str]]) -> Lattice:
        """Build a batch of sentences."""
        inputs = self.vocabulary.collate(sentences)
        found = [self.lexicon.match(tokens) for tokens in sentences]
        max_words = max(map(len, found), default=0)
        nothing = (PADDING, 0, 1)
        table = torch.tensor(
            [[*matches, *[nothing] * (max_words - len(matches))] for matches in found], dtype=torch.long
        )
        words, begin, end = table.reshape(len(sentences), max_words, 3).unbind(-1)
        return Lattice(inputs.lengths, inputs.words, words, begin, end)
