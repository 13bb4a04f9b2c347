"""What a trained model says of the spans of annotated sentences."""

from collections.abc import Sequence

import numpy as np
import torch

from lacuner.corpus import Corpus
from lacuner.models.model import Model, batches_of, evaluating
from lacuner.supervision.posterior import SpanProbabilities


def predict_proba(
    model: Model, corpus: Corpus, indices: Sequence[int], min_probability: float, use_threshold: bool = True
) -> SpanProbabilities:
    """Label probabilities of the annotated spans of sentences, and of all others that are worth a look.

    Spans that somebody has rejected are left out: about them nothing is to be asked.

    Args:
        model: the one to ask.
        corpus: all sentences.
        indices: of those to look at.
        min_probability: spans that are not annotated, and less probably an entity, are left out.
        use_threshold: shift probabilities by the model's threshold. A model that was trained on all negatives has seen how
            rare entities are, and needs no shift; the threshold that is best for F1 would find too many.
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
