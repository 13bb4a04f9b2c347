"""What a token-level method is made of. Known tags are always trained on; a method says what to do with the other words.

To add a paper, add a file to this folder that defines its parts as subclasses of those below, and list them in the file's
``PARTS``, its presets in ``METHODS``, as for methods at the level of spans.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor

from lacuner.corpus import Corpus
from lacuner.heads import CrfConfig, SoftmaxConfig, TagHeadConfig
from lacuner.methods.method import Method, Step
from lacuner.methods.uniform import rounded_up
from lacuner.parts import Part
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TagTargets, TokenSupervision

if TYPE_CHECKING:
    from lacuner.models.tag_model import TagModel


class Unlabeled(Part, ABC):
    """What may a word be that nobody has tagged?"""

    @abstractmethod
    def allow(self, targets: TagTargets) -> Tensor:
        """The tags that each word may have: ``(B, n, T)`` bool."""


class Sampling(Part, ABC):
    """Which untagged words are taken as no entity, after all?"""

    @property
    @abstractmethod
    def extra(self) -> bool:
        """Whether what is drawn gets a label of its own, which means no entity, instead of ``O``."""

    @abstractmethod
    def draw(self, free: Tensor, lengths: Tensor, step: Step) -> Spans:
        """Spans of untagged words, none of which overlaps another.

        Args:
            free: ``(B, n)`` bool, words that may be drawn.
            lengths: ``(B,)`` words of each sentence.
            step: where training stands.
        """


class Balance(Part, ABC):
    """What else do we know about all words together?"""

    @abstractmethod
    def __call__(self, share: Tensor) -> Tensor:
        """What to add to the loss of a batch in which ``share`` of the words are expected to belong to entities."""

    def prepared(self, share: float | None) -> "Balance":
        """For a corpus, of which this share of the words belongs to entities, as far as is known."""
        return self


class Fit(Protocol):
    """Trains a tagger."""

    def __call__(
        self,
        name: str,
        title: str,
        method: "TokenMethod",
        places: Sequence[int] | None = None,
        epochs: int | None = None,
        advice: Mapping[int, TokenSupervision] | None = None,
    ) -> "TagModel":
        """A trained model.

        Args:
            name: under which its checkpoints are kept.
            title: for people who watch.
            method: how it is trained; its stage is left aside.
            places: of the sentences that it learns from; by default all.
            epochs: exactly so many; by default as many as the model itself gets, of which dev data chooses the best.
            advice: what is known about sentences, by place.
        """


@dataclass(frozen=True)
class StageContext:
    """What a stage may do before the model itself is trained."""

    corpus: Corpus
    method: "TokenMethod"
    seed: int
    fit: Fit
    remember: Callable[[str, Callable[[], dict[str, Tensor]]], dict[str, Tensor]]
    """``remember(name, find_out)``: what ``find_out()`` returns; after a kill, what it returned before."""


@dataclass(frozen=True)
class Findings:
    """What a stage has found out."""

    advice: Mapping[int, TokenSupervision]
    """By place in the corpus."""
    reports: Mapping[str, Sequence[dict[str, Any]]]
    """Records for people to look at, each list a JSON Lines file in the model folder; ``sentence`` is a place."""

    def __post_init__(self) -> None:
        for name in self.reports:
            if not re.fullmatch(r"[a-z-]+", name) or name == "metrics":
                raise ValueError(
                    f"a report cannot be called {name!r}; give it small letters and hyphens, and not metrics"
                )


class Stage(Part, ABC):
    """What has to be found out before the model itself is trained?"""

    weighs: ClassVar[bool] = False
    """Whether it says how much each tag of an untagged word counts."""

    @abstractmethod
    def run(self, studio: StageContext) -> Findings:
        """Train whatever it takes, and say what is to be known about the sentences."""


class TokenMethod(Method):
    """A token-level method: a tagger, and what is done about words without a tag."""

    level: Literal["token"] = "token"
    head: SerializeAsAny[TagHeadConfig]
    untagged: SerializeAsAny[Unlabeled]
    sampling: SerializeAsAny[Sampling] | None = None
    balance: SerializeAsAny[Balance] | None = None
    stage: SerializeAsAny[Stage] | None = None


class Outside(Unlabeled):
    """``outside``: nothing but ``O``, and labels that nobody looked for."""

    name: Literal["outside"] = "outside"

    def allow(self, targets: TagTargets) -> Tensor:
        return targets.allowed


class Anything(Unlabeled):
    """``anything``: any tag; all of them are summed over, so the word says nothing by itself."""

    name: Literal["anything"] = "anything"

    def allow(self, targets: TagTargets) -> Tensor:
        return targets.possible


class RandomSpans(Sampling):
    """``spans``: of a sentence with ``s`` words, up to ``⌈γ s⌉`` spans of untagged words, drawn anew every epoch.

    Spans are drawn one after the other, all equally likely; one that overlaps an earlier one cannot be tagged any more, and
    is left out.
    """

    name: Literal["spans"] = "spans"
    ratio: float = Field(
        0.2,
        gt=0,
        allow_inf_nan=False,
        description="γ: spans for each word of a sentence; for none at all, sampling=none",
    )
    label: Literal["NON", "O"] = Field("NON", description="what they are tagged with: a label of their own, or O")
    widest: int | None = Field(None, ge=1, description="longest span in words; none: no bound")

    @property
    def extra(self) -> bool:
        return self.label == "NON"

    def draw(self, free: Tensor, lengths: Tensor, step: Step) -> Spans:
        wanted = rounded_up(lengths.double() * self.ratio).tolist()
        drawn: list[tuple[int, int, int]] = []
        for row, words in enumerate(free.tolist()):
            pieces = _pieces(words)
            weights = [_spans_of(end - begin, self.widest) for begin, end in pieces]
            count = min(wanted[row], sum(weights))
            if not count:
                continue
            taken = [False] * len(words)
            chosen = torch.multinomial(
                torch.tensor(weights, dtype=torch.float64), count, replacement=True, generator=step.generator
            )
            for piece, number in zip(
                chosen.tolist(), torch.rand(count, generator=step.generator).tolist(), strict=True
            ):
                begin, end = pieces[piece]
                start, stop = _span_number(int(number * weights[piece]), end - begin)
                if not any(taken[begin + start : begin + stop]):
                    taken[begin + start : begin + stop] = [True] * (stop - start)
                    drawn.append((row, begin + start, begin + stop))
        return Spans.of(drawn)


def _pieces(free: Sequence[bool]) -> list[tuple[int, int]]:
    """Where free words follow each other: ``[begin, end)``."""
    edges = [
        place
        for place in range(len(free) + 1)
        if (place < len(free) and free[place]) != (place > 0 and free[place - 1])
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _spans_of(words: int, widest: int | None) -> int:
    """How many spans of up to ``widest`` words there are in so many words."""
    widest = min(words, widest or words)
    return widest * (2 * words - widest + 1) // 2


def _span_number(number: int, words: int) -> tuple[int, int]:
    """One of them: first those of one word, then of two, and so on."""
    width = 1
    while number >= words - width + 1:
        number -= words - width + 1
        width += 1
    return number, number + width


PARTS = (Outside, Anything, RandomSpans)
METHODS = (
    TokenMethod(
        name="token",
        paper="the naive tagger of all papers: a softmax over the tags of every word",
        summary="Every word without a tag is outside of all entities; each word is tagged by itself.",
        head=SoftmaxConfig(),
        untagged=Outside(),
    ),
    TokenMethod(
        name="crf",
        paper="Huang et al. 2015, Bidirectional LSTM-CRF Models for Sequence Tagging (arXiv)",
        summary="Every word without a tag is outside of all entities; the tags of a sentence are found together.",
        head=CrfConfig(),
        untagged=Outside(),
    ),
)
