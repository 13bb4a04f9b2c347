"""Two-step learning: words that look like forgotten entities are removed first, non-entities drawn afterwards.

Zhang, Zhang, He, Zhang: *A Web Semantic-Based Text Analysis Approach for Enhancing Named Entity Recognition Using
PU-Learning and Negative Sampling*, International Journal on Semantic Web and Information Systems 20 (1), 2024.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from lacuner.heads import CrfConfig
from lacuner.methods.tagging import Findings, Outside, RandomSpans, Stage, StageContext, TokenMethod
from lacuner.methods.uniform import rounded_up
from lacuner.supervision.tags import TokenSupervision

_SHOWN = 4
"""Words around a removed one that its report shows on each side."""


class OValues(Stage):
    """``o-values``: after a few epochs, the untagged words with the smallest score of ``O`` are removed from the loss.

    In the beginning a tagger learns what is easy: that an unlabelled entity looks like the labelled ones, not yet that
    somebody tagged it ``O``. Of all ``m`` untagged words of the corpus, the ``⌈λ m⌉`` smallest go; then training begins anew.
    """

    name: Literal["o-values"] = "o-values"
    epochs: int = Field(3, ge=1, description="n: epochs of the exploratory training")
    share: float = Field(0.1, ge=0, lt=1, description="λ: share of untagged words to remove")
    removed: Literal["drop", "marginalise"] = Field(
        "drop", description="what is left of a removed word: nothing (drop), or any tag (marginalise)"
    )

    def run(self, studio: StageContext) -> Findings:
        found = studio.remember("exploration", lambda: self._explore(studio))
        sentence, token, value = found["sentence"], found["token"], found["value"]
        count = int(rounded_up(torch.tensor(self.share * len(value), dtype=torch.float64)))
        lowest = value.argsort(stable=True)[:count]
        removed: dict[int, list[int]] = {}
        for place, word in zip(sentence[lowest].tolist(), token[lowest].tolist(), strict=True):
            removed.setdefault(place, []).append(word)
        advice = {
            place: TokenSupervision(removed=tuple(words))
            if self.removed == "drop"
            else TokenSupervision(open=tuple(words))
            for place, words in removed.items()
        }
        report = [
            self._record(studio, place, word, score)
            for place, word, score in zip(
                sentence[lowest].tolist(), token[lowest].tolist(), value[lowest].tolist(), strict=True
            )
        ]
        return Findings(advice, {"removed": report})

    def _explore(self, studio: StageContext) -> dict[str, Tensor]:
        """The O-values of all untagged words: ``sentence``, ``token`` and ``value``."""
        method = studio.method.model_copy(update={"untagged": Outside(), "sampling": None})
        model = studio.fit("exploration", "exploration", method, epochs=self.epochs)
        return model.o_values(studio.corpus)

    def _record(self, studio: StageContext, place: int, word: int, score: float) -> dict[str, object]:
        tokens = studio.corpus[place].tokens
        around = tokens[max(0, word - _SHOWN) : word + _SHOWN + 1]
        return {
            "sentence": place,
            "token": word,
            "o_value": round(score, 4),
            "text": tokens[word],
            "context": " ".join(around),
        }


PARTS = (OValues,)
METHODS = (
    TokenMethod(
        name="two-step",
        paper="Zhang et al. 2024, Enhancing Named Entity Recognition Using PU-Learning and Negative Sampling (IJSWIS)",
        summary="Words that an early model takes for entities are left out; of the rest, some are drawn as non-entities.",
        head=CrfConfig(angle=True),
        untagged=Outside(),
        sampling=RandomSpans(),
        stage=OValues(),
    ),
)
