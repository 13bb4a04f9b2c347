"""Division of a corpus into train, dev and test data: duplicates together, documents whole, labels in proportion."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Literal

from lacuner.corpus.documents import DOCUMENT_FIELDS, document_of
from lacuner.corpus.formats.conll import DOCUMENT_MARK
from lacuner.corpus.sentence import Sentence
from lacuner.errors import ConfigError, DataError

Unit = Literal["auto", "document", "sentence"]
"""What stays whole, besides equal sentences; ``auto``: documents, unless too many of them share sentences."""
_TOLERANCE = 0.05
"""Maximum deviation of part sizes, as a fraction of all sentences, before documents are split."""


@dataclass(frozen=True)
class Division:
    """A division of sentences into parts.

    Attributes:
        parts: sentence indices by name of the part, in order.
        documents: number of documents; 0 if unknown, or if each has one sentence.
        cut: number of documents in more than one part.
        repeated: sentences with the words of an earlier one.
    """

    parts: Mapping[str, tuple[int, ...]]
    documents: int
    cut: int
    repeated: int


def divide(sentences: Sequence[Sentence], fractions: Mapping[str, float], seed: int, unit: Unit = "auto") -> Division:
    """Divide sentences at random, reproducibly for a seed.

    Sentences with the same words are always in the same part, and so are those of one document, if documents are known.
    Subject to that, part sizes are as close as possible to the fractions, and then the counts of every label.

    Args:
        sentences: the corpus.
        fractions: of all sentences, for each part but ``train``, which gets the rest.
        seed: of the division.
        unit: whether documents stay whole.
    """
    _check(fractions)
    shares = {"train": 1 - sum(fractions.values())} | dict(fractions)
    documents = list(documents_of(sentences)) if unit != "sentence" else [None] * len(sentences)
    if unit == "document" and not any(document is not None for document in documents):
        fields = ", ".join(DOCUMENT_FIELDS)
        raise DataError("the data does not mark documents", f"give a field ({fields}) or lines {DOCUMENT_MARK}")
    words = [sentence.tokens for sentence in sentences]
    parts = _assign(_tied(words, documents), sentences, shares, seed)
    if unit == "auto" and _error(parts, shares, len(sentences)) > _TOLERANCE:
        by_sentence = _assign(_tied(words, [None] * len(sentences)), sentences, shares, seed)
        if _error(by_sentence, shares, len(sentences)) < _error(parts, shares, len(sentences)):
            parts = by_sentence
    for name, indices in parts.items():
        if not indices:
            what = f"{name} would be empty: {len(sentences):,} sentences cannot be split this way"
            raise DataError(what, "ask for larger parts or fewer of them, or give more data")
    number = {index: name for name, indices in parts.items() for index in indices}
    seen: dict[Hashable, set[str]] = {}
    for index, document in enumerate(documents):
        if document is not None:
            seen.setdefault(document, set()).add(number[index])
    cut = sum(len(names) > 1 for names in seen.values())
    several = len(seen) < sum(document is not None for document in documents)
    return Division(parts, len(seen) if several else 0, cut, len(words) - len(set(words)))


def select(sentences: Sequence[Sentence], indices: Sequence[int]) -> Iterator[Sentence]:
    """Select sentences; where ``-DOCSTART-`` lines begin documents, the first remaining sentence of each gets the mark."""
    begun = list(accumulate(sentence.extra.get(DOCUMENT_MARK) is True for sentence in sentences))
    previous = 0
    for index in indices:
        sentence, begins = sentences[index], begun[index] != previous
        previous = begun[index]
        if begins != (sentence.extra.get(DOCUMENT_MARK) is True):
            others = {key: value for key, value in sentence.extra.items() if key != DOCUMENT_MARK}
            sentence = replace(sentence, extra=others | ({DOCUMENT_MARK: True} if begins else {}))
        yield sentence


def documents_of(sentences: Sequence[Sentence]) -> Iterator[Hashable | None]:
    """The document of each sentence, from a field of its record or ``-DOCSTART-`` lines; ``None`` if unknown."""
    begun = 0
    marked = any(sentence.extra.get(DOCUMENT_MARK) is True for sentence in sentences)
    for sentence in sentences:
        begun += sentence.extra.get(DOCUMENT_MARK) is True
        named = document_of(sentence)
        yield named if named is not None else (DOCUMENT_MARK, begun) if marked else None


def _check(fractions: Mapping[str, float]) -> None:
    for name, fraction in fractions.items():
        if not 0 < fraction < 1:
            raise ConfigError(f"--{name}: a fraction lies between 0 and 1; {fraction:g} does not")
    if sum(fractions.values()) >= 1:
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in fractions)} leave nothing for training — ask for less"
        )


def _tied(words: Sequence[tuple[str, ...]], documents: Sequence[Hashable | None]) -> list[list[int]]:
    """Groups of indices that must stay together: equal sentences, and sentences of one document."""
    leader = list(range(len(words)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    first: dict[Hashable, int] = {}
    for index, (tokens, document) in enumerate(zip(words, documents, strict=True)):
        for key in (("words", tokens), *((("document", document),) if document is not None else ())):
            leader[find(index)] = find(first.setdefault(key, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(words)):
        groups.setdefault(find(index), []).append(index)
    return list(groups.values())


def _assign(
    groups: Sequence[Sequence[int]], sentences: Sequence[Sentence], shares: Mapping[str, float], seed: int
) -> dict[str, tuple[int, ...]]:
    """Assign every group to a part: large ones first, then those with rare labels, which are hardest to balance.

    Of the parts with enough room, a group goes to the one that most lacks its labels relative to its size, by the
    Sainte-Laguë method, which rounds fairly.
    """
    room = _sizes(len(sentences), shares)
    labels = [Counter(e.label for index in group for e in sentences[index].entities) for group in groups]
    total: Counter[str] = sum(labels, Counter())
    random = Random(f"lacuner split {seed}")
    drawn = [random.random() for _ in groups]

    def difficulty(number: int) -> tuple[int, int, float]:
        rarest = min((total[label] for label in labels[number]), default=len(sentences) + sum(total.values()))
        return -len(groups[number]).bit_length(), rarest, drawn[number]

    held: dict[str, Counter[str]] = {name: Counter() for name in shares}
    chosen: dict[str, list[int]] = {name: [] for name in shares}
    for number in sorted(range(len(groups)), key=difficulty):
        group, counts = groups[number], labels[number]

        def need(name: str, size: int = len(group), counts: Counter[str] = counts) -> tuple[float, float]:
            of_labels = sum(count / (2 * held[name][label] + count) for label, count in counts.items())
            return shares[name] * of_labels, shares[name] * size / (2 * len(chosen[name]) + size)

        fitting = [name for name in shares if room[name] >= len(group)]
        part = max(fitting, key=need) if fitting else max(shares, key=lambda name: room[name])
        room[part] -= len(group)
        held[part] += counts
        chosen[part] += group
    return {name: tuple(sorted(indices)) for name, indices in chosen.items()}


def _sizes(count: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Target size of each part; they sum to the total."""
    sizes = {name: round(count * share) for name, share in shares.items() if name != "train"}
    return {"train": count - sum(sizes.values())} | sizes


def _error(parts: Mapping[str, Sequence[int]], shares: Mapping[str, float], count: int) -> float:
    sizes = _sizes(count, shares)
    return max(abs(len(indices) - sizes[name]) for name, indices in parts.items()) / max(1, count)
