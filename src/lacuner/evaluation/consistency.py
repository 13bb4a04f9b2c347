"""Are wrong labels random slips, or systematic for a name?"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import comparable_entities

_NEARLY_ALWAYS = 0.8


@dataclass
class WrongNames:
    """Counts wrong labels, by whether the same name with the same label is right elsewhere, in one pass.

    A random error can be unlearned, because other occurrences of the name contradict it. A name that a source always labels
    wrongly is indistinguishable from the truth for a model trained on this source alone. Names are compared
    case-insensitively.

    Attributes:
        names: occurrences of each annotated name and label.
        right: how many of these are right.
    """

    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    right: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, gold: Sentence, annotated: Iterable[Entity]) -> None:
        """Count a sentence, comparing what F1 compares."""
        true, given = comparable_entities(gold, annotated)
        found = list(given)
        for entity, words in zip(found, gold.texts_of(found), strict=True):
            name = words.casefold(), entity.label
            self.names[name] += 1
            self.right[name] += entity in true

    def as_dict(self) -> dict[str, int]:
        """Number of wrong labels: in total, and by names wrong at least four times of five, occurring once, or neither."""
        counts = Counter({"always": 0, "once": 0, "sometimes": 0})
        for name, count in self.names.items():
            wrong = count - self.right[name]
            kind = "once" if count == 1 else "always" if wrong >= _NEARLY_ALWAYS * count else "sometimes"
            counts[kind] += wrong
        return {"wrong": counts.total()} | counts
