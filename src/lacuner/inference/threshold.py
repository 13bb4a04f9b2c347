"""The threshold: by how much the logit of an entity must exceed that of ``O``."""

from collections.abc import Callable, Iterable
from functools import cache

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.encoders.processes import ALONE, Processes
from lacuner.inference.passages import SearchPassages
from lacuner.models.model import Decodable, Model, batches_of, evaluating

_STEPS = (1.0, 0.5, 0.25)
"""Step sizes of the search: thresholds from -4 to 4, then finer ones."""

Pairs = Iterable[tuple[Sentence, list[Entity]]]


def fit_threshold(
    model: Model, dev: Corpus, quality: Callable[[Pairs], float], nested: bool = False, processes: Processes = ALONE
) -> list[tuple[Sentence, list[Entity]]]:
    """Set a model's threshold to the best one on dev data; of ties, the one closest to 0.

    Args:
        model: its threshold is changed.
        dev: annotated sentences.
        quality: metric to maximize.
        nested: keep entities that overlap better ones.
        processes: processes to divide the work between.

    Returns:
        The dev sentences, with the predictions of the model.
    """
    passages = SearchPassages.of(dev.tokens)
    scored: list[tuple[list[int], Decodable]] = []
    with evaluating(model):
        for chosen, tokens in processes.own(batches_of(model, passages.tokens, passages.filled)):
            scored.append((chosen, model.score(model.encode(tokens))))

    def found(threshold: float) -> list[tuple[Sentence, list[Entity]]]:
        entities: dict[int, list[Entity]] = {}
        for chosen, batch in scored:
            entities |= zip(chosen, batch.decode(threshold, nested), strict=True)
        entities = processes.merge(entities)
        every = (entities.get(index, []) for index in range(len(passages.tokens)))
        return list(zip(dev, passages.collect(every), strict=True))

    @cache
    def reached(threshold: float) -> float:
        return quality(found(threshold))

    best = 0.0
    for step in _STEPS:  # successively finer steps around the best so far
        near = [best + step * number for number in (range(-4, 5) if step == _STEPS[0] else (-1, 0, 1))]
        best = max(near, key=lambda threshold: (reached(threshold), -abs(threshold)))
    model.threshold.fill_(best)
    return found(best)
