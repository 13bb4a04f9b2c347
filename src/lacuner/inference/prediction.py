"""Predicted entities of a text, as a list that keeps the text for display."""

from collections.abc import Iterable, Sequence
from typing import Any

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.data_frames import predictions_frame
from lacuner.corpus.display.colors import Palette
from lacuner.corpus.display.marks import Mark, marks_of
from lacuner.corpus.display.markup import notebook_output, text_block

Text = str | Sequence[str] | Sentence
_SHOWN = 20
"""Number of predictions shown in notebooks."""


class Prediction(list[Entity]):
    """The entities of one text: a list that notebooks display as the text with its entities.

    Args:
        entities: the predicted entities.
        source: the text: a string, words, or a sentence.
        labels: all labels of the model; each has the same color in all predictions.
    """

    def __init__(self, entities: Iterable[Entity] = (), source: Text = "", labels: Sequence[str] = ()) -> None:
        super().__init__(entities)
        self.source = source
        self.labels = labels

    @property
    def text(self) -> str:
        """The text, or the words joined by spaces."""
        return shown_text(self.source, ())[0]

    def to_pandas(self) -> Any:
        """Data frame with a row for each entity: position, label, text, score and source."""
        return predictions_frame([self], numbered=False)

    def _repr_html_(self) -> str:
        return notebook_output([self._block()])

    def _block(self) -> str:
        text, marks = shown_text(self.source, self)
        return text_block(text, marks, Palette.of(self.labels or (entity.label for entity in self)))


class Predictions(list[Prediction]):
    """The entities of several texts: a list of predictions that notebooks display."""

    def to_pandas(self) -> Any:
        """Data frame with a row for each entity, including the index of its text as ``sentence``."""
        return predictions_frame(self, numbered=True)

    def _repr_html_(self) -> str:
        about = f"the first {_SHOWN} of {len(self):,} texts" if len(self) > _SHOWN else ""
        return notebook_output([prediction._block() for prediction in self[:_SHOWN]], about)


def shown_text(source: Text, entities: Iterable[Entity]) -> tuple[str, list[Mark]]:
    """The text to display, and character offsets of its entities (given in words unless the text is a string)."""
    if isinstance(source, str):
        return source, marks_of(entities)
    sentence = source if isinstance(source, Sentence) else Sentence(tuple(source))
    return sentence.raw_text, marks_of(entities, sentence.offsets())
