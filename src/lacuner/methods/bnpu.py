"""Bounded non-negative positive-unlabeled learning.

Peng, Xing, Zhang, Fu, Huang: *Distantly Supervised Named Entity Recognition using Positive-Unlabeled Learning*, ACL 2019.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from lacuner.corpus import Sentence
from lacuner.errors import ConfigError
from lacuner.heads import TagHead, TagHeadConfig
from lacuner.heads.softmax import SoftmaxHead
from lacuner.methods.eer import fully_annotated
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.parts import State, Step, TokenLoss, TrainingData
from lacuner.supervision.tags import TagScheme, TagSet, TagTargets

Fraction = Annotated[float, Field(ge=0, le=1)]


class OneVsRestConfig(TagHeadConfig):
    """``one-vs-rest``: one binary classifier per type; the most probable type wins.

    The logit of ``O`` is 0, so that the others are those of independent binary decisions. A softmax over all of them is their
    joint probability, given that no word has two types.
    """

    scores_outside: ClassVar = False
    name: Literal["one-vs-rest"] = "one-vs-rest"
    scheme: TagScheme = Field(
        "io", description="tagging scheme: bioes, bio2 or io; with io, adjacent entities with the same label are merged"
    )

    def build(self, size: int, tags: TagSet) -> SoftmaxHead:
        types = torch.eye(len(tags))[:, 1:]  # O is at the origin, every other tag has its own axis
        return SoftmaxHead(size, tags, types)


class Words(NamedTuple):
    """Known membership of words in each of ``K`` types: ``(B, n, K)`` bool each."""

    positive: Tensor
    unknown: Tensor
    negative: Tensor


class BoundedNonNegative(TokenLoss):
    """``bnpu``: bounded non-negative PU risk with the mean absolute error, one risk per type."""

    levels: ClassVar = ("token",)
    teaches_outside: ClassVar = True
    name: Literal["bnpu"] = "bnpu"
    weight: float | None = Field(
        None,
        gt=0,
        description="m: weight of annotated words; none: 1/π, so that they count as much as all other words together",
    )
    prior: dict[str, Fraction] | None = Field(
        None,
        description="π: fraction of words in entities of each type; none: estimated from complete sentences "
        "or dev data",
    )
    unknown_prior: dict[str, Fraction] | None = Field(
        None, description="the same fractions among unannotated words; none: derived from prior"
    )
    coverage: float = Field(
        0.5,
        gt=0,
        le=1,
        description="assumed fraction of entity words that are annotated, used if the prior cannot be "
        "estimated otherwise",
    )

    def check(self, method: Method, data: TrainingData) -> None:
        refuse_what_risks_cannot_teach(self, method)
        for name in ("prior", "unknown_prior"):
            refuse_missing_labels(name, getattr(self, name), data)

    def for_data(self, data: TrainingData) -> "BoundedNonNegative":
        labels = data.corpus.labels
        annotated = annotated_fractions(data)
        prior = type_priors(data, self.prior, self.coverage)
        left = 1 - min(1.0, sum(annotated.values()))
        unknown = {label: (prior[label] - annotated[label]) / left if left else 0.0 for label in labels}
        unknown = self.unknown_prior or {label: min(1.0, fraction) for label, fraction in unknown.items()}
        return self.model_copy(update={"prior": prior, "unknown_prior": unknown})

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        assert self.prior is not None, "for_data fills it in"
        assert self.unknown_prior is not None
        labels = head.tags.labels[1:]
        prior = decisions.new_tensor([self.prior[label] for label in labels])  # (K,)
        unknown_prior = decisions.new_tensor([self.unknown_prior[label] for label in labels])
        probability = (decisions[..., 1:] - decisions[..., :1]).sigmoid()  # (B, n, K)
        words = words_of_types(log_weights > float("-inf"), targets)
        weight = torch.ones_like(prior) if self.weight is None else self.weight * prior
        return bounded_risk(probability, words, weight, unknown_prior).sum()


def refuse_what_risks_cannot_teach(loss: TokenLoss, method: Method) -> None:
    """Reject parts that are incompatible with a risk that is a mean over the words of each type."""
    scheme = getattr(method.head, "scheme", None)
    if scheme != "io":
        raise ConfigError(
            f"loss={loss.name} classifies whole types, but head.scheme={scheme} splits them — set head.scheme=io"
        )
    if method.head.name == "crf":
        raise ConfigError(f"loss={loss.name} does not train transitions — set head=one-vs-rest, or head=softmax")
    if any(getattr(part, "non_entity_class", False) for _, part in method.parts()):
        raise ConfigError(
            f"loss={loss.name} has no label for sampled non-entities — set sampling.label=O, or sampling=none"
        )
    if any(stage.gives_tag_weights for stage in method.stages()):
        raise ConfigError(f"loss={loss.name} does not weigh tags — leave out the stage that does, with stage=none")


def refuse_missing_labels(name: str, given: Mapping[str, float] | None, data: TrainingData) -> None:
    """Reject a setting of the loss that covers only some labels."""
    missing = [] if given is None else sorted(set(data.corpus.labels) - set(given))
    if missing:
        raise ConfigError(f"loss.{name} says nothing about {', '.join(missing)} — give all labels, or none")


def words_of_types(allowed: Tensor, targets: TagTargets) -> Words:
    """Group words by type, given the tags ``(B, n, K + 1)`` that they may have.

    A word that is certainly an entity, but of one of several possible types, is in none of the three sets of these types.
    """
    taught = targets.taught[..., None]
    outside, types = allowed[..., :1], allowed[..., 1:]
    certain = allowed.sum(-1, keepdim=True) == 1
    return Words(types & certain & taught, types & outside & taught, ~types & taught)


def bounded_risk(probability: Tensor, words: Words, positive_weight: Tensor, unknown_prior: Tensor) -> Tensor:
    """Bounded non-negative PU risk of each type, with the mean absolute error: ``(K,)``.

    The loss is ``1 - p`` for a word of the type, ``p`` for one of another class. The risk of unknown negatives is that of all
    unknown words minus that of the unknown positives, estimated from annotated words. It cannot be negative; where it is, the
    model overfits, and the step goes in the opposite direction.

    Args:
        probability: ``(B, n, K)``.
        words: their known membership.
        positive_weight: ``(K,)`` weight of annotated words, ``m π``.
        unknown_prior: ``(K,)`` fraction of unknown words that belong to the type.
    """
    positives, unknown, negatives = (mask.sum((0, 1)) for mask in words)  # (K,) each
    found = mean_by_type(probability, words.positive)
    # If the batch has no annotated word of a type, it counts as learned, as in the released code.
    like_annotated = torch.where(positives > 0, found, torch.ones_like(found))
    error = positive_weight * torch.where(positives > 0, 1 - found, torch.zeros_like(found))
    unknown_risk = mean_by_type(probability, words.unknown) - unknown_prior * like_annotated
    unknown_risk = torch.where(unknown > 0, unknown_risk, torch.zeros_like(unknown_risk))
    share = unknown / (unknown + negatives).clamp(min=1)
    learned = torch.where(unknown_risk < 0, -share * unknown_risk, error + share * unknown_risk)
    return learned + (1 - share) * mean_by_type(probability, words.negative)


def mean_by_type(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the words of each type, ``(B, n, K) → (K,)``; 0 where there is none."""
    return (values * mask).sum((0, 1)) / mask.sum((0, 1)).clamp(min=1)


def type_priors(data: TrainingData, given: Mapping[str, float] | None, coverage: float) -> dict[str, float]:
    """Fraction of words in entities of each type, at least that of annotated words.

    Taken from the setting; or estimated on complete sentences, or on dev data if it has no gaps; or else the annotated
    fraction divided by ``coverage``, the fraction of entity words that are annotated. A type that only a few complete
    sentences contain gets a nonzero prior, so that it can be learned.
    """
    annotated = annotated_fractions(data)
    if not given:
        known = fully_annotated(data.corpus)
        if not known and data.dev is not None and not data.dev_incomplete:
            known = fully_annotated(data.dev, all_complete=True)
        given = type_fractions(known, data.corpus.labels) if known else None
    if given is None:
        given = {label: min(1.0, fraction / coverage) for label, fraction in annotated.items()}
    everywhere = type_fractions(data.corpus, data.corpus.labels)
    return {label: max(given[label], annotated[label]) or everywhere[label] for label in data.corpus.labels}


def annotated_fractions(data: TrainingData) -> dict[str, float]:
    """Fraction of words annotated with each label, in incomplete sentences."""
    return type_fractions((sentence for sentence in data.corpus if not sentence.complete), data.corpus.labels)


def type_fractions(sentences: Iterable[Sentence], labels: Sequence[str]) -> dict[str, float]:
    """Fraction of words annotated with each label."""
    counts, words = dict.fromkeys(labels, 0), 0
    for sentence in sentences:
        words += len(sentence)
        inside = {(entity.label, word) for entity in sentence.entities for word in range(entity.start, entity.end)}
        for label, _ in inside:
            if label in counts:
                counts[label] += 1
    return {label: count / max(1, words) for label, count in counts.items()}


PARTS = (OneVsRestConfig, BoundedNonNegative)
METHODS = (
    TokenMethod(
        name="bnpu",
        paper="Peng et al. 2019, Distantly Supervised NER using Positive-Unlabeled Learning (ACL)",
        summary="A binary PU classifier per type: untagged words are a mixture of entity words, in the "
        "expected fraction, and others.",
        head=OneVsRestConfig(),
        unlabeled=Marginalize(),
        loss=BoundedNonNegative(),
    ),
)
