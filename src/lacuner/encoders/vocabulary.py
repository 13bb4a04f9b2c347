"""Shared parts of encoders with a word vocabulary: settings, and storage in a model folder."""

from abc import ABC
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from lacuner.encoders.encoder import EncoderConfig
from lacuner.encoders.table import read_stored, write_stored
from lacuner.encoders.vectors import WordVectors, choose_vectors, vector_files
from lacuner.features.vocabulary import Vocabulary

_VOCABULARY_FILE = "vocabulary.json"


class VocabularyConfig(EncoderConfig, ABC):
    """Settings of an encoder with word vectors, from a file or trained from scratch."""

    vectors: str = Field(
        "auto",
        description="pretrained word vectors: auto (GloVe if installed and suitable), none, or a "
        "word2vec/GloVe text file",
    )
    word_size: int = Field(100, ge=1, description="size of word vectors trained from scratch")
    unknown_fraction: float = Field(
        0.3,
        ge=0,
        le=1,
        description="fraction of words seen only once that are replaced by the unknown word in training",
    )

    @property
    def files(self) -> tuple[Path, ...]:
        return (*super().files, *vector_files(self.vectors))

    def choose_words(self, sentences: Sequence[Sequence[str]]) -> tuple[Vocabulary, WordVectors | None]:
        """Build the vocabulary of sentences, with initial vectors of its words, if any."""
        vectors = choose_vectors(self.vectors, sentences)
        return Vocabulary.build(sentences, vectors.words if vectors else ()), vectors

    def size_of(self, vectors: WordVectors | None) -> int:
        """Size of word vectors when initialized from these."""
        return self.word_size if vectors is None else vectors.table.shape[1]


def save_vocabulary(vocabulary: Vocabulary, folder: Path) -> None:
    """Write the words to a model folder; their vectors are weights of the model."""
    write_stored(folder, _VOCABULARY_FILE, vocabulary.as_dict())


def restore_vocabulary(folder: Path) -> Vocabulary:
    """Read the words from a model folder."""
    return read_stored(folder, _VOCABULARY_FILE, Vocabulary.from_dict)
