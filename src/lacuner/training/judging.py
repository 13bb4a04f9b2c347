"""What a trained model thinks of annotated sentences: as a teacher of another one, or about its own threshold."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.evaluation import Scores, score_entities
from lacuner.heads.decoding import decode, shift_outside, softmax_of_logits
from lacuner.methods.composition import Teacher
from lacuner.models.model import Model, batches_of, evaluating
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans, SpanTargets
from lacuner.training.epochs import SpanProbabilities

_STEPS = (1.0, 0.5, 0.25)
"""Thresholds from -4 to 4 are tried, then closer ones."""
_LEAST_LIKELY = 1 / (1 + math.exp(4.75))
"""With the lowest threshold, a span with a lower probability is no entity."""


def targets_of(model: SpanModel, sentences: Sequence[Sentence]) -> SpanTargets:
    """What is known about a batch of sentences, on the model's device."""
    return model.targets(sentences).to(next(model.parameters()).device)


def find_in(
    model: Model, sentences: Sequence[Sequence[str]], nested: bool = False, min_score: float = 0.0
) -> list[list[Entity]]:
    """Entities of sentences, in words."""
    found: list[list[Entity]] = [[] for _ in sentences]
    filled = [index for index, tokens in enumerate(sentences) if tokens]
    with evaluating(model):
        for places, inputs in batches_of(model, sentences, filled):
            for place, entities in zip(places, model.entities(inputs, nested, min_score), strict=True):
                found[place] = entities
    return found


def judge(
    model: SpanModel, corpus: Corpus, places: Sequence[int], least: float, shifted: bool = True
) -> SpanProbabilities:
    """What ``model`` thinks of the sentences at ``places``.

    Judged are the annotated spans that the head can score, and all others that are entities with a probability of at least
    ``least``, unless somebody has rejected them.

    Args:
        model: the judge.
        corpus: all sentences.
        places: of those to judge.
        least: from 0 to 1.
        shifted: by the model's threshold. A model that knew all negatives has seen how rare entities are, and needs no shift;
            what is best for F1 would make it believe in too many.
    """
    widest = model.method.head.max_span_width
    columns: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    # Label centres leave probabilities that are good for a decision, but do not sum to 1: the classifier alone is asked.
    thinks = None if shifted and not model.memory else softmax_of_logits
    for chosen, inputs in batches_of(model, corpus.tokens, places):
        annotated = _annotated([corpus[place] for place in chosen], widest).to(next(model.parameters()).device)
        spans, probabilities = model.candidates(inputs, least, annotated, thinks)
        columns.append((torch.tensor(chosen)[spans.row.cpu()], spans.start.cpu(), spans.end.cpu(), probabilities.cpu()))
    if not columns:
        nowhere = np.zeros(0, dtype=np.int64)
        return SpanProbabilities(nowhere, nowhere, nowhere, np.zeros((0, len(model.labels)), dtype=np.float32))
    sentence, start, end, probable = (torch.cat(column).numpy() for column in zip(*columns, strict=True))
    keys = np.stack([sentence, start, end], axis=1)
    keys, first = np.unique(keys, axis=0, return_index=True)
    rejected = {(place, span.start, span.end) for place in places for span in corpus[place].non_entities}
    kept = np.array([tuple(key) not in rejected for key in keys.tolist()], dtype=bool)
    keys, first = keys[kept], first[kept]
    return SpanProbabilities(keys[:, 0], keys[:, 1], keys[:, 2], probable[first])


def _annotated(sentences: Sequence[Sentence], widest: int | None) -> Spans:
    """Where something is annotated, whatever it is: the model need not know its label."""
    places = ((row, entity) for row, sentence in enumerate(sentences) for entity in sentence.entities)
    return Spans.of(
        dict.fromkeys((row, e.start, e.end) for row, e in places if widest is None or e.end - e.start <= widest)
    )


def join(beliefs: Sequence[SpanProbabilities]) -> SpanProbabilities:
    """SpanProbabilities about different sentences as one."""
    order = np.argsort(np.concatenate([each.sentence for each in beliefs]), kind="stable")
    sentence, start, end, probabilities = (
        np.concatenate([getattr(each, name) for each in beliefs])[order]
        for name in ("sentence", "start", "end", "probabilities")
    )
    return SpanProbabilities(sentence, start, end, probabilities)


def average(beliefs: Sequence[SpanProbabilities]) -> SpanProbabilities:
    """The mean of several teachers' beliefs; a span that one of them did not think worth a thought is ``O`` to that one."""
    keys = np.concatenate([np.stack([each.sentence, each.start, each.end], axis=1) for each in beliefs])
    spans, inverse = np.unique(keys, axis=0, return_inverse=True)
    total = np.zeros((len(spans), beliefs[0].probabilities.shape[1]), dtype=np.float32)
    np.add.at(total, inverse.reshape(-1), np.concatenate([each.probabilities for each in beliefs]))
    total /= len(beliefs)
    total[:, 0] += 1 - total.sum(1)
    return SpanProbabilities(spans[:, 0], spans[:, 1], spans[:, 2], total)


def weigh(beliefs: SpanProbabilities, corpus: Corpus, labels: Sequence[str], teacher: Teacher) -> SpanProbabilities:
    """SpanProbabilities, weighed against what the corpus says."""
    number = {label: index for index, label in enumerate(labels)}
    place = {
        key: index
        for index, key in enumerate(
            zip(beliefs.sentence.tolist(), beliefs.start.tolist(), beliefs.end.tolist(), strict=True)
        )
    }
    annotated = torch.zeros(beliefs.probabilities.shape, dtype=torch.bool)
    for index in np.unique(beliefs.sentence).tolist():
        for entity in corpus[index].entities:
            row = place.get((index, entity.start, entity.end))
            if row is not None:
                annotated[row, number[entity.label]] = True
    weighed = teacher.belief(torch.from_numpy(beliefs.probabilities), annotated).numpy()
    return SpanProbabilities(beliefs.sentence, beliefs.start, beliefs.end, weighed)


def fit_threshold(model: SpanModel, dev: Corpus, criterion: Callable[[Scores], float]) -> tuple[float, Scores]:
    """The threshold with which the model does best on dev data, and how well it does; of equals the one nearest to 0."""
    model.threshold = 0.0
    pieces: list[tuple[list[Sentence], Spans, Tensor, Tensor]] = []
    filled = [index for index, sentence in enumerate(dev) if sentence.tokens]
    with evaluating(model):
        for chosen, inputs in batches_of(model, dev.tokens, filled):
            spans, probabilities = model.candidates(inputs, _LEAST_LIKELY)
            pieces.append(([dev[index] for index in chosen], spans, probabilities, inputs.lengths))

    @cache
    def scores(threshold: float) -> Scores:
        pairs = (
            pair
            for sentences, spans, probabilities, lengths in pieces
            for pair in zip(
                sentences, decode(spans, shift_outside(probabilities, threshold), lengths, model.labels), strict=True
            )
        )
        return score_entities(pairs)

    best = 0.0
    for step in _STEPS:  # ever finer around the best so far
        near = [best + step * number for number in (range(-4, 5) if step == _STEPS[0] else (-1, 0, 1))]
        best = max(near, key=lambda threshold: (criterion(scores(threshold)), -abs(threshold)))
    return best, scores(best)
