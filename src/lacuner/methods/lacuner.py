"""Our own method: the combination that proved useful on dev data, plus a teacher where trusted data is available.

Neither is from a paper. See docs/methods/lacuner.md for the experiments.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.corpus import Corpus, Sentence
from lacuner.corpus.voting import agreed_entities, undecided_spans
from lacuner.heads import WidthConfig
from lacuner.methods.crf import CRF
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import Method, SpanMethod, count_overlapping
from lacuner.methods.parts import TrainingData
from lacuner.methods.stages import Rival, Stage, StageContext, StageResult
from lacuner.methods.uniform import Uniform
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.supervision.channel import channel_posterior
from lacuner.supervision.posterior import FloatArray, SpanProbabilities, annotated_labels, concatenate, mean
from lacuner.supervision.tags import TokenSupervision

logger = logging.getLogger(__name__)

_NOTICED = 0.4
"""Factor on the minimum probability for single models of an ensemble, since the mean may be higher."""
_MAX_OVERLAPPING = 0.02
"""With a greater fraction of overlapping entities, no tagger is used, since it would learn some of them as non-entities."""
_MIN_AGREED, _MIN_AGREEMENT = 50, 0.05
"""Minimum number of entities of a label with a majority, and minimum fraction of all its entities, to compare sources on it.

Otherwise, one of them may never have annotated the label, or these sentences, and its missing labels mean nothing.
"""


class Distillation(Stage):
    """``distillation``: several models are trained on all data, and the final model learns their average predictions.

    What one of them has learned by heart, the others have not; a mean of two or three is better than any of them, and one
    model that has learned it costs no more to use. A tagger (``crf``) is among them, since it makes other mistakes than a
    model of spans; if it is the better one, the model itself becomes a tagger. If the model is no better on the dev data than
    the best of them, that one is kept.

    Where several sources have labeled the same text, the first models learn nothing from spans on which no majority agrees,
    so that what they say of them is an opinion of their own; how far each source is to be believed follows from comparing the
    two.

    Needs dev data: without a threshold from it,
    models that were trained on few negatives find too many entities. Leaves the work to ``teacher`` where that has enough
    trusted sentences.
    """

    name: Literal["distillation"] = "distillation"
    models: int = Field(2, ge=2, description="number of models in the ensemble that is trained first")
    tagger: bool = Field(
        True, description="make the last of them a tagger (crf), unless many annotated entities overlap"
    )
    student: Literal["auto", "tagger", "spans"] = Field(
        "auto", description="type of the final model; auto: the type of the best ensemble model on the dev data"
    )
    min_probability: float = Field(
        0.05, gt=0, le=1, description="unannotated spans with a lower entity probability become known negatives"
    )
    sources: Literal["vote"] | None = Field(
        None,
        description="if there are several label sources; vote: all models learn the result of the vote; none: "
        "the ensemble learns what a majority agrees on, and estimated noise channels weigh the "
        "rest",
    )

    @property
    def streams(self) -> bool:
        return True

    def run(self, context: StageContext) -> StageResult | None:
        _, incomplete = _divided(context)
        score = context.dev_score
        if not incomplete or score is None or _has_teacher(context):
            return None

        methods: list[Method] = [context.method] * self.models
        lost, entities = count_overlapping(context.corpus)
        can_tag = not context.nested and lost <= _MAX_OVERLAPPING * entities
        if self.tagger and can_tag:
            methods[-1] = CRF
        undecided = self._undecided(context.corpus, incomplete)
        said = with_everything_said(context.corpus) if undecided else context.corpus
        tasks = {
            f"{_name(number)}-predictions": partial(self._predict, context, said, method, number, undecided)
            for number, method in enumerate(methods, 1)
        }
        predicted = context.cached_all(tasks)
        scores = [found.pop("dev_score").item() for found in predicted]
        found = mean([SpanProbabilities.from_tensors(tensors) for tensors in predicted])
        if undecided:
            found = channel_posterior(found, context.corpus, context.labels)
        annotated = annotated_labels(found, said, context.labels).any(1).numpy()
        best = scores.index(max(scores))
        wanted = self.student == "tagger" or (self.student == "auto" and methods[best] is CRF)
        tags = wanted and can_tag and context.method.level == "span"
        method = self._as_tagger(context.method) if tags else context.method
        same_kind = (methods[best].level == "token") == (method.level == "token")
        fit = partial(self._fit, context, methods[best], best + 1, undecided)
        return StageResult(
            spans=found[annotated | (1 - found.probabilities[:, 0] >= self.min_probability)],
            rest_as_negative=True,
            method=method,
            rival=Rival(_name(best + 1), method, scores[best], fit) if same_kind else None,
        )

    def _undecided(self, corpus: Corpus, incomplete: Sequence[int]) -> dict[int, TokenSupervision]:
        """Spans of each sentence on which sources disagree, and which the first models therefore ignore."""
        if self.sources == "vote":
            return {}
        labels = _comparable_labels(corpus[index] for index in incomplete)
        spans = {index: undecided_spans(corpus[index], labels) for index in incomplete}
        undecided = {index: TokenSupervision(undecided=found) for index, found in spans.items() if found}
        if undecided:
            logger.info(
                "Sources disagree about %s spans: the first models are not trained on these, but predict them.",
                f"{sum(map(len, spans.values())):,}",
            )
        return undecided

    def _predict(
        self,
        context: StageContext,
        said: Corpus,
        method: Method,
        number: int,
        undecided: Mapping[int, TokenSupervision],
    ) -> dict[str, Tensor]:
        """Predict the incomplete sentences with one model of the ensemble, and score it on the dev data.

        ``said`` is the corpus with all spans to be scored as its entities.
        """
        assert context.dev_score is not None
        model = self._fit(context, method, number, undecided)
        _, incomplete = _divided(context)
        found = predict_proba(model, said, incomplete, _NOTICED * self.min_probability)
        return found.tensors() | {"dev_score": torch.tensor(context.dev_score(model), dtype=torch.float64)}

    def _fit(
        self, context: StageContext, method: Method, number: int, undecided: Mapping[int, TokenSupervision]
    ) -> Model:
        title = f"model {number} of {self.models} of the ensemble"
        return context.fit(_name(number), title, method, supervision=undecided, seed_offset=number)

    def _as_tagger(self, method: Method) -> Method:
        """Return the tagger, under the name of the method that chose it."""
        described = {"name": method.name, "paper": method.paper, "summary": method.summary}
        return CRF.model_copy(update={**described, "stage": self})


class FoldTeacher(Stage):
    """``folds``: several models predict label probabilities for spans that they have not seen, annotated or not.

    With ``train_on=trusted`` they learn from the complete sentences, each without one of ``folds`` parts, so no distant
    label has taught them its mistakes; what they say on average, weighed against what is annotated, is what the model
    learns about all other sentences. With ``train_on=all`` each learns from everything but the part that it is asked about.
    """

    name: Literal["folds"] = "folds"
    folds: int = Field(4, ge=2, description="number of teachers; each is trained without one of as many folds")
    train_on: Literal["trusted", "all"] = Field(
        "trusted",
        description="training data of teachers: complete sentences (trusted; no teacher if too few), or all "
        "except those they predict (all)",
    )
    min_entities: int = Field(
        500, ge=1, description="minimum number of entities in complete sentences for training teachers"
    )
    max_rounds: int = Field(
        1,
        ge=1,
        description="maximum number of successive models, each taught by the previous one, while the dev "
        "score improves",
    )
    min_probability: float = Field(
        0.05, ge=0, le=1, description="spans with a lower entity probability get no probabilities from a teacher"
    )
    rest_as_negative: bool = Field(True, description="treat spans without a teacher's probabilities as known negatives")
    clean_fraction: float = Field(
        0.5, ge=0, lt=1, description="final fraction of training, in which only complete sentences are used"
    )
    label_odds: float | None = Field(
        3.0,
        gt=0,
        description="factor by which annotation raises the odds of a label; none: estimated for each source and label",
    )

    @property
    def streams(self) -> bool:
        return self.train_on == "trusted"  # complete sentences are in memory

    def check(self, method: Method, data: TrainingData) -> None:
        if all(sentence.complete for sentence in data.corpus):
            logger.info("All sentences are complete, so there is nothing for a teacher to predict.")

    def posterior(self, found: SpanProbabilities, corpus: Corpus, labels: Sequence[str]) -> FloatArray:
        """Target probabilities ``(N, L)`` of spans, from held-out predictions and the annotation."""
        if self.label_odds is None:
            return channel_posterior(found, corpus, labels).probabilities
        annotated = annotated_labels(found, corpus, labels).numpy()
        weighed = found.probabilities * (1 + (self.label_odds - 1) * annotated)  # Bayes' rule
        taught: FloatArray = (weighed / weighed.sum(-1, keepdims=True)).astype("float32")
        return taught

    def run(self, context: StageContext) -> StageResult | None:
        complete, incomplete = _divided(context)
        if not incomplete or not self.has_enough(context, complete):
            return None
        on_trusted = self.train_on == "trusted"
        folds = context.cross_fit(
            "teacher",
            "teacher",
            complete if on_trusted else incomplete,
            self.folds,
            partial(self._predict, context.corpus),
            train_on=complete if on_trusted else None,
            predict_on=incomplete if on_trusted else None,
            vary_seed=True,
        )
        asked = [found.pop("asked").tolist() for found in folds]
        parts = [SpanProbabilities.from_tensors(found) for found in folds]
        if not on_trusted:
            return self._result(context, concatenate(parts))
        return self._result(context, mean(parts, asked))

    def _predict(self, corpus: Corpus, model: Model, unseen: Sequence[int]) -> dict[str, Tensor]:
        # A teacher trained on all negatives needs no threshold; see predict_proba.
        found = predict_proba(model, corpus, unseen, self.min_probability, use_threshold=self.train_on != "trusted")
        return found.tensors() | {"asked": torch.tensor(unseen, dtype=torch.long)}

    def next_round(self, context: StageContext, model: Model, number: int) -> StageResult | None:
        if number > self.max_rounds:
            return None
        _, incomplete = _divided(context)
        found = predict_proba(model, context.corpus, incomplete, self.min_probability, not self.rest_as_negative)
        return self._result(context, found)

    def _result(self, context: StageContext, found: SpanProbabilities) -> StageResult:
        posterior = self.posterior(found, context.corpus, context.labels)
        return StageResult(
            spans=SpanProbabilities(found.sentence, found.start, found.end, posterior),
            rest_as_negative=self.rest_as_negative,
            clean_fraction=self.clean_fraction,
        )

    def has_enough(self, context: StageContext, complete: Sequence[int]) -> bool:
        """Whether there is enough data to train teachers; if not, log what happens to the trusted data."""
        if self.can_teach(context, complete):
            return True
        entities = sum(len(context.corpus[index].entities) for index in complete)
        if entities:
            logger.info(
                "The trusted sentences contain %d entities. They are used as complete sentences; to train teachers that "
                "correct the other labels, at least %d are required (--set teacher.min_entities).",
                entities,
                self.min_entities,
            )
        return False

    def can_teach(self, context: StageContext, complete: Sequence[int]) -> bool:
        """Whether there is enough data to train teachers."""
        entities = sum(len(context.corpus[index].entities) for index in complete)
        return self.train_on == "all" or entities >= self.min_entities


def _comparable_labels(sentences: Iterable[Sentence]) -> set[str]:
    """Labels on which sources agree often enough for a model to learn them from agreement alone."""
    said: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    for sentence in sentences:
        if len(sentence.by_source) > 1:
            for entity, majority in agreed_entities(sentence).items():
                said[entity.label] += 1
                agreed[entity.label] += majority
    return {label for label, count in agreed.items() if count >= max(_MIN_AGREED, _MIN_AGREEMENT * said[label])}


def with_everything_said(corpus: Corpus) -> Corpus:
    """Return the corpus with the union of all sources' entities."""

    def joined(sentence: Sentence) -> Sentence:
        entities = dict.fromkeys(e for said in sentence.statements() for e in said.entities)
        rejected = set(sentence.non_entities)
        return replace(sentence, entities=tuple(e for e in entities if e.span not in rejected))

    return Corpus(tuple(map(joined, corpus)))


def _name(number: int) -> str:
    """Name of an ensemble member."""
    return f"distilled-{number}"


def _has_teacher(context: StageContext) -> bool:
    """Whether there are enough trusted sentences for the method's own teacher."""
    teacher = next((part for kind, part in context.method.parts() if kind == "teacher"), None)
    return isinstance(teacher, FoldTeacher) and teacher.can_teach(context, _divided(context)[0])


def _divided(context: StageContext) -> tuple[list[int], list[int]]:
    """Indices of complete and of incomplete sentences."""
    complete = [index for index, sentence in enumerate(context.corpus) if sentence.complete]
    return complete, [index for index, sentence in enumerate(context.corpus) if not sentence.complete]


PARTS = (FoldTeacher, Distillation)
METHODS = (
    SpanMethod(
        name="lacuner",
        paper="ours; docs/methods/lacuner.md describes the experiments",
        summary="A model is trained on the mean predictions of a span model and a tagger; trusted data "
        "corrects the labels.",
        head=WidthConfig(),
        negatives=Uniform(),
        loss=CrossEntropy(),
        stage=Distillation(),
        teacher=FoldTeacher(),
        training={"fit_threshold": True, "width_quantile": 0.995},
    ),
)
