"""Fitting of a word filter: words that never begin or end a predicted entity need not be paired with others."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lacuner.inference.passages import MAX_PASSAGE, SearchPassages
from lacuner.models.model import batches_of, evaluating
from lacuner.models.span_model import SpanModel
from lacuner.models.word_filter import WordFilter

_WORDS = 20_000
"""Words that a filter is fitted to; more make little difference."""
_MIN_ENTITIES = 200
"""Minimum number of entities for a filter."""
_SLACK = 3.0
"""Margin below the lowest score of boundary words; words below it are skipped."""
_MIN_KEPT = 0.2
"""Minimum fraction of words that are kept, those with the highest scores."""
_MAX_PAIRS = 0.5
"""Maximum fraction of word pairs that a useful filter keeps."""
_DECAY = 1e-4
_STEPS = 60


class _Words(NamedTuple):
    """``m`` words: their vectors, and whether an entity begins or ends there."""

    first: Tensor  # (m, d)
    last: Tensor  # (m, d)
    starts: Tensor  # (m,) bool
    ends: Tensor  # (m,) bool


def fit_word_filter(
    model: SpanModel, sentences: Sequence[Sequence[str]], others: Sequence[Sequence[str]] = ()
) -> WordFilter | None:
    """Give a model a filter that preserves its predictions; None if they are few, or the filter would save little.

    Two linear classifiers learn where the model's own predictions begin and end. Words are skipped if they score below every
    boundary word by a margin, which is increased if boundary words of held-out sentences score lower than those the
    classifiers were fitted to.

    Args:
        model: its filter is replaced.
        sentences: to fit the classifiers, such as training data; their labels are not used.
        others: held-out sentences for the margin, such as dev data; by default every fourth of ``sentences``.
    """
    model.word_filter = None
    chosen, held_out = _sample(_passages(sentences)), list(_passages(others))
    if not held_out:
        chosen, held_out = [each for index, each in enumerate(chosen) if index % 4], chosen[::4]
    if not chosen or not held_out:
        return None
    fitted = WordFilter(model.encoder.size).to(model.device)
    known, unknown = _look_at(model, chosen), _look_at(model, held_out)
    kept = 1.0
    for side in range(2):
        vectors, positive = known[side], known[side + 2]
        if positive.sum() < _MIN_ENTITIES or unknown[side + 2].sum() < _MIN_ENTITIES // 4:
            return None
        weight = _fit(vectors, positive)
        scores = vectors @ weight
        least = _least(scores, positive)
        unseen = min(least, _least(unknown[side] @ weight, unknown[side + 2]))
        usual = float(scores.sort().values[round((1 - _MIN_KEPT) * (len(scores) - 1))])
        cut = min(unseen - _SLACK - (least - unseen), usual)
        kept *= float((scores >= cut).float().mean())
        fitted.weight[side], fitted.bias[side] = weight, -cut
    if kept > _MAX_PAIRS:
        return None
    model.word_filter = fitted
    return fitted


def _passages(sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Nonempty passages. Training data, which may be larger than memory, already consists of these, and is not copied."""
    if all(0 < len(words) <= MAX_PASSAGE for words in sentences):
        return sentences
    cut = SearchPassages.of(sentences)
    return [cut.tokens[index] for index in cut.filled]


def _sample(passages: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Sample passages with enough words from all over the data."""
    words = sum(map(len, passages))
    step = max(1.0, words / _WORDS)
    return [passages[int(index * step)] for index in range(int(len(passages) / step))]


@torch.no_grad()
def _look_at(model: SpanModel, passages: Sequence[Sequence[str]]) -> _Words:
    found = []
    with evaluating(model):
        for _, tokens in batches_of(model, passages, range(len(passages))):
            batch = model.encode(tokens)
            starts = torch.zeros(batch.words.first.shape[:2], dtype=torch.bool)
            ends = starts.clone()
            for row, entities in enumerate(model.entities(batch)):
                starts[row, [entity.start for entity in entities]] = True
                ends[row, [entity.end - 1 for entity in entities]] = True
            inside = torch.arange(starts.shape[1], device=model.device) < batch.lengths[:, None]
            found.append(_Words(*(each.to(model.device)[inside] for each in (*batch.words, starts, ends))))
    return _Words(*(torch.cat(column) for column in zip(*found, strict=True)))


def _least(scores: Tensor, positive: Tensor) -> float:
    """The lowest score of words at which an entity begins or ends."""
    return float(scores[positive].min())


@torch.enable_grad()
def _fit(vectors: Tensor, positive: Tensor) -> Tensor:
    """Weights ``(d,)`` of a class-balanced logistic regression."""
    weight, bias = (torch.zeros(size, device=vectors.device, requires_grad=True) for size in (vectors.shape[1], 1))
    target = positive.float()
    share = (len(target) - target.sum()) / target.sum()
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = nn.functional.binary_cross_entropy_with_logits(vectors @ weight + bias, target, pos_weight=share)
        value = value + _DECAY * weight.square().sum()
        torch.autograd.backward(value)
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach()
