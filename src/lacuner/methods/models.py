"""The model that a method trains."""

from collections.abc import Sequence

from lacuner.encoders import Encoder
from lacuner.methods.composition import SpanMethod
from lacuner.methods.method import Method
from lacuner.methods.model import Model
from lacuner.methods.span_model import SpanModel
from lacuner.methods.tag_model import TagModel
from lacuner.methods.tagging import TokenMethod


def build_model(encoder: Encoder, method: Method, labels: Sequence[str]) -> Model:
    """A model with a fresh head; ``labels[0]`` is ``O``."""
    if isinstance(method, TokenMethod):
        return TagModel(encoder, method, labels)
    assert isinstance(method, SpanMethod)
    return SpanModel(encoder, method, labels)
