import json
from typing import Literal

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from lacuner.heads import SPAN_HEADS, ProductConfig, WidthConfig
from lacuner.methods.full import All, CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import (
    Contrast,
    Inference,
    Negatives,
    Regularizer,
    Sampling,
    SamplingContext,
    SpanLoss,
    State,
    Step,
    TokenLoss,
    Unlabeled,
)
from lacuner.methods.stages import Stage
from lacuner.parts import build_part


class FirstOnly(Negatives):
    """``first-only``: one of somebody else's."""

    name: Literal["first-only"] = "first-only"
    count: int = 1

    def sample(self, context: SamplingContext) -> Tensor:
        return torch.arange(min(self.count, len(context.unknown)))


class Nothing(Contrast):
    """``nothing``: pulls nothing apart."""

    name: Literal["nothing"] = "nothing"

    def __call__(self, hidden: Tensor, label: Tensor, step: Step, state: State) -> Tensor:
        return hidden.sum() * 0


def method(**changes: object) -> SpanMethod:
    parts = {"head": ProductConfig(), "negatives": All(), "loss": CrossEntropy()}
    return SpanMethod(name="mine", paper="mine", summary="mine", **parts | changes)


@pytest.mark.parametrize(
    "kind", [Negatives, SpanLoss, Contrast, Inference, Unlabeled, Sampling, TokenLoss, Regularizer, Stage]
)
def test_a_part_must_say_what_it_does(kind: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        kind(name="empty")


def test_a_method_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        method().name = "other"


def test_a_method_writes_down_the_parameters_of_parts_it_has_never_heard_of() -> None:
    written = json.loads(method(negatives=FirstOnly(count=3), contrast=Nothing(weight=0.5)).model_dump_json())
    assert written["negatives"] == {"name": "first-only", "count": 3}
    assert written["contrast"] == {"name": "nothing", "weight": 0.5}
    assert written["inference"] is None


def test_a_head_is_told_by_its_name() -> None:
    written = method(head=WidthConfig(max_span_width=5)).model_dump()
    assert build_part("head", written["head"], SPAN_HEADS) == WidthConfig(max_span_width=5)


def test_a_part_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="negatives"):
        method(negatives=CrossEntropy())


@pytest.mark.parametrize("weight", [-0.1, 1.0, 1.1])
def test_the_weight_of_the_contrastive_loss_leaves_some_to_the_classifier(weight: float) -> None:
    with pytest.raises(ValidationError, match="weight"):
        Nothing(weight=weight)
