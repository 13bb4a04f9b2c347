"""F1, size and speed of a model before and after export."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from lacuner.corpus import Corpus, Entity
from lacuner.evaluation.scores import score_entities
from lacuner.inference.backends import BackendName, exported_encoder
from lacuner.inference.predict import find_entities
from lacuner.models.model import Model

MAX_LOSS = 0.2
"""Maximum loss of an export in points of F1."""
_ROUNDS = 3
_TIMED_WORDS = 4_000
"""Words of the evaluation data that both models process alternately."""


@dataclass(frozen=True)
class Measured:
    """Quality and cost of a model."""

    f1: float
    bytes: int
    words_per_second: float


@dataclass(frozen=True)
class ExportReport:
    """A model before and after export."""

    backend: BackendName
    before: Measured
    after: Measured

    @property
    def loss(self) -> float:
        """Loss in points of F1."""
        return 100 * (self.before.f1 - self.after.f1)

    @property
    def speedup(self) -> float:
        return self.after.words_per_second / self.before.words_per_second

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"speedup": round(self.speedup, 3)}

    def __str__(self) -> str:
        one, other = self.before, self.after
        return (
            f"{self.backend}: F1 {100 * one.f1:.2f} → {100 * other.f1:.2f}, "
            f"{one.bytes / 1e6:,.1f} → {other.bytes / 1e6:,.1f} MB, "
            f"{one.words_per_second:,.0f} → {other.words_per_second:,.0f} words per second ({self.speedup:.2f} ×)"
        )


def compare_models(before: Model, after: Model, corpus: Corpus, backend: BackendName, nested: bool) -> ExportReport:
    """Measure both models on annotated sentences; timings alternate, so that other load affects both alike."""
    some: list[Sequence[str]] = []
    for tokens in corpus.tokens:
        if sum(map(len, some)) < _TIMED_WORDS:
            some.append(tokens)
    seconds: list[list[float]] = [[], []]
    for turn in range(_ROUNDS + 1):
        for model, times in list(zip((before, after), seconds, strict=True))[:: 1 if turn % 2 else -1]:
            clear = getattr(model.encoder.index, "clear_cache", None)
            if clear is not None:
                clear()
            began = time.perf_counter()
            find_entities(model, some, nested)
            if turn:  # the first one is a warm-up
                times.append(time.perf_counter() - began)
    words = sum(map(len, some))
    measured = [
        Measured(_f1(model, corpus, nested), _bytes(model), words / median(times))
        for model, times in zip((before, after), seconds, strict=True)
    ]
    return ExportReport(backend, *measured)


def _f1(model: Model, corpus: Corpus, nested: bool) -> float:
    found: list[list[Entity]] = find_entities(model, corpus.tokens, nested)
    return score_entities(zip(corpus, found, strict=True)).f1


def _bytes(model: Model) -> int:
    exported = exported_encoder(model)
    size: int = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    return size if exported is None else size + len(exported.content)
