"""Predictions of a trained model for the spans of annotated sentences."""

from collections.abc import Sequence

import numpy as np
import torch

from lacuner.corpus import Corpus
from lacuner.models.model import Model, batches_of, evaluating
from lacuner.supervision.posterior import SpanProbabilities


def predict_proba(
    model: Model, corpus: Corpus, indices: Sequence[int], min_probability: float, use_threshold: bool = True
) -> SpanProbabilities:
    """Label probabilities of annotated spans, and of all others above a minimum probability.

    Spans rejected by a reviewer are omitted, since they need no prediction.

    Args:
        model: a trained model.
        corpus: all sentences.
        indices: the sentences to predict.
        min_probability: minimum entity probability of unannotated spans.
        use_threshold: shift probabilities by the model's threshold. A model trained on all negatives already knows how rare
            entities are; the threshold that maximizes F1 would find too many.
    """
    columns = []
    with evaluating(model):
        for chosen, tokens in batches_of(model, corpus.tokens, indices):
            sentences = [corpus[index] for index in chosen]
            spans, probable = model.span_probabilities(model.encode(tokens), sentences, min_probability, use_threshold)
            columns.append((torch.tensor(chosen)[spans.row.cpu()], spans.start.cpu(), spans.end.cpu(), probable.cpu()))
    if not columns:
        return SpanProbabilities.empty(len(model.labels))
    sentence, start, end, probabilities = (torch.cat(column).numpy() for column in zip(*columns, strict=True))
    keys, first = np.unique(np.stack([sentence, start, end], axis=1), axis=0, return_index=True)
    rejected = {(index, span.start, span.end) for index in indices for span in corpus[index].non_entities}
    if rejected:
        kept = np.array([tuple(key) not in rejected for key in keys.tolist()], dtype=bool)
        keys, first = keys[kept], first[kept]
    return SpanProbabilities(keys[:, 0], keys[:, 1], keys[:, 2], probabilities[first])
