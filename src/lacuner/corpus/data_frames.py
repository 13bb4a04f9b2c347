"""A corpus as a pandas data frame: a row an entity."""

import importlib.util
from collections.abc import Iterable
from typing import Any

from lacuner.corpus.sentence import Sentence
from lacuner.errors import DataError

_NUMBERS = ("sentence", "start", "end", "start_char", "end_char")


def entities_frame(sentences: Iterable[Sentence]) -> Any:
    """A row for each entity, with the number of its sentence, counted from 0.

    Offsets count words (``start``, ``end``) and characters of the raw text (``start_char``, ``end_char``). What nobody knows
    (a score, a source) is missing. Sentences without entities have no row.
    """
    if importlib.util.find_spec("pandas") is None:
        raise DataError("this needs pandas, which is not installed", "install it with: pip install pandas")
    import pandas as pd

    rows = []
    for index, sentence in enumerate(sentences):
        offsets = sentence.offsets() if sentence.entities else []
        for entity, text in zip(sentence.entities, sentence.texts_of(sentence.entities), strict=True):
            where = entity.start, entity.end, offsets[entity.start][0], offsets[entity.end - 1][1]
            source = None if entity.source is None else str(entity.source)
            rows.append((index, *where, entity.label, text, entity.score, source))
    frame = pd.DataFrame(rows, columns=[*_NUMBERS, "label", "text", "score", "source"])
    return frame.astype(dict.fromkeys(_NUMBERS, "int64") | {"score": "float64"})
