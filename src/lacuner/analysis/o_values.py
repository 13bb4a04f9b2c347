"""O-values: does a tagger know, early in its training, which words belong to entities that nobody annotated?

Zhang, Zhang, He, Zhang: *A Web Semantic-Based Text Analysis Approach for Enhancing Named Entity Recognition Using
PU-Learning and Negative Sampling*, International Journal on Semantic Web and Information Systems 20 (1), 2024, figures 2, 3
and 6.

The O-value of a word is the element of its decision vector that belongs to the tag ``O``. A tagger is trained on the data as
it is. After each epoch the O-values of hidden entities are compared with those of the other untagged words (figure 2), and
the words with the smallest ones are taken for hidden entities: how many are (figure 3)? The same with the angle-based
decision vector is figure 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch

from lacuner.analysis.hidden import SpanSet
from lacuner.corpus import OUTSIDE, Corpus
from lacuner.errors import ConfigError, TrainingError
from lacuner.methods.method import TokenMethod
from lacuner.models.tag_model import TagModel
from lacuner.supervision.spans import Spans
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import Observer, fit
from lacuner.training.settings import RunSettings

Decision = Literal["plain", "angle"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
"""Decision vectors: as the network gives them, and angle-based."""
FRACTIONS = tuple(0.1 * 2.0**power for power in range(-5, 3))
"""How many of the untagged words are picked: the paper's ``λ`` up to 0.1, and two more."""

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Detection:
    """The untagged words with the smallest O-values, taken for words of hidden entities.

    Attributes:
        fraction: of the untagged words that is picked.
        picked: how many that is.
        precision: fraction of the picked words that belong to hidden entities.
        recall: fraction of the words of hidden entities that are picked.
    """

    fraction: float
    picked: int
    precision: float
    recall: float


@dataclass(frozen=True)
class EpochOValues:
    """One epoch of training.

    Attributes:
        epoch: from 1.
        hidden: mean O-value of untagged words that belong to hidden entities.
        outside: mean O-value of the other untagged words.
        average_precision: of the hidden words, if all untagged words are ranked by their O-values.
        detection: what is found in each fraction of them.
    """

    epoch: int
    hidden: float
    outside: float
    average_precision: float
    detection: tuple[Detection, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        return asdict(self)


@dataclass(frozen=True)
class OValueRun:
    """A training run with one decision vector and one seed.

    Attributes:
        decision: which decision vector.
        seed: of the training.
        words: untagged words.
        hidden: how many of them belong to hidden entities.
        epochs: what was measured after each.
    """

    decision: Decision
    seed: int
    words: int
    hidden: int
    epochs: tuple[EpochOValues, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "OValueRun":
        """As :meth:`as_dict` wrote it."""
        epochs = (
            EpochOValues(**{**epoch, "detection": tuple(Detection(**found) for found in epoch["detection"])})
            for epoch in data["epochs"]
        )
        return cls(**{**data, "epochs": tuple(epochs)})

    @property
    def base_rate(self) -> float:
        """The precision of picking words at random."""
        return self.hidden / self.words

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        return asdict(self)


def words_of(spans: Sequence[SpanSet], sentence: Integers, token: Integers) -> Flags:
    """Which of the words, given by sentence and token index, are in one of the ``spans``: ``(m,), (m,) → (m,)``.

    >>> words_of([frozenset({(1, 3)}), frozenset()], np.array([0, 0, 0, 1]), np.array([0, 1, 2, 1]))
    array([False,  True,  True, False])
    """
    words = [(index, word) for index, found in enumerate(spans) for span in found for word in range(*span)]
    table = np.array(words, dtype=np.int64).reshape(-1, 2)
    stride = 1 + max(table[:, 1].max(initial=0), token.max(initial=0))
    return np.isin(sentence * stride + token, table[:, 0] * stride + table[:, 1])


def detect(values: Floats, hidden: Flags, fractions: Sequence[float] = FRACTIONS) -> tuple[Detection, ...]:
    """How well the words with the smallest ``values`` are the ``hidden`` ones: ``(m,), (m,)``; ``⌈fraction m⌉`` are picked.

    >>> detect(np.array([0.1, 0.9, 0.2, 0.8]), np.array([True, False, False, True]), [0.5])
    (Detection(fraction=0.5, picked=2, precision=0.5, recall=0.5),)
    """
    found = _found(values, hidden)
    picked = np.clip(np.ceil(np.round(np.array(fractions) * len(values), 9)), 1, len(values)).astype(np.int64)
    return tuple(
        Detection(fraction, int(count), float(found[count - 1] / count), float(found[count - 1] / found[-1]))
        for fraction, count in zip(fractions, picked, strict=True)
    )


def average_precision(values: Floats, hidden: Flags) -> float:
    """The mean, over the hidden words, of the precision of picking all words up to this one: ``(m,), (m,)``.

    It is 1 if all of them have smaller values than all others, and about the base rate if values say nothing.

    >>> average_precision(np.array([0.1, 0.9, 0.2, 0.8]), np.array([True, False, False, True]))  # 1/1 and 2/3
    0.8333333333333333
    """
    found = _found(values, hidden)
    precision = found / np.arange(1, len(found) + 1)
    return float(precision[np.diff(found, prepend=0) > 0].mean())


def _found(values: Floats, hidden: Flags) -> Integers:
    """How many hidden words are among the first 1, 2, … in the order of their values: ``(m,)``."""
    found: Integers = hidden[values.argsort(stable=True)].cumsum()
    return found


def with_decision(settings: RunSettings, decision: Decision) -> RunSettings:
    """The same with this decision vector; if it is angle-based, ``O`` has the corner where its values tell most."""
    method = tagger(settings)
    corner = "first" if decision == "angle" else None
    head = method.head.model_copy(update={"angle": decision == "angle", "corner": corner})
    return settings.model_copy(update={"method": method.model_copy(update={"head": head})})


def is_angle_based(method: TokenMethod) -> bool:
    """Whether its decision vectors are."""
    return bool(getattr(method.head, "angle", False))


def tagger(settings: RunSettings) -> TokenMethod:
    """The method, if it trains one tagger whose O-values can be looked at."""
    method = settings.method
    if method.level != "token":
        raise ConfigError(f"{method.name} scores spans, and words have no O-value there: give crf or token")
    if not hasattr(method.head, "angle"):
        raise ConfigError(f"head={method.head.name} gives all words the same O-value: set head=crf, or head=softmax")
    if method.stage is not None:
        raise ConfigError(
            f"{method.name} trains several models, one after the other: give crf or token, or --set stage=none"
        )
    return cast(TokenMethod, method)


class OValueObserver(Observer):
    """Evaluates a model after each epoch, with its weights as they are and not their average; passes on what it is told.

    Args:
        model: what is trained.
        corpus: the training data.
        hidden: the hidden entities of each sentence.
        forward_to: another observer, such as one that shows progress.

    Attributes:
        epochs: what was measured, one entry an epoch.
        is_hidden: which untagged words belong to hidden entities, ``(m,)``.
    """

    def __init__(
        self, model: TagModel, corpus: Corpus, hidden: Sequence[SpanSet], forward_to: Observer | None = None
    ) -> None:
        self.epochs: list[EpochOValues] = []
        self._model = model
        self._corpus = corpus
        self._next = forward_to or Observer()
        sentence, token, _ = self._o_values()
        self.is_hidden = words_of(hidden, sentence, token)

    def stage_started(self, title: str) -> None:
        self._next.stage_started(title)

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        self._next.epoch_started(epoch, epochs, words)

    def negatives_drawn(self, sentences: Sequence[int], spans: Spans) -> None:
        self._next.negatives_drawn(sentences, spans)

    def batch_done(self, words: int) -> None:
        self._next.batch_done(words)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        *_, values = self._o_values()
        self.epochs.append(
            EpochOValues(
                epoch=record["epoch"],
                hidden=float(values[self.is_hidden].mean()),
                outside=float(values[~self.is_hidden].mean()),
                average_precision=average_precision(values, self.is_hidden),
                detection=detect(values, self.is_hidden),
            )
        )
        self._next.epoch_ended(record)

    def _o_values(self) -> tuple[Integers, Integers, Floats]:
        """Sentence, token index and O-value of every untagged word."""
        found = self._model.o_values(self._corpus)
        return found["sentence"].numpy(), found["token"].numpy(), found["value"].double().numpy()


def measure_o_values(
    train: Corpus, hidden: Sequence[SpanSet], settings: RunSettings, observer: Observer | None = None
) -> OValueRun:
    """Train a tagger, and look at the O-values of all untagged words after every epoch.

    Args:
        train: sentences with gaps.
        hidden: the entities that each of them lacks.
        settings: method, encoder, and how they are trained.
        observer: told about progress.
    """
    method = tagger(settings)
    filled = [index for index, sentence in enumerate(train) if sentence.tokens]
    corpus = Corpus(tuple(train[index] for index in filled), train.report)
    if not any(sentence.entities for sentence in corpus):
        raise TrainingError("no entity is annotated in the training data — annotate some, or check the tag column")
    settings = settings.for_data(corpus)
    seed = settings.training.seed
    with torch.random.fork_rng():  # the caller's randomness stays what it was
        torch.manual_seed(seed)
        encoder = settings.encoder.create(corpus.tokens)
        model = cast(TagModel, method.build_model(encoder, (OUTSIDE, *corpus.labels)))
        watching = OValueObserver(model, corpus, [hidden[index] for index in filled], observer)
        words, count = len(watching.is_hidden), int(watching.is_hidden.sum())
        if not 0 < count < words:
            raise TrainingError(
                f"{count} of {words} untagged words belong to hidden entities, so there is nothing to tell apart — "
                "give data with gaps, and the labels that they lack"
            )
        watching.stage_started("")
        sampler = EpochSampler(corpus, seed, settings.trusted.fraction)
        fit(model, method, sampler, settings.training, observer=watching)
    decision: Decision = "angle" if is_angle_based(method) else "plain"
    return OValueRun(decision, seed, words, count, tuple(watching.epochs))


def mean_of_runs(runs: Sequence[OValueRun]) -> list[EpochOValues]:
    """Epoch by epoch, the means over training runs with different seeds."""
    return [
        EpochOValues(
            epoch=same[0].epoch,
            hidden=mean(epoch.hidden for epoch in same),
            outside=mean(epoch.outside for epoch in same),
            average_precision=mean(epoch.average_precision for epoch in same),
            detection=tuple(
                Detection(
                    fraction=picked[0].fraction,
                    picked=picked[0].picked,
                    precision=mean(detection.precision for detection in picked),
                    recall=mean(detection.recall for detection in picked),
                )
                for picked in zip(*(epoch.detection for epoch in same), strict=True)
            ),
        )
        for same in zip(*(run.epochs for run in runs), strict=True)
    ]
