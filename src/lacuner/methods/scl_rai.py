"""SCL-RAI: span-based contrastive learning, and inference augmented by retrieval from label prototypes.

Si et al.: *SCL-RAI: Span-based Contrastive Learning with Retrieval Augmented Inference for Unlabeled Entity Problem in NER*,
COLING 2022.
"""

from collections.abc import Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from lacuner.errors import ConfigError
from lacuner.heads import ProductConfig, SpanScores
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import Method, SpanMethod
from lacuner.methods.parts import Contrast, Inference, State, StateSizes, Step, TrainingData
from lacuner.methods.uniform import Uniform

_MAX_PAIRS = 2**20
"""Maximum number of span pairs compared at once."""


class SpanContrast(Contrast):
    """``span-contrast``: pulls spans with the same label together and pushes spans with different labels apart (§2.2)."""

    name: Literal["span-contrast"] = "span-contrast"
    temperature: float = Field(0.1, gt=0, description="τ: temperature by which cosine similarities are divided")
    contrast_non_entities: bool = Field(True, description="treat O as one of the labels")
    denominator: Literal["all", "others"] = Field(
        "all",
        description="spans in the denominator: all but the anchor (all, as released), or those with other "
        "labels (others, as printed)",
    )

    def check(self, method: Method, data: TrainingData) -> None:
        labels = data.corpus.labels
        if not self.contrast_non_entities and len(labels) == 1:
            raise ConfigError(
                f"contrast.contrast_non_entities=false compares labels of entities, but there is only {labels[0]} — "
                "leave it out, or set contrast=none"
            )

    def __call__(self, hidden: Tensor, label: Tensor, step: Step, state: State) -> Tensor:
        if not self.contrast_non_entities:
            hidden, label = hidden[label != 0], label[label != 0]
        return contrastive_loss(normalize(hidden, dim=-1), label, self.temperature, self.denominator == "others")


def contrastive_loss(unit: Tensor, label: Tensor, temperature: float, only_others: bool = False) -> Tensor:
    """Mean over anchors ``a`` of ``-1/(N_l - 1) Σ_b log(exp(d_ab / τ) / Σ_m exp(d_am / τ))``: ``(N, h), (N,) → ()``.

    ``b`` runs over the other spans of ``a``'s label ``l``, ``m`` over all other spans or, with ``only_others``, over those
    of other labels. The latter is the printed formula; it is unbounded below, because nothing in its denominator grows as
    clusters become tighter. Anchors without another span of their label are skipped, as are batches with a single label. The
    sum over ``b`` is a dot product with the sum of all spans of the label.
    """
    if not len(unit):
        return unit.sum()
    labels = int(label.max()) + 1
    counts = torch.bincount(label, minlength=labels)  # (L,)
    sums = unit.new_zeros(labels, unit.shape[1]).index_add(0, label, unit)  # (L, h)
    mates = counts[label] - 1  # (N,)
    # Subtract d_aa = 1 (0 for a zero vector) from the sum over the whole label.
    together = ((unit * sums[label]).sum(-1) - unit.square().sum(-1)) / temperature / mates.clamp(min=1)
    counted = (mates > 0) & (mates + 1 < len(label))
    anchors = counted.nonzero().squeeze(-1)
    if not len(anchors):
        return 0.0 * unit.sum()
    parts = torch.split(anchors, max(1, _MAX_PAIRS // len(unit)))
    if len(parts) == 1:
        apart = _denominators(unit, label, anchors, temperature, only_others)
    else:  # the pairwise matrix is computed in chunks, and recomputed for the backward pass
        apart = torch.cat(
            [
                checkpoint(_denominators, unit, label, part, temperature, only_others, use_reentrant=False)
                for part in parts
            ]
        )
    return (apart - together[anchors]).mean()


def _denominators(unit: Tensor, label: Tensor, anchors: Tensor, temperature: float, only_others: bool) -> Tensor:
    """``log Σ_m exp(d_am / τ)`` of the anchors: ``(A,)``."""
    cosines = unit[anchors] @ unit.T / temperature  # (A, N)
    if only_others:
        left_out = label[anchors][:, None] == label
    else:
        left_out = anchors[:, None] == torch.arange(len(unit), device=unit.device)
    return cosines.masked_fill(left_out, float("-inf")).logsumexp(-1)


class Prototypes(Inference):
    """``prototypes``: mixes the classifier's probabilities with the similarity to the mean span of each label (§2.3).

    A span that the classifier hesitates about, but that lies where the entities of a label lie, becomes an entity.
    """

    name: Literal["prototypes"] = "prototypes"
    alpha: float = Field(
        0.5, ge=0, lt=1, description="α: weight of the prototype similarities; 1 would make every span an entity"
    )

    def initial_state(self, sizes: StateSizes) -> dict[str, Tensor]:
        return {
            "prototypes": torch.zeros(sizes.labels, sizes.hidden),
            "seen": torch.zeros(sizes.labels, dtype=torch.bool),
        }

    def fit(self, spans: Iterable[tuple[Tensor, Tensor]], state: State) -> None:
        total = torch.zeros(state["prototypes"].shape, dtype=torch.double)  # on the CPU: not all devices have doubles
        counts = torch.zeros(len(total), dtype=torch.double)
        for hidden, label in spans:
            total.index_add_(0, label.cpu(), hidden.cpu().double())
            counts += torch.bincount(label.cpu(), minlength=len(counts))
        state["prototypes"].copy_((total / counts.clamp(min=1)[:, None]).float())
        state["seen"].copy_(counts > 0)

    def probabilities(self, scores: SpanScores, state: State) -> Tensor:
        if not state["seen"].any():  # none during training
            return scores.logits.softmax(-1)
        assert scores.hidden is not None
        cosines = normalize(scores.hidden, dim=-1) @ normalize(state["prototypes"], dim=-1).T  # (N, L)
        retrieved = cosines.masked_fill(~state["seen"], float("-inf")).softmax(-1)
        retrieved = torch.cat([torch.zeros_like(retrieved[:, :1]), retrieved[:, 1:]], dim=-1)  # not renormalized
        return (1 - self.alpha) * scores.logits.softmax(-1) + self.alpha * retrieved


PARTS = (SpanContrast, Prototypes)
METHODS = (
    SpanMethod(
        name="scl-rai",
        paper="Si et al. 2022, SCL-RAI: Span-based Contrastive Learning with Retrieval Augmented Inference (COLING)",
        summary="Training pulls spans with the same label together; inference also uses the similarity to "
        "each label's prototype.",
        head=ProductConfig(),
        negatives=Uniform(),
        loss=CrossEntropy(reduction="mean"),  # the reduction of the contrastive loss, which is added to it
        contrast=SpanContrast(),
        inference=Prototypes(),
    ),
)
