"""Data as people have it at hand, as a corpus."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from lacuner.corpus.corpus import Corpus
from lacuner.corpus.sentence import Sentence
from lacuner.corpus.tokenize import Splitting


class Dataset(Protocol):
    """Of the library ``datasets``, with columns ``tokens`` and ``ner_tags``."""

    @property
    def column_names(self) -> list[str]: ...


Data = Corpus | Iterable[Sentence] | Dataset | str | Path
"""What can be trained on: a corpus, sentences, a dataset, or the path of a file."""


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
