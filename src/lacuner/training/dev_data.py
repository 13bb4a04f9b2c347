"""Checks on dev data that reveal when dev scores are misleading."""

from collections import Counter
from collections.abc import Iterator

from lacuner.corpus import Corpus
from lacuner.corpus.sentence import Source

_EXPECTED = 5
"""A label expected this often in the dev data but missing from it is not merely rare: it probably has another name there."""
_REPEATED = 0.2
"""Fraction of dev sentences also in the training data that triggers a warning."""


def remarks_on_dev(train: Corpus, dev: Corpus, has_gaps: bool = False) -> Iterator[str]:
    """Yield warnings, as sentences, about selecting a model on ``dev``.

    Args:
        train: the training data.
        dev: the dev data.
        has_gaps: whether the user has declared that labels are missing in the dev data.
    """
    if not any(sentence.entities for sentence in dev):
        yield "No entity is annotated in the dev data, so the best epoch cannot be selected; the last one is kept."
    if not has_gaps and is_labeled_by_a_dictionary(dev):
        yield (
            "All labels of the dev data are from a dictionary, so every name that it lacks counts as a wrong prediction: use "
            "dev data that a person has labeled, or declare that it has gaps (--dev-incomplete)."
        )
    for label in sorted(set(dev.labels) - set(train.labels)):
        yield f"The label {label} is in the dev data only; none of its entities can be found."
    if train.is_lazy:  # it would have to be read from disk again
        return
    for label in labels_that_dev_lacks(train, dev):
        yield (
            f"The label {label} is in the training data only: all its predictions count as wrong on the dev data. "
            "Does it have another name there?"
        )
    repeated = count_repeated(train, dev)
    if repeated and repeated >= _REPEATED * len(dev):
        yield (
            f"{repeated:,} of {len(dev):,} dev sentences are also in the training data, so scores on the dev data are "
            "higher than on new text; lacuner split keeps equal sentences together."
        )


def is_labeled_by_a_dictionary(corpus: Corpus) -> bool:
    """Whether a dictionary has made all labels, and nobody says that they are complete."""
    sources = {entity.source for sentence in corpus for entity in sentence.entities}
    return sources == {Source.DICTIONARY} and not any(sentence.complete for sentence in corpus)


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
