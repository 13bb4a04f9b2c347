"""Checks on dev data that reveal when dev scores are misleading."""

from collections import Counter
from collections.abc import Iterator

from lacuner.corpus import Corpus

_EXPECTED = 5
"""A label expected this often in the dev data but missing from it is not merely rare: it probably has another name there."""
_REPEATED = 0.2
"""Fraction of dev sentences also in the training data that triggers a warning."""


def remarks_on_dev(train: Corpus, dev: Corpus) -> Iterator[str]:
    """Yield warnings, as sentences, about selecting a model on ``dev``."""
    if not any(sentence.entities for sentence in dev):
        yield "No entity is annotated in the dev data, so it cannot tell which epoch is best; the last is kept."
    for label in sorted(set(dev.labels) - set(train.labels)):
        yield f"The label {label} is in the dev data only; none of its entities can be found."
    if train.is_lazy:  # it would have to be read from disk again
        return
    for label in labels_that_dev_lacks(train, dev):
        yield (
            f"The label {label} is in the training data only: whatever a model finds of it counts as wrong on the dev data. "
            "Is it called something else there?"
        )
    repeated = count_repeated(train, dev)
    if repeated and repeated >= _REPEATED * len(dev):
        yield (
            f"{repeated:,} of {len(dev):,} dev sentences are in the training data, too, so scores on the dev data are "
            "higher than on new text; lacuner split keeps equal sentences together."
        )


def labels_that_dev_lacks(train: Corpus, dev: Corpus) -> list[str]:
    """Labels frequent in the training data but absent from the dev data, although it is annotated for all labels."""
    if any(sentence.annotated_labels is not None for sentence in dev):
        return []
    counts = Counter(entity.label for sentence in train for entity in sentence.entities)
    there = sum(len(sentence.entities) for sentence in dev)
    expected = {label: there * count / counts.total() for label, count in counts.items()}
    return sorted(label for label in expected.keys() - set(dev.labels) if expected[label] >= _EXPECTED)


def count_repeated(train: Corpus, dev: Corpus) -> int:
    """Number of dev sentences with exactly the words of a training sentence."""
    known = {tuple(tokens) for tokens in train.tokens}
    return sum(tuple(tokens) in known for tokens in dev.tokens)
