"""Sentences on disk with random access, for a corpus larger than memory."""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.records import sentence_from_record, sentence_to_record
from lacuner.corpus.lazy import LazySentences
from lacuner.corpus.sentence import NO_FIELDS, Sentence
from lacuner.errors import DataError
from lacuner.storage import reporting

_RECORDS, _OFFSETS = "sentences.jsonl", "offsets.int64"


class StoredSentences(LazySentences):
    """Sentences written by :func:`store_sentences`.

    Records are read rather than memory-mapped, because mapped pages would count as memory of the process. Only the offsets
    are mapped, eight bytes per sentence.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = (folder / _RECORDS).open("rb", buffering=0)
        path = folder / _OFFSETS
        empty = path.stat().st_size == 0  # cannot be mapped
        self._offsets = np.zeros(0, "<i8") if empty else np.memmap(path, "<i8", mode="r")

    def __reduce__(self) -> tuple[type["StoredSentences"], tuple[Path]]:
        return type(self), (self._folder,)  # another process opens the files itself

    def __len__(self) -> int:
        return max(0, len(self._offsets) - 1)

    def sentence(self, index: int) -> Sentence:
        begin, end = map(int, self._offsets[index : index + 2])
        record = os.pread(self._file.fileno(), end - begin, begin)
        if len(record) < end - begin:
            raise DataError(
                "it has become shorter", "train again, and do not change it meanwhile", self._folder / _RECORDS
            )
        return sentence_from_record(json.loads(record), self._folder / _RECORDS, index + 1)


def store_sentences(sentences: Iterable[Sentence], folder: Path) -> None:
    """Write a stream of sentences to an empty folder, without raw text and other fields, which training does not use."""
    with reporting(folder), (folder / _RECORDS).open("wb") as records, (folder / _OFFSETS).open("wb") as offsets:
        position = 0
        for sentence in sentences:
            bare = replace(sentence, text=None, token_offsets=None, extra=NO_FIELDS)
            offsets.write(position.to_bytes(8, "little"))
            position += records.write(to_line(sentence_to_record(bare)).encode())
        offsets.write(position.to_bytes(8, "little"))
