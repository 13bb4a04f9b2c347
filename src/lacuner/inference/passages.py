"""Long texts are split into passages, in the same way for training, evaluation and prediction."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.documents import slice_sentence, words_inside_spans
from lacuner.corpus.lazy import LazySentences
from lacuner.corpus.tokenize import Passage, sentence_ends, split_passages

MAX_PASSAGE = 256
"""Maximum number of words in a passage; longer texts are split at sentence ends."""


def passages_of(words: Sequence[str]) -> list[Passage]:
    """Split words into passages for prediction, if the raw text is not known."""
    if len(words) <= MAX_PASSAGE:
        return [Passage(0, len(words), 0, len(words))]
    text, offsets = _spaced(words)
    return split_passages(text, offsets, MAX_PASSAGE)


def collect(passages: Sequence[Passage], found: Iterable[list[Entity]]) -> list[Entity]:
    """Merge the entities of passages into those of the whole text; each is taken from the passage that it begins in."""
    entities: list[Entity] = []
    free_from = 0
    for passage, inside in zip(passages, found, strict=True):
        taken = [
            replace(entity, start=passage.begin + entity.start, end=passage.begin + entity.end)
            for entity in inside
            if passage.own_begin <= passage.begin + entity.start < passage.own_end
            and passage.begin + entity.start >= free_from
        ]
        entities += taken
        free_from = max((entity.end for entity in taken), default=free_from)
    return entities


@dataclass(frozen=True)
class SearchPassages:
    """Sentences split into passages for prediction, if their raw text is not known.

    Attributes:
        cuts: the passages of each sentence.
        tokens: the words of all passages, sentence by sentence.
    """

    cuts: tuple[list[Passage], ...]
    tokens: tuple[Sequence[str], ...]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> "SearchPassages":
        """Split sentences, given as words."""
        cuts = tuple(map(passages_of, sentences))
        return cls(
            cuts,
            tuple(
                words[passage.begin : passage.end]
                for words, cut in zip(sentences, cuts, strict=True)
                for passage in cut
            ),
        )

    @property
    def filled(self) -> list[int]:
        """Indices of passages with words."""
        return [index for index, words in enumerate(self.tokens) if words]

    def collect(self, found: Iterable[list[Entity]]) -> list[list[Entity]]:
        """Merge the entities of passages into those of each sentence."""
        remaining = iter(found)
        return [collect(cut, list(islice(remaining, len(cut)))) for cut in self.cuts]


def long_sentences(corpus: Iterable[Sentence]) -> list[int]:
    """Length of each sentence that is read in several passages."""
    return [len(sentence) for sentence in corpus if len(sentence) > MAX_PASSAGE]


@dataclass(frozen=True)
class TrainingPassages:
    """Training sentences as passages, none of them empty or too long.

    Attributes:
        corpus: the passages.
        origin: for each, the index of its sentence, and of its first word there.
        long: number of sentences that were split.
        lost: number of annotated or rejected spans that are longer than a passage, and so in none.
    """

    corpus: Corpus
    origin: Sequence[tuple[int, int]]
    long: int
    lost: int

    @property
    def sentences(self) -> int:
        """Number of sentences that the passages come from."""
        return sum(first == 0 for _, first in self.origin)


class _LazyPassages(LazySentences):
    """Passages extracted from sentences on access; only 24 bytes of each are kept in memory."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._sentences = sentences
        self._bounds = array("q")  # sentence, begin and end of each passage, flattened

    def add(self, sentence: int, begin: int, end: int) -> None:
        self._bounds.extend((sentence, begin, end))

    def __len__(self) -> int:
        return len(self._bounds) // 3

    def sentence(self, index: int) -> Sentence:
        number, begin, end = self._bounds[3 * index : 3 * index + 3]
        whole = self._sentences[number]
        return whole if end - begin == len(whole) else slice_sentence(whole, begin, end)


class _Origins(Sequence[tuple[int, int]]):
    """Origins of lazy passages: the sentence, and the first word there."""

    def __init__(self, passages: _LazyPassages) -> None:
        self._passages = passages

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        if not 0 <= index < len(self):
            raise IndexError(index)
        return tuple(self._passages._bounds[3 * index : 3 * index + 2])


def cut_for_training(corpus: Corpus) -> TrainingPassages:
    """Split sentences into passages at sentence ends, or else where no annotated or rejected span is cut."""
    passages = _LazyPassages(corpus.sentences)
    long = lost = 0
    for index, sentence in enumerate(corpus):
        if len(sentence) <= MAX_PASSAGE:
            if sentence.tokens:
                passages.add(index, 0, len(sentence))
            continue
        long += 1
        lost += len(sentence.entities) + len(sentence.non_entities)
        for begin, end in _cuts(sentence):
            passages.add(index, begin, end)
            part = slice_sentence(sentence, begin, end)
            lost -= len(part.entities) + len(part.non_entities)
    origin = _Origins(passages)
    if corpus.is_lazy:
        return TrainingPassages(Corpus(passages, corpus.report), origin, long, lost)
    return TrainingPassages(Corpus(tuple(passages), corpus.report), tuple(origin), long, lost)


def _cuts(sentence: Sentence) -> list[tuple[int, int]]:
    """``[begin, end)`` of the passages of a long sentence."""
    inside = words_inside_spans(sentence)
    text, offsets = _spaced(sentence.tokens)
    ends = set(sentence_ends(text, offsets)) - inside
    cuts = [0]
    while len(sentence) - cuts[-1] > MAX_PASSAGE:
        reach = range(cuts[-1] + MAX_PASSAGE, cuts[-1], -1)
        at_end = (word for word in reach if word in ends)
        outside = (word for word in reach if word not in inside)
        cuts.append(next(at_end, next(outside, cuts[-1] + MAX_PASSAGE)))
    return list(zip(cuts, [*cuts[1:], len(sentence)], strict=True))


def _spaced(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join words with spaces, and return their offsets."""
    offsets, position = [], 0
    for word in words:
        offsets.append((position, position + len(word)))
        position += len(word) + 1
    return " ".join(words), offsets
