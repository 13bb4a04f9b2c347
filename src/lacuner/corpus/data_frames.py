"""Entities of a corpus, or of predictions, as a pandas data frame with a row per entity."""

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from lacuner.corpus.sentence import Entity, Sentence
from lacuner.errors import DataError

_NUMBERS = ("sentence", "start", "end", "start_char", "end_char")
_ABOUT = ("label", "text", "score", "source")


def entities_frame(sentences: Iterable[Sentence]) -> Any:
    """A row for each entity, with the index of its sentence, from 0.

    Offsets are in words (``start``, ``end``) and in characters of the raw text (``start_char``, ``end_char``). Unknown values
    (a score, a source) are missing. Sentences without entities have no row.
    """
    rows = []
    for index, sentence in enumerate(sentences):
        offsets = sentence.offsets() if sentence.entities else []
        for entity, text in zip(sentence.entities, sentence.texts_of(sentence.entities), strict=True):
            where = entity.start, entity.end, offsets[entity.start][0], offsets[entity.end - 1][1]
            rows.append((index, *where, *_about(entity, text)))
    return _frame(rows, _NUMBERS)


def predictions_frame(predictions: Iterable[Iterable[Entity]], numbered: bool) -> Any:
    """A row for each predicted entity; ``start`` and ``end`` have the unit of the prediction's offsets.

    Args:
        predictions: the entities of each text.
        numbered: whether to add a first column ``sentence`` with the index of the text, from 0.
    """
    rows = [
        (*([index] if numbered else []), entity.start, entity.end, *_about(entity, entity.text))
        for index, entities in enumerate(predictions)
        for entity in entities
    ]
    return _frame(rows, ("sentence", "start", "end") if numbered else ("start", "end"))


def _about(entity: Entity, text: str | None) -> tuple[str, str | None, float | None, str | None]:
    return entity.label, text, entity.score, None if entity.source is None else str(entity.source)


def _frame(rows: Sequence[tuple[Any, ...]], numbers: Sequence[str]) -> Any:
    if importlib.util.find_spec("pandas") is None:
        raise DataError("this needs pandas, which is not installed", "install it with: pip install pandas")
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[*numbers, *_ABOUT])
    return frame.astype(dict.fromkeys(numbers, "int64") | {"score": "float64"})
