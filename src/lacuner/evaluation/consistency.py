"""Whether wrong labels are slips, or what a source always says of a name."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import comparable_entities

_NEARLY_ALWAYS = 0.8


@dataclass
class WrongNames:
    """Wrong labels, by whether the same name with the same label is right elsewhere; counted in one pass.

    A slip can be unlearned: the other occurrences of the name contradict it. A name that a source labels wrongly each time
    looks like the truth to any model that learns from this source alone. Names are compared without regard to case.

    Attributes:
        names: how often each name with each label is annotated.
        right: how often that is right.
    """

    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    right: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, gold: Sentence, annotated: Iterable[Entity]) -> None:
        """Count a sentence; what is compared is what F1 compares."""
        true, given = comparable_entities(gold, annotated)
        found = list(given)
        for entity, words in zip(found, gold.texts_of(found), strict=True):
            name = words.casefold(), entity.label
            self.names[name] += 1
            self.right[name] += entity in true

    def as_dict(self) -> dict[str, int]:
        """Wrong labels: all of them, and those of names that are wrong four times of five, that occur once, and the others."""
        counts = Counter({"always": 0, "once": 0, "sometimes": 0})
        for name, count in self.names.items():
            wrong = count - self.right[name]
            kind = "once" if count == 1 else "always" if wrong >= _NEARLY_ALWAYS * count else "sometimes"
            counts[kind] += wrong
        return {"wrong": counts.total()} | counts
