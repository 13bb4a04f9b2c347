"""The probability that a text has an unmarked entity, used to rank texts for annotation."""

import math
from collections.abc import Iterable, Iterator, Sequence

from lacuner.corpus import Sentence
from lacuner.inference.backends import Backend, TorchBackend
from lacuner.inference.passages import passages_of
from lacuner.models.model import EncodedBatch, Model, evaluating
from lacuner.models.tag_model import TagModel

_MIN_PROBABILITY = 0.01
"""Minimum entity probability of candidate spans."""
_LOWER_THRESHOLD = 4.0
"""Decrease of the threshold to get more candidates from a tagger, which has no probabilities of all spans."""

Candidate = tuple[int, int, float]
"""``[start, end)`` in words, and entity probability."""


def missing_probability(
    model: Model, words: Sequence[str], marked: Iterable[tuple[int, int]], backend: Backend | None = None
) -> float:
    """``1 − Π (1 − p)`` over candidate spans that overlap neither a marked span nor a more probable candidate.

    Args:
        model: predicts probabilities of entities.
        words: of the text.
        marked: spans ``[start, end)`` that are annotated, or predicted and will be shown.
        backend: computes the word vectors.
    """
    backend = backend or TorchBackend(model)
    candidates: list[Candidate] = []
    with evaluating(model):
        for passage in passages_of(words) if words else []:
            inside = words[passage.begin : passage.end]
            for start, end, probability in _candidates(model, inside, backend.encode([inside])):
                if passage.own_begin <= passage.begin + start < passage.own_end:
                    candidates.append((passage.begin + start, passage.begin + end, probability))
    return chance_of_any(candidates, marked)


def chance_of_any(candidates: Iterable[Candidate], marked: Iterable[tuple[int, int]]) -> float:
    """Probability that at least one candidate that overlaps neither a marked span nor a better candidate is an entity.

    >>> round(chance_of_any([(0, 1, 0.5), (0, 2, 0.4), (3, 4, 0.5), (5, 6, 0.9)], [(5, 7)]), 6)
    0.75
    """
    taken = {word for start, end in marked for word in range(start, end)}
    nothing = 0.0  # log probability that nothing is missing
    for start, end, probability in sorted(candidates, key=lambda candidate: -candidate[2]):
        covered = set(range(start, end))
        if not covered & taken:
            taken |= covered
            nothing += math.log1p(-min(probability, 1 - 1e-12))
    return abs(math.expm1(nothing))  # 0.0 instead of -0.0 without candidates


def _candidates(model: Model, words: Sequence[str], batch: EncodedBatch) -> Iterator[Candidate]:
    if isinstance(model, TagModel):
        (found,) = model.score(batch).decode(float(model.threshold) - _LOWER_THRESHOLD)
        (probabilities,) = model.probabilities(batch, [found])
        for entity, probability in zip(found, probabilities, strict=True):
            yield entity.start, entity.end, probability
        return
    spans, probable = model.span_probabilities(batch, [Sentence(tuple(words))], _MIN_PROBABILITY)
    columns = (spans.start.tolist(), spans.end.tolist(), (1 - probable[:, 0]).tolist())
    for start, end, probability in zip(*columns, strict=True):
        yield start, end, max(0.0, probability)
