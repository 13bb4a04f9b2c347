"""Token classification requests in the format of Hugging Face inference endpoints."""

from collections.abc import Sequence
from typing import Any, Literal

from lacuner.web.dialects.dialect import Dialect, InvalidRequestError, LooseBody, Target, Task, score_of
from lacuner.web.served_models import Answer, Query


class Parameters(LooseBody):
    """How entities are made of tagged pieces; we find whole ones, so all strategies but ``none`` are the same."""

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] = []
    stride: int | None = None


class InputsBody(LooseBody):
    """Classify the tokens of one text, or of several."""

    inputs: str | list[str]
    parameters: Parameters | None = None
    model: str | None = None


def classify_tokens(body: InputsBody, target: Target) -> Task:
    """A list of ``entity_group``, ``score``, ``word``, ``start`` and ``end``; a list of such lists for several texts."""
    parameters = body.parameters or Parameters()
    if parameters.aggregation_strategy == "none":
        why = "whole entities are found, not pieces of words; give simple, first, average or max"
        raise InvalidRequestError("parameters.aggregation_strategy", why)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs

    def write(answers: Sequence[Answer]) -> list[Any]:
        lists = [
            [
                {
                    "entity_group": entity.label,
                    "score": score_of(entity),
                    "word": entity.text,
                    "start": entity.start,
                    "end": entity.end,
                }
                for entity in answer.entities
                if entity.label not in parameters.ignore_labels
            ]
            for answer in answers
        ]
        return lists[0] if isinstance(body.inputs, str) else lists

    return Task([Query(text) for text in texts], write)


HUGGING_FACE = Dialect(InputsBody, classify_tokens, frozenset({"inputs"}))
