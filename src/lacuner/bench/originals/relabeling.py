"""The words of one original with the labels of another."""

import re
from collections.abc import Mapping
from dataclasses import replace

from lacuner.corpus import Corpus, Sentence
from lacuner.errors import DataError

_SAME_COMMITS = "take both originals at the commits that lacuner bench data lists"


def renamed(corpus: Corpus, labels: Mapping[str, str | None]) -> Corpus:
    """Rename labels; entities whose label becomes ``None`` are removed, labels that are not mentioned are kept.

    >>> from lacuner import Entity
    >>> corpus = Corpus((Sentence(("Rome",), (Entity(0, 1, "geoloc"),)),))
    >>> renamed(corpus, {"geoloc": "geo-loc"})[0].entities
    (Entity(start=0, end=1, label='geo-loc'),)
    """

    def changed(sentence: Sentence) -> Sentence:
        pairs = ((entity, labels.get(entity.label, entity.label)) for entity in sentence.entities)
        return replace(sentence, entities=tuple(replace(e, label=label) for e, label in pairs if label is not None))

    return Corpus(tuple(map(changed, corpus)), corpus.report)


def with_entities_of(words: Corpus, labels: Corpus) -> Corpus:
    """The sentences of ``words`` with their entities in ``labels``, where digits may have been replaced by 0."""
    if len(words) != len(labels):
        raise DataError(f"one original has {len(words)} sentences, the other {len(labels)}", _SAME_COMMITS)
    for number, (ours, theirs) in enumerate(zip(words, labels, strict=True), 1):
        if ours.tokens != theirs.tokens and _without_digits(ours) != _without_digits(theirs):
            raise _different(number, ours, theirs)
    pairs = zip(words, labels, strict=True)
    return Corpus(tuple(Sentence(ours.tokens, theirs.entities) for ours, theirs in pairs), labels.report)


def cut_like(whole: Corpus, cut: Corpus) -> Corpus:
    """Cut complete sentences like those of ``cut``, which lack the last word.

    A sentence of one word, which would become empty, is joined to the next one. Entities lose the words that are cut off, and
    are removed if none is left.
    """
    found, rest = [], iter(whole)
    for number, short in enumerate(cut, 1):
        sentence = next(rest, None)
        while sentence is not None and len(sentence) <= len(short):
            following = next(rest, None)
            sentence = None if following is None else _joined(sentence, following)
        if sentence is None or sentence.tokens[:-1] != short.tokens:
            raise _different(number, sentence or Sentence(()), short)
        end = len(short)
        entities = (replace(e, end=min(e.end, end)) for e in sentence.entities if e.start < end)
        found.append(Sentence(short.tokens, tuple(entities)))
    unused = sum(1 for _ in rest)
    if unused:
        raise DataError(f"{unused} sentences at the end of one original are not in the other", _SAME_COMMITS)
    return Corpus(tuple(found), whole.report)


def matched(sentences: Corpus, labels: Corpus) -> Corpus:
    """Sentences with the entities that the same words have somewhere in ``labels``."""
    known = {sentence.tokens: sentence for sentence in labels}
    missing = [number for number, sentence in enumerate(sentences, 1) if sentence.tokens not in known]
    if missing:
        what = f"{len(missing)} of {len(sentences)} sentences have no human labels, the first is number {missing[0]}"
        raise DataError(what, _SAME_COMMITS)
    return Corpus(tuple(known[sentence.tokens] for sentence in sentences), labels.report)


def _joined(first: Sentence, second: Sentence) -> Sentence:
    moved = (replace(e, start=e.start + len(first), end=e.end + len(first)) for e in second.entities)
    return Sentence(first.tokens + second.tokens, (*first.entities, *moved))


def _without_digits(sentence: Sentence) -> list[str]:
    return [re.sub("[0-9]", "0", token) for token in sentence.tokens]


def _different(number: int, ours: Sentence, theirs: Sentence) -> DataError:
    shown = [" ".join(sentence.tokens)[:40] for sentence in (ours, theirs)]
    return DataError(f"sentence {number} is {shown[0]!r} in one original and {shown[1]!r} in the other", _SAME_COMMITS)
