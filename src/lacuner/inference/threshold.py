"""The threshold: how much more than ``O`` an entity must weigh."""

from collections.abc import Callable, Iterable
from functools import cache

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.models.model import Decodable, Model, batches_of, evaluating

_STEPS = (1.0, 0.5, 0.25)
"""Thresholds from -4 to 4 are tried, then closer ones."""

Pairs = Iterable[tuple[Sentence, list[Entity]]]


def fit_threshold(
    model: Model, dev: Corpus, quality: Callable[[Pairs], float], nested: bool = False
) -> list[tuple[Sentence, list[Entity]]]:
    """Give a model the threshold with which it does best on dev data; of equals the one nearest to 0.

    Args:
        model: its threshold is changed.
        dev: annotated sentences.
        quality: of what the model finds in them: the greater, the better.
        nested: keep entities that overlap better ones.

    Returns:
        The sentences with words, in no particular order, and what the model finds in them.
    """
    scored: list[tuple[list[Sentence], Decodable]] = []
    filled = [index for index, sentence in enumerate(dev) if sentence.tokens]
    with evaluating(model):
        for chosen, tokens in batches_of(model, dev.tokens, filled):
            scored.append(([dev[index] for index in chosen], model.score(model.encode(tokens))))

    def found(threshold: float) -> Pairs:
        for sentences, batch in scored:
            yield from zip(sentences, batch.decode(threshold, nested), strict=True)

    @cache
    def reached(threshold: float) -> float:
        return quality(found(threshold))

    best = 0.0
    for step in _STEPS:  # ever finer around the best so far
        near = [best + step * number for number in (range(-4, 5) if step == _STEPS[0] else (-1, 0, 1))]
        best = max(near, key=lambda threshold: (reached(threshold), -abs(threshold)))
    model.threshold.fill_(best)
    return list(found(best))
