"""Two-step learning: words that look like missed entities are removed first, non-entities are sampled afterwards.

Zhang, Zhang, He, Zhang: *A Web Semantic-Based Text Analysis Approach for Enhancing Named Entity Recognition Using
PU-Learning and Negative Sampling*, International Journal on Semantic Web and Information Systems 20 (1), 2024.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.heads import CrfConfig
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import Sampling, Step, TrainingData
from lacuner.methods.stages import Stage, StageContext, StageResult
from lacuner.methods.token import Likelihood, Outside
from lacuner.methods.uniform import rounded_up
from lacuner.models.tag_model import TagModel
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision

_SHOWN = 4
"""Words of context in the report on each side of a removed word."""


class RandomSpans(Sampling):
    """``spans``: up to ``⌈γ s⌉`` spans of untagged words of a sentence with ``s`` words, sampled again in every epoch.

    Spans are drawn one after the other, all equally likely; one that overlaps an earlier one cannot be tagged any more, and
    is left out.
    """

    name: Literal["spans"] = "spans"
    ratio: float = Field(
        0.2,
        gt=0,
        allow_inf_nan=False,
        description="γ: spans per word of a sentence; to sample none, set sampling=none",
    )
    label: Literal["NON", "O"] = Field("NON", description="tag of the sampled spans: a label of their own (NON), or O")
    max_width: int | None = Field(None, ge=1, description="maximum span width in words; none: unlimited")

    @property
    def non_entity_class(self) -> bool:
        return self.label == "NON"

    def sample(self, free: Tensor, lengths: Tensor, step: Step) -> Spans:
        wanted = rounded_up(lengths.cpu().double() * self.ratio).tolist()
        drawn: list[tuple[int, int, int]] = []
        for row, words in enumerate(free.tolist()):
            runs = _free_runs(words)
            weights = [_spans_of(end - begin, self.max_width) for begin, end in runs]
            count = min(wanted[row], sum(weights))
            if not count:
                continue
            taken = [False] * len(words)
            chosen = torch.multinomial(
                torch.tensor(weights, dtype=torch.float64), count, replacement=True, generator=step.generator
            )
            for run, number in zip(chosen.tolist(), torch.rand(count, generator=step.generator).tolist(), strict=True):
                begin, end = runs[run]
                start, stop = _span_number(int(number * weights[run]), end - begin)
                if not any(taken[begin + start : begin + stop]):
                    taken[begin + start : begin + stop] = [True] * (stop - start)
                    drawn.append((row, begin + start, begin + stop))
        return Spans.of(drawn)


def _free_runs(free: Sequence[bool]) -> list[tuple[int, int]]:
    """Runs of consecutive free words: ``[begin, end)``."""
    edges = [
        index
        for index in range(len(free) + 1)
        if (index < len(free) and free[index]) != (index > 0 and free[index - 1])
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _spans_of(words: int, max_width: int | None) -> int:
    """Number of spans of up to ``max_width`` words in a run of this many words."""
    max_width = min(words, max_width or words)
    return max_width * (2 * words - max_width + 1) // 2


def _span_number(number: int, words: int) -> tuple[int, int]:
    """The span with this number: first those of one word, then of two, and so on."""
    width = 1
    while number >= words - width + 1:
        number -= words - width + 1
        width += 1
    return number, number + width


class OValues(Stage):
    """``o-values``: after a few epochs, the untagged words with the lowest ``O`` scores are removed from the loss.

    In the beginning a tagger learns what is easy: that an unlabeled entity looks like the labeled ones, not yet that
    somebody tagged it ``O``. Of all ``m`` untagged words of the corpus, the ``⌈λ m⌉`` smallest go; then training begins again.
    """

    levels: ClassVar = ("token",)
    name: Literal["o-values"] = "o-values"
    epochs: int = Field(3, ge=1, description="n: epochs of the exploratory training")
    fraction: float = Field(0.1, ge=0, lt=1, description="λ: fraction of untagged words to remove")
    removed: Literal["drop", "marginalize"] = Field(
        "drop",
        description="what a removed word contributes to the loss: nothing (drop), or the sum over all tags "
        "(marginalize)",
    )

    def check(self, method: Method, data: TrainingData) -> None:
        if not getattr(method.head, "scores_outside", True):
            raise ConfigError(
                f"stage=o-values compares the scores of O, but head={method.head.name} gives all words the same — "
                "set head=crf, or head=softmax"
            )

    def run(self, context: StageContext) -> StageResult:
        found = context.cached("exploration", lambda: self._explore(context))
        lowest = found["value"].argsort(stable=True)[: self._count(len(found["value"]))]
        words = list(zip(*(found[name][lowest].tolist() for name in ("sentence", "token", "value")), strict=True))
        removed: dict[int, list[int]] = {}
        for sentence, token, _ in words:
            removed.setdefault(sentence, []).append(token)
        supervision = {
            sentence: TokenSupervision(ignored=tuple(tokens))
            if self.removed == "drop"
            else TokenSupervision(unconstrained=tuple(tokens))
            for sentence, tokens in removed.items()
        }
        return StageResult(tokens=supervision, reports={"removed": [_record(context, *word) for word in words]})

    def _count(self, untagged: int) -> int:
        return int(rounded_up(torch.tensor(self.fraction * untagged, dtype=torch.float64)))

    def _explore(self, context: StageContext) -> dict[str, Tensor]:
        """The O-values of all unlabeled words: ``sentence``, ``token`` and ``value``."""
        method = context.method.model_copy(update={"unlabeled": Outside(), "sampling": None})
        model = context.fit("exploration", "exploration", method, epochs=self.epochs)
        assert isinstance(model, TagModel)
        return model.o_values(context.corpus)


def _record(context: StageContext, sentence: int, token: int, value: float) -> dict[str, object]:
    tokens = context.corpus[sentence].tokens
    around = tokens[max(0, token - _SHOWN) : token + _SHOWN + 1]
    return {
        "sentence": sentence,
        "token": token,
        "o_value": round(value, 4),
        "text": tokens[token],
        "context": " ".join(around),
    }


PARTS = (RandomSpans, OValues)
METHODS = (
    TokenMethod(
        name="two-step",
        paper="Zhang et al. 2024, Enhancing Named Entity Recognition Using PU-Learning and Negative Sampling (IJSWIS)",
        summary="Untagged words that an early model takes for entities are left out; spans of the rest are "
        "sampled as non-entities.",
        head=CrfConfig(angle=True),
        unlabeled=Outside(),
        loss=Likelihood(),
        sampling=RandomSpans(),
        stage=OValues(),
    ),
)
