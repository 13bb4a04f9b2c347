"""Vocabulary of words and characters, for the recurrent encoder."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lacuner.features.stored import strings_of

PADDING, UNKNOWN = 0, 1
_DIGIT = re.compile(r"\d")
_KEPT_CHARACTERS = 24
"""Longer words (a URL, a hash) are truncated to this many characters at either end."""
_REMEMBERED = 50_000
"""Maximum number of words whose indices are remembered."""
_CHARACTER = np.dtype(np.int32)


def word_keys(word: str) -> tuple[str, str, str]:
    """Lookup keys of a word, best first: unchanged, in lower case, with every digit as 0."""
    lower = word.lower()
    return word, lower, _DIGIT.sub("0", lower)


def find_key(word: str, known: Container[str]) -> str | None:
    """The first of the :func:`word_keys` of ``word`` that is ``known``."""
    if word in known:  # one key after the other, since the first is enough for most words
        return word
    lower = word.lower()
    if lower in known:
        return lower
    digits = _DIGIT.sub("0", lower)
    return digits if digits in known else None


@dataclass(frozen=True)
class WordInputs:
    """A batch for the recurrent encoder: ``B`` sentences of up to ``n`` words, ``U`` of them distinct."""

    lengths: Tensor  # (B,)
    words: Tensor  # (B, n) word indices
    forms: Tensor  # (B, n) index into characters
    characters: Tensor  # (U, longest word)

    def to(self, device: torch.device) -> "WordInputs":
        return WordInputs(**{name: value.to(device) for name, value in vars(self).items()})

    def rows(self, begin: int, end: int) -> "WordInputs":
        """The rows ``[begin, end)``, with only the characters of their words."""
        used, forms = torch.unique(self.forms[begin:end], return_inverse=True)
        return WordInputs(self.lengths[begin:end], self.words[begin:end], forms, self.characters[used])


@dataclass(frozen=True)
class Vocabulary:
    """Indices of words and characters; 0 is padding, 1 unknown.

    The first ``trained`` words have trained vectors, the others fixed ones from a file. Word lookup backs off to ignoring
    case, then digits; characters keep the case.
    """

    words: tuple[str, ...]
    trained: int
    characters: tuple[str, ...]
    rare: frozenset[str] = frozenset()

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], vector_words: Iterable[str] = ()) -> "Vocabulary":
        """The words of a corpus, followed by all other words of a vector file."""
        fixed = dict.fromkeys(vector_words)
        counts: Counter[str] = Counter()
        characters: set[str] = set()
        for tokens in sentences:
            for token in tokens:
                counts[find_key(token, fixed) or word_keys(token)[-1]] += 1
                characters.update(_DIGIT.sub("0", token))
        rare = frozenset(word for word, count in counts.items() if count == 1 and word not in fixed)
        trained = sorted(counts)
        others = tuple(word for word in fixed if word not in counts)
        return cls((*trained, *others), len(trained), tuple(sorted(characters)), rare)

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, 2)}

    @cached_property
    def _character_numbers(self) -> dict[str, int]:
        return {character: number for number, character in enumerate(self.characters, 2)}

    def word_number(self, word: str) -> int:
        numbers = self._word_numbers
        key = find_key(word, numbers)
        return UNKNOWN if key is None else numbers[key]

    def rare_words(self) -> Tensor:
        """Words seen once and missing from the vector file, ``(trained + 2,)`` bool; training replaces some by *unknown*."""
        flags = [False, False, *(word in self.rare for word in self.words[: self.trained])]
        return torch.tensor(flags, dtype=torch.bool)

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """Size of each sentence in a batch: its words."""
        return [len(tokens) for tokens in sentences]

    def collate(self, sentences: Sequence[Sequence[str]]) -> WordInputs:
        """Build a batch. Each distinct word is spelled out once."""
        forms: dict[str, int] = {}
        lengths = np.array([len(tokens) for tokens in sentences], dtype=np.int64)
        index = np.full((len(sentences), lengths.max(initial=0)), -1)
        index[_filled(lengths, index.shape[1])] = [
            forms.setdefault(token, len(forms)) for tokens in sentences for token in tokens
        ]
        numbers, spelled = zip(*map(self._entries.__getitem__, forms or [""]), strict=True)
        widths = np.array([*map(len, spelled)]) // _CHARACTER.itemsize
        characters = np.full((len(spelled), max(1, widths.max())), PADDING)
        characters[_filled(widths, characters.shape[1])] = np.frombuffer(b"".join(spelled), dtype=_CHARACTER)
        return WordInputs(
            lengths=torch.from_numpy(lengths),
            words=torch.from_numpy(np.array([*numbers, PADDING])[index]),
            forms=torch.from_numpy(index.clip(min=0)),
            characters=torch.from_numpy(characters),
        )

    @cached_property
    def _entries(self) -> "_Entries":
        return _Entries(self)

    def spell(self, word: str) -> NDArray[np.int32]:
        """Indices of its characters."""
        shown = word if len(word) <= 2 * _KEPT_CHARACTERS else word[:_KEPT_CHARACTERS] + word[-_KEPT_CHARACTERS:]
        find = self._character_numbers.get
        return np.array([find(character, UNKNOWN) for character in _DIGIT.sub("0", shown)], dtype=_CHARACTER)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "words": self.words[: self.trained],
            "vector_words": self.words[self.trained :],
            "characters": self.characters,
            "rare": sorted(self.rare),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Vocabulary":
        words, others = strings_of(data, "words"), strings_of(data, "vector_words")
        rare = frozenset(strings_of(data, "rare")) if "rare" in data else frozenset()
        return cls((*words, *others), len(words), strings_of(data, "characters"), rare)


def _filled(lengths: NDArray[np.int64], longest: int) -> NDArray[np.bool_]:
    """Mask of the filled positions of rows with these lengths: ``(rows, longest)``."""
    return np.arange(longest) < lengths[:, None]


class _Entries(dict[str, tuple[int, bytes]]):
    """What a batch needs of each word, its index and those of its characters; remembered, since most words come again."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def __missing__(self, word: str) -> tuple[int, bytes]:
        entry = self.vocabulary.word_number(word), self.vocabulary.spell(word).tobytes()
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = entry
        return entry
