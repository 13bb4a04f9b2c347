"""Sentences that are created on access instead of held in memory."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

from lacuner.corpus.sentence import Sentence


class LazySentences(Sequence[Sentence]):
    """A sequence of sentences that does not keep them in memory."""

    @abstractmethod
    def sentence(self, index: int) -> Sentence:
        """The sentence with this index, ``0 <= index < len``."""

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Sentence, ...]: ...
    def __getitem__(self, index: int | slice) -> "Sentence | tuple[Sentence, ...]":
        if isinstance(index, slice):
            return tuple(map(self.sentence, range(*index.indices(len(self)))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} sentences")
        return self.sentence(index % len(self))


class LazyTokens(Sequence[tuple[str, ...]]):
    """The words of lazy sentences."""

    def __init__(self, sentences: LazySentences) -> None:
        self._sentences = sentences

    def __len__(self) -> int:
        return len(self._sentences)

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[str, ...], ...]: ...
    def __getitem__(self, index: int | slice) -> "tuple[str, ...] | tuple[tuple[str, ...], ...]":
        if isinstance(index, slice):
            return tuple(sentence.tokens for sentence in self._sentences[index])
        return self._sentences[index].tokens
