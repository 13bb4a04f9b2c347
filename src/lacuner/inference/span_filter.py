"""Fitting of a span filter: most spans are certainly no entities, and need not be scored."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lacuner.inference.passages import MAX_PASSAGE, SearchPassages
from lacuner.models.model import batches_of, evaluating
from lacuner.models.span_filter import SpanFilter, pair_scores
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans, enumerate_spans

_WORDS = 20_000
"""Words that a filter is fitted to, and words that are held out for the margins; more make little difference."""
_PAIRS = 2_000_000
"""Pairs of words, padding included, that a filter is fitted to; far fewer than there are in long passages."""
_MIN_ENTITIES = 200
"""Minimum number of entities for a filter."""
_TAIL = 0.05
"""Fraction of the held-out entities, those with the lowest scores, whose spread decides how wide a margin is."""
_MARGIN = 5.0
"""Margin below the lowest score of an entity, in units of that spread."""
_MIN_KEPT = 0.2
"""Minimum fraction that a classifier keeps, those with the highest scores."""
_MAX_KEPT = 0.7
"""Maximum fraction that a classifier of words inside entities, or of pairs, keeps if it is worth its time."""
_MAX_SPANS = 0.5
"""Maximum fraction of all spans that a useful filter keeps."""
_WORD_DECAY, _PAIR_DECAY = 1e-4, 1e-3
_STEPS = 60


class _Batch(NamedTuple):
    """Encoded sentences, and the entities that the model finds in them."""

    first: Tensor  # (B, n, d)
    last: Tensor  # (B, n, d)
    lengths: Tensor  # (B,)
    entities: Spans
    flags: Tensor  # (3, B, n) bool: an entity begins there, one ends there, the word is part of one

    def words(self, side: int) -> tuple[Tensor, Tensor]:
        """Vectors ``(m, d)`` and flags ``(m,)`` of all words."""
        inside = torch.arange(self.first.shape[1], device=self.first.device) < self.lengths[:, None]
        return (self.last if side == 1 else self.first)[inside], self.flags[side][inside]


def fit_span_filter(
    model: SpanModel, sentences: Sequence[Sequence[str]], others: Sequence[Sequence[str]] = ()
) -> SpanFilter | None:
    """Give a model a filter that preserves its predictions; None if they are few, or the filter would save little.

    Linear classifiers learn at which words the model's own predictions begin and end, which words they contain, and of which
    pairs of words they are. A span is skipped if one of its scores is below those of all entities by a margin, which grows
    with the spread of the lowest scores of held-out entities. The last two classifiers are left out if they would skip little.

    Args:
        model: its filter is replaced.
        sentences: to fit the classifiers, such as training data; their labels are not used.
        others: held-out sentences for the margin, such as dev data; by default every fourth of ``sentences``.
    """
    model.span_filter = None
    chosen, held_out = _sample(_passages(sentences)), _sample(_passages(others))
    if not held_out:
        chosen, held_out = [each for index, each in enumerate(chosen) if index % 4], chosen[::4]
    if not chosen or not held_out:
        return None
    known, unknown = _look_at(model, chosen), _look_at(model, held_out)
    counts = [sum(len(batch.entities) for batch in batches) for batches in (known, unknown)]
    if counts[0] < _MIN_ENTITIES or counts[1] < _MIN_ENTITIES // 4:
        return None
    fitted = SpanFilter(model.encoder.size).to(model.device)
    for side in range(3):
        _fit_words(fitted, side, known, unknown)
    _fit_pairs(fitted, model.max_span_width, known, unknown)
    kept = sum(len(fitted.spans(*batch[:3], model.max_span_width)) for batch in unknown)
    if kept > _MAX_SPANS * sum(len(enumerate_spans(batch.lengths, model.max_span_width)) for batch in unknown):
        return None
    model.span_filter = fitted
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
def _look_at(model: SpanModel, passages: Sequence[Sequence[str]]) -> list[_Batch]:
    found = []
    with evaluating(model):
        for _, tokens in batches_of(model, passages, range(len(passages))):
            batch = model.encode(tokens)
            first, last = batch.words.first, model.head.last_words(batch.words)
            flags = torch.zeros(3, *first.shape[:2], dtype=torch.bool)
            triples = []
            for row, entities in enumerate(model.entities(batch)):
                for start, end in ((entity.start, entity.end) for entity in entities):
                    triples.append((row, start, end))
                    flags[0, row, start] = flags[1, row, end - 1] = True
                    flags[2, row, start:end] = True
            spans = Spans.of(triples).to(model.device)
            found.append(_Batch(first, last, batch.lengths, spans, flags.to(model.device)))
    return found


def _fit_words(fitted: SpanFilter, side: int, known: Sequence[_Batch], held_out: Sequence[_Batch]) -> None:
    """Fit the classifier of first words (0), of last words (1), or of words of entities (2)."""
    (vectors, positive), (others, flags) = (
        [torch.cat(column) for column in zip(*(batch.words(side) for batch in batches), strict=True)]
        for batches in (known, held_out)
    )
    weight = _fit(lambda weight: vectors @ weight[0], (1, vectors.shape[1]), positive, _WORD_DECAY)[0]
    cut, kept = _cut(vectors @ weight, positive, (others @ weight)[flags])
    if side < 2 or kept <= _MAX_KEPT:
        fitted.weight[side], fitted.bias[side] = weight, -cut


def _fit_pairs(fitted: SpanFilter, max_width: int | None, known: Sequence[_Batch], held_out: Sequence[_Batch]) -> None:
    """Fit the classifier of pairs to those that the others leave."""
    pairs = sum(batch.flags[0].numel() * batch.flags.shape[2] for batch in known)
    known = known[:: max(1, -(-pairs // _PAIRS))]
    candidates = [fitted.spans(batch.first, batch.last, batch.lengths, max_width) for batch in known]
    positive = torch.cat([_are_among(*pair) for pair in zip(candidates, known, strict=True)])

    def score(weight: Tensor) -> Tensor:
        return torch.cat([_score(weight, *pair) for pair in zip(candidates, known, strict=True)])

    weight = _fit(score, tuple(fitted.pair_weight.shape), positive, _PAIR_DECAY)
    found = torch.cat([_score(weight, batch.entities, batch) for batch in held_out])
    cut, kept = _cut(score(weight), positive, found)
    if kept <= _MAX_KEPT:
        fitted.pair_weight.copy_(weight)
        fitted.pair_bias.fill_(-cut)


def _are_among(spans: Spans, batch: _Batch) -> Tensor:
    """Whether each span is an entity: ``(N,)`` bool."""
    table = torch.zeros(*batch.first.shape[:2], batch.first.shape[1], dtype=torch.bool, device=batch.first.device)
    table[batch.entities.row, batch.entities.start, batch.entities.end - 1] = True
    return table[spans.row, spans.start, spans.end - 1]


def _score(weight: Tensor, spans: Spans, batch: _Batch) -> Tensor:
    return pair_scores(batch.first, batch.last, weight)[spans.row, spans.start, spans.end - 1]


def _cut(scores: Tensor, positive: Tensor, held_out: Tensor) -> tuple[float, float]:
    """The score below which nothing is kept, and the fraction of all that is.

    Scores of held-out entities below their 5 % quantile are taken as exponentially distributed, so that one of them would have
    to lie five times their mean distance from it below the lowest of all to be lost.

    Args:
        scores: of everything that the classifier was fitted to: ``(m,)``.
        positive: whether it belongs to an entity: ``(m,)`` bool.
        held_out: scores of what belongs to held-out entities.
    """
    lowest = held_out.sort().values[: max(10, round(_TAIL * len(held_out))) + 1]
    spread = float((lowest[-1] - lowest[:-1]).mean())
    usual = float(scores.sort().values[round((1 - _MIN_KEPT) * (len(scores) - 1))])
    cut = min(float(scores[positive].min()) - _MARGIN * spread, float(lowest[0]) - _MARGIN * spread, usual)
    return cut, float((scores >= cut).float().mean())


@torch.enable_grad()
def _fit(score: Callable[[Tensor], Tensor], shape: tuple[int, ...], positive: Tensor, decay: float) -> Tensor:
    """Weights of a class-balanced logistic regression."""
    weight, bias = (torch.zeros(size, device=positive.device, requires_grad=True) for size in (shape, (1,)))
    target = positive.float()
    share = (len(target) - target.sum()) / target.sum()
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = nn.functional.binary_cross_entropy_with_logits(score(weight) + bias, target, pos_weight=share)
        value = value + decay * weight.square().sum()
        torch.autograd.backward(value)
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach()
