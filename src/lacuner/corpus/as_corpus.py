"""Conversion of various data types to a corpus."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lacuner.corpus.corpus import Corpus, merge
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.merging import Layer, MergeReport, merge_layers, source_names, tell_sources_apart
from lacuner.corpus.sentence import Sentence
from lacuner.corpus.sources import UNNAMED
from lacuner.corpus.tokenize import Splitting
from lacuner.corpus.voting import Trust

logger = logging.getLogger(__name__)


class Dataset(Protocol):
    """A dataset of the library ``datasets`` with columns ``tokens`` and ``ner_tags``."""

    @property
    def column_names(self) -> list[str]: ...


Data = Corpus | Iterable[Sentence] | Dataset | str | Path
"""Data accepted by training: a corpus, sentences, a dataset, or the path of a file."""
LabelSets = Sequence[Data] | Mapping[str, Data]
"""Several annotations of the same text, with or without the names of their sources."""


def as_corpus(data: Data, name: str = "data", split: Splitting = "words") -> Corpus:
    """Convert data to a corpus.

    Args:
        data: a corpus, sentences, a dataset, or the path of a file or folder in any known format.
        name: name of the data in errors.
        split: how raw text with character spans is tokenized.
    """
    if isinstance(data, Corpus):
        return data
    if isinstance(data, str | Path):
        return Corpus.read(data, split=split)
    if hasattr(data, "column_names"):  # also a DatasetDict, which from_dataset rejects with an explanation
        return Corpus.from_dataset(data)
    accepted = f"{name} is a corpus, a list of sentences, a dataset, or the path of a file"
    if not isinstance(data, Iterable):
        raise TypeError(f"{accepted}, but not {repr(data)[:60]}")
    sentences = tuple(data)
    for sentence in sentences:
        if not isinstance(sentence, Sentence):
            raise TypeError(f"{accepted}, but it holds {repr(sentence)[:60]}")
    return Corpus(sentences)


def same_text(
    label_sets: LabelSets, trust: Trust | None = None, name: str = "data", split: Splitting = "words", where: str = ""
) -> Corpus:
    """Merge several annotations of the same text into a corpus that keeps each source's annotation; differences are logged.

    Args:
        label_sets: a mapping from source names, or a list. In a list, data without source names is named after its file, or
            ``source 1``, ``source 2``, ….
        trust: votes of each source where sources contradict each other; 1 by default.
        name: name of the data in errors.
        split: how raw text with character spans is tokenized.
        where: prefix of log messages, for callers that merge several corpora.
    """
    if isinstance(label_sets, Corpus | str | Path) or not isinstance(label_sets, Mapping | Sequence):
        raise TypeError(
            f"{name} is a list of corpora, or a mapping of sources to corpora, where they have the same text"
        )
    named = (
        dict(label_sets) if isinstance(label_sets, Mapping) else dict(zip(_names(label_sets), label_sets, strict=True))
    )
    corpora = {source: as_corpus(data, name, split) for source, data in named.items()}
    merged, report = merge_layers([Layer(source, corpus.sentences) for source, corpus in corpora.items()], trust)
    _log(report, where)
    reports = (corpus.report for corpus in corpora.values())
    return Corpus(tuple(merged), sum(reports, ReadingReport()))


def several_texts(corpora: Iterable[tuple[str, Corpus]]) -> Corpus:
    """Concatenate corpora; in those with several named sources, these are merged by vote.

    Args:
        corpora: each with the source of entities that name none.
    """
    told = []
    for name, corpus in corpora:
        apart, report = tell_sources_apart(corpus, name)
        told.append(apart)
        if report is not None:
            _log(report, "" if name == UNNAMED else f"{name}: ")
    return merge(told)


def _names(label_sets: Sequence[Data]) -> list[str]:
    paths = [Path(data) for data in label_sets if isinstance(data, str | Path)]
    named = iter(source_names(paths))
    return [
        next(named) if isinstance(data, str | Path) else f"source {number}" for number, data in enumerate(label_sets, 1)
    ]


def _log(report: MergeReport, where: str = "") -> None:
    for warning in report.warnings():
        logger.warning("%s%s", where, warning)
