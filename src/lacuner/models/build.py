"""The model that a method trains."""

from collections.abc import Sequence

from lacuner.encoders import Encoder
from lacuner.methods.composition import SpanMethod
from lacuner.methods.method import Method
from lacuner.methods.tagging import TokenMethod
from lacuner.models.model import Model
from lacuner.models.span_model import SpanModel
from lacuner.models.tag_model import TagModel


def build_model(encoder: Encoder, method: Method, labels: Sequence[str]) -> Model:
    """A model with a fresh head; ``labels[0]`` is ``O``."""
    if isinstance(method, TokenMethod):
        return TagModel(encoder, method, labels)
    assert isinstance(method, SpanMethod)
    return SpanModel(encoder, method, labels)
