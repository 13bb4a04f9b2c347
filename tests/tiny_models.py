"""Models that are made in a moment, and batches for them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lacuner.corpus import Sentence
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.features.vocabulary import Vocabulary
from lacuner.methods.method import Method
from lacuner.methods.parts import Step
from lacuner.models.model import EncodedBatch, Model
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision

WORDS = ("Ada", "moved", "to", "Turin", ",", "Piedmont")


def tiny_model(method: Method, labels: Sequence[str], words: Sequence[str] = WORDS) -> Any:
    """A model of the method, without dropout in its encoder; always the same."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        word_size=5, character_size=4, character_filters=3, hidden=4, dropout=0.0, unknown_share=0.0
    )
    return method.build_model(RecurrentEncoder.create(config, Vocabulary.build([words]), None), labels)


def encoded(model: Model, sentences: Sequence[Sentence]) -> EncodedBatch:
    return model.encode([sentence.tokens for sentence in sentences])


def batch_loss(
    method: Method,
    model: Model,
    sentences: Sequence[Sentence],
    known: Sequence[TokenSupervision | None] | None = None,
    watch: Callable[[Spans], None] | None = None,
    seed: int = 0,
    indices: Sequence[int] = (),
) -> Tensor:
    """The training loss of a batch in the second of three epochs."""
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    step = Step(1, 3, torch.Generator().manual_seed(seed), indices, watch)
    return method.training_loss(model, inputs, model.targets(sentences, known), step)


def places(spans: Spans) -> list[tuple[int, int, int]]:
    """Row, start and end of each span."""
    return list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))
