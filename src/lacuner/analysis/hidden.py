"""Hidden entities: those that exist, as a gold standard knows, but that the training data does not annotate (``ŷ``)."""

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from lacuner.corpus import Sentence
from lacuner.corpus.formats.json_lines import read_records
from lacuner.corpus.formats.records import entity_from_record
from lacuner.corpus.statistics import aligned
from lacuner.errors import ConfigError, DataError
from lacuner.methods.method import SpanMethod
from lacuner.training.settings import RunSettings

logger = logging.getLogger(__name__)

SpanSet = frozenset[tuple[int, int]]
"""Spans ``[start, end)`` of a sentence, in words."""


def annotated_spans(sentence: Sentence) -> SpanSet:
    """The spans of the annotated entities; a span with two labels counts once."""
    return frozenset((entity.start, entity.end) for entity in sentence.entities)


def hidden_against_gold(train: Iterable[Sentence], gold: Iterable[Sentence], path: object) -> list[SpanSet]:
    """For each sentence, the gold entities whose exact span has no label in ``train``.

    Args:
        train: sentences with gaps.
        gold: the same sentences, completely annotated.
        path: the gold file, for the message when the sentences are not the same.
    """
    pairs = aligned(train, gold, path)
    return [annotated_spans(theirs) - annotated_spans(ours) for ours, theirs in pairs]


def read_hidden(path: str | Path, train: Sequence[Sentence]) -> list[SpanSet]:
    """For each sentence of ``train``, what ``lacuner mask --hidden`` wrote about it.

    A span that ``train`` annotates nevertheless is not hidden; how many there are is said.
    """
    found: list[set[tuple[int, int]]] = [set() for _ in train]
    annotated = 0

    @lru_cache(maxsize=1)  # the records of a sentence follow each other
    def looked_up(index: int) -> tuple[str, list[tuple[int, int]], SpanSet]:
        return train[index].raw_text, train[index].offsets(), annotated_spans(train[index])

    for line, record in read_records(path):
        index = record.get("sentence")
        if isinstance(index, bool) or not isinstance(index, int):
            raise DataError('"sentence" must be a whole number', "give the file that mask --hidden wrote", path, line)
        entity = entity_from_record(record, path, line)
        if not 0 <= index < len(train):
            what = f"there is no sentence {index} in the training data, which has {len(train)} (counted from 0)"
            raise DataError(what, "give the --hidden file that was written together with it", path, line)
        sentence, (text, offsets, known) = train[index], looked_up(index)
        inside = entity.end <= len(sentence)
        if not inside or entity.text not in (None, text[offsets[entity.start][0] : offsets[entity.end - 1][1]]):
            what = f"{entity} is not in sentence {index} ({' '.join(sentence.tokens[:8])} …)"
            raise DataError(what, "give the --hidden file that was written together with the training data", path, line)
        if (entity.start, entity.end) in known:
            annotated += 1
        else:
            found[index].add((entity.start, entity.end))
    if annotated:
        logger.warning(
            "%d entities in %s are annotated in the training data and therefore not hidden.", annotated, path
        )
    return [frozenset(spans) for spans in found]


def span_method(settings: RunSettings, what: str) -> SpanMethod:
    """The method, if it is one that draws spans; ``what`` is there to be measured."""
    method = settings.method
    if not isinstance(method, SpanMethod):
        does = "tags words" if method.level == "token" else "draws no spans"
        raise ConfigError(
            f"{method.name} {does}; {what} is about spans that become negatives: give a span-level method"
        )
    return method
