"""Uncertainty: do negatives teach more that a model is unsure of?

Li, Liu, Shi: *Rethinking Negative Sampling for Handling Missing Entity Annotations*, ACL 2022, §3.2.

The training data is split in two. An oracle, trained on one half with uniform sampling, judges the spans of the other half:
their uncertainty is the entropy of its label distribution. Then three models are trained on the other half, whose negatives
are the ``⌈λ n⌉`` most, middle or least uncertain spans of each sentence. Hidden entities are never among them, so that the
three differ in uncertainty only. The paper: 88.82 / 87.72 / 85.56 F1.

How the negatives get there: a span that is known not to be an entity is always trained on. So the chosen spans become
``non_entities`` of their sentences, everything else stays unknown, and of the unknown nothing is drawn (:class:`NoNegatives`).
A :class:`Negatives` part could not choose them itself: it does not know which sentences of the corpus are in a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from lacuner.analysis.hidden import SpanSet, span_method
from lacuner.corpus import Corpus, Span
from lacuner.errors import ConfigError, TrainingError
from lacuner.methods.parts import Negatives, SamplingContext
from lacuner.methods.uniform import Uniform
from lacuner.models.model import batches_of
from lacuner.models.span_model import SpanModel
from lacuner.recognizer import Recognizer
from lacuner.supervision.spans import Spans, build_targets
from lacuner.training.loop import Observer
from lacuner.training.settings import RunSettings

Band = Literal["top", "middle", "bottom"]
BANDS: tuple[Band, ...] = get_args(Band)


class NoNegatives(Negatives):
    """``none``: nothing is drawn; only what is known is trained on. Private to this experiment, hence not in the registry."""

    name: Literal["none"] = "none"

    def sample(self, context: SamplingContext) -> Tensor:
        return torch.empty(0, dtype=torch.long, device=context.unknown.row.device)


@dataclass(frozen=True)
class BandResult:
    """A model that was trained with the negatives of one band.

    Attributes:
        uncertainty: mean entropy of its negatives under the oracle, in nats.
        negatives: how many there are.
        dev_f1: of the best epoch.
        test_f1: of the same model, if there is test data.
    """

    uncertainty: float
    negatives: int
    dev_f1: float
    test_f1: float | None = None


@dataclass(frozen=True)
class UncertaintyRun:
    """The experiment with one seed, which decides the split and training; ``ratio`` is ``λ``."""

    seed: int
    ratio: float
    oracle_dev_f1: float
    bands: dict[Band, BandResult]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def entropy(probabilities: Tensor) -> Tensor:
    """``-Σ p log p`` of every span, in nats: ``(N, L) → (N,)``."""
    return torch.special.entr(probabilities).sum(-1)  # type: ignore[no-any-return]


def choose_band(uncertainty: Tensor, row: Tensor, counts: Tensor, band: Band) -> Tensor:
    """Indices of the ``counts[r]`` most, middle or least uncertain spans of each row ``r``: ``(N,), (N,), (B,)``.

    ``row`` ascends. Where a row has fewer spans, it gives all of them. The middle is that of the spans in order.
    """
    order = uncertainty.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]  # by row, and by falling uncertainty within a row
    sizes = torch.bincount(row, minlength=len(counts))
    rank = torch.arange(len(row), device=row.device) - (sizes.cumsum(0) - sizes)[row[order]]
    taken = torch.minimum(counts, sizes)
    spare = sizes - taken
    begin = {"top": torch.zeros_like(spare), "middle": spare // 2, "bottom": spare}[band]
    offset = rank - begin[row[order]]
    return order[(offset >= 0) & (offset < taken[row[order]])]


def split_in_halves(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Two random halves of ``range(count)``, each in order; with an odd number the second is the larger one."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    return sorted(order[: count // 2]), sorted(order[count // 2 :])


def with_uncertain_negatives(
    corpus: Corpus, hidden: Sequence[SpanSet], oracle: Recognizer, sampling: Uniform
) -> dict[Band, tuple[Corpus, float]]:
    """The corpus with the ``⌈λ n⌉`` most, middle and least uncertain spans of each sentence as ``non_entities``.

    Args:
        corpus: sentences with words.
        hidden: entities that are never chosen, of each sentence.
        oracle: says how uncertain a span is.
        sampling: says how many spans of a sentence become negatives.

    Returns:
        For each band the sentences, with nothing but these negatives, and the mean entropy of the negatives.
    """
    chosen: dict[Band, list[tuple[Span, ...]]] = {band: [()] * len(corpus) for band in BANDS}
    entropies: dict[Band, list[Tensor]] = {band: [] for band in BANDS}
    model = cast(SpanModel, oracle.model)
    for batch, tokens in batches_of(model, corpus.tokens, range(len(corpus))):
        spans = _candidates(corpus, hidden, batch, model.max_span_width)
        with torch.no_grad():
            scores = model.scorer(model.encode(tokens))(spans.to(oracle.device))
            uncertainty = entropy(model.probabilities(scores)).cpu()
        counts = sampling.counts(torch.tensor([len(corpus[number]) for number in batch]))
        for band in BANDS:
            kept = choose_band(uncertainty, spans.row, counts, band)
            entropies[band].append(uncertainty[kept])
            rows: list[list[Span]] = [[] for _ in batch]
            picked = spans[kept]
            for row, start, end in zip(picked.row.tolist(), picked.start.tolist(), picked.end.tolist(), strict=True):
                rows[row].append(Span(start, end))
            for number, found in zip(batch, rows, strict=True):
                chosen[band][number] = tuple(found)
    return {
        band: (
            Corpus(
                tuple(
                    replace(sentence, non_entities=spans, complete=False)
                    for sentence, spans in zip(corpus, chosen[band], strict=True)
                )
            ),
            float(torch.cat(entropies[band]).double().mean()) if any(map(len, entropies[band])) else 0.0,
        )
        for band in BANDS
    }


def _candidates(corpus: Corpus, hidden: Sequence[SpanSet], batch: Sequence[int], max_width: int | None) -> Spans:
    """The spans of a batch that are neither annotated nor hidden."""
    ruled_out = [
        replace(corpus[number], non_entities=tuple(Span(*span) for span in hidden[number]), complete=False)
        for number in batch
    ]
    return build_targets(ruled_out, ("O", *corpus.labels)).partition(max_width).unknown


def measure_uncertainty(
    train: Corpus,
    hidden: Sequence[SpanSet],
    dev: Corpus,
    settings: RunSettings,
    seed: int,
    test: Corpus | None = None,
    observer: Callable[[str], Observer | None] = lambda name: None,
) -> UncertaintyRun:
    """The experiment with one seed.

    Args:
        train: sentences with gaps.
        hidden: the entities that each of them lacks.
        dev: chooses the best epoch of each of the four models.
        settings: of all of them; negatives are drawn uniformly.
        seed: of the split and of training.
        test: to score the three models on.
        observer: makes an observer for the training of ``oracle``, ``top``, ``middle`` and ``bottom``.
    """
    method = span_method(settings, "the experiment")
    sampling = cast(Uniform, method.negatives)
    if sampling.name not in ("uniform", "weighted"):
        raise ConfigError(
            f"negatives={sampling.name}: the experiment takes ⌈λ n⌉ negatives of a sentence; choose uniform or weighted"
        )
    filled = [index for index, sentence in enumerate(train) if sentence.tokens]
    if len(filled) < 2:
        raise TrainingError("one sentence cannot be split in two — give more training data")
    halves = [[filled[index] for index in half] for half in split_in_halves(len(filled), seed)]
    settings = settings.model_copy(update={"training": settings.training.model_copy(update={"seed": seed})})
    first, second = (Corpus(tuple(train[index] for index in half), train.report) for half in halves)
    oracle = Recognizer.train(first, dev, settings=settings, observer=observer("oracle"))
    variants = with_uncertain_negatives(second, [hidden[index] for index in halves[1]], oracle, sampling)
    method = method.model_copy(update={"negatives": NoNegatives()})
    settings = settings.model_copy(update={"method": method})
    results: dict[Band, BandResult] = {}
    for band, (corpus, uncertainty) in variants.items():
        model = Recognizer.train(corpus, dev, settings=settings, observer=observer(band))
        results[band] = BandResult(
            uncertainty=uncertainty,
            negatives=sum(len(sentence.non_entities) for sentence in corpus),
            dev_f1=_dev_f1(model),
            test_f1=None if test is None else model.evaluate(test).f1,
        )
    return UncertaintyRun(seed, sampling.ratio, _dev_f1(oracle), results)


def _dev_f1(model: Recognizer) -> float:
    assert model.record.dev is not None
    return float(model.record.dev["f1"])
