"""Data as people have it at hand, as a corpus."""

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
    """Of the library ``datasets``, with columns ``tokens`` and ``ner_tags``."""

    @property
    def column_names(self) -> list[str]: ...


Data = Corpus | Iterable[Sentence] | Dataset | str | Path
"""What can be trained on: a corpus, sentences, a dataset, or the path of a file."""
LabelSets = Sequence[Data] | Mapping[str, Data]
"""Several annotations of the same text, with the names of their sources or without."""


def as_corpus(data: Data, name: str = "data", split: Splitting = "words") -> Corpus:
    """The same data as a corpus.

    Args:
        data: a corpus, sentences, a dataset, or the path of a file or folder in any format that is known.
        name: what the data is called in errors.
        split: how raw text with character spans becomes words.
    """
    if isinstance(data, Corpus):
        return data
    if isinstance(data, str | Path):
        return Corpus.read(data, split=split)
    if hasattr(data, "column_names"):  # also a DatasetDict, which is refused there in a sentence
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
    """Several annotations of the same text as one corpus that knows who said what; where they differ is logged.

    Args:
        label_sets: by the names of their sources, or as a list. Of a list, what names no source is called after its file,
            or ``source 1``, ``source 2``, ….
        trust: how many votes a source has where sources contradict each other; 1 unless it is given.
        name: what the data is called in errors.
        split: how raw text with character spans becomes words.
        where: stands before what is logged; for those who merge several.
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
    """One corpus after the other; in those that name several sources, these are told apart, and their votes counted.

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
