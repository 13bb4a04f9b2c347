"""Backends that compute word vectors. Heads and decoding are always ours."""

import copy
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

from lacuner.encoders import Encoder
from lacuner.encoders.bilstm import BiLSTM
from lacuner.encoders.transformer import TransformerEncoder
from lacuner.errors import ConfigError
from lacuner.features.questions import QuestionIndex
from lacuner.inference.onnx import OnnxTransformer, check_onnx, export_onnx, quantize
from lacuner.models.model import EncodedBatch, Model

BackendName = Literal["torch", "onnx", "onnx-int8"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)


class Backend(Protocol):
    """Computes word vectors."""

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        """Encode a batch of sentences into word vectors, on the device of the head."""


class TorchBackend:
    """The model's own encoder, which in an exported model runs in ONNX Runtime."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        return self._model.encode(sentences)


def exported_encoder(model: Model) -> OnnxTransformer | None:
    """The ONNX Runtime encoder of an exported model; None if torch computes the vectors."""
    inner = model.encoder.model if isinstance(model.encoder, TransformerEncoder) else None
    return inner if isinstance(inner, OnnxTransformer) else None


def check_convertible(model: Model) -> TransformerEncoder:
    """Return the encoder of a model that another backend can run; reject other models."""
    encoder = model.encoder
    if exported_encoder(model) is not None:
        raise ConfigError("this model is already exported — export the model it was made from")
    if type(encoder) is not TransformerEncoder:
        raise ConfigError(
            "only models with a Hugging Face encoder (transformer) can be exported — docs/speed.md says what makes others fast"
        )
    if isinstance(encoder.index, QuestionIndex):
        raise ConfigError("a model that asks a question for each label (mrc) cannot be exported — use it as it is")
    return encoder


def convert(model: Model, backend: BackendName) -> Model:
    """Copy a model with its encoder in another backend; head, threshold and everything else stay the same."""
    encoder = check_convertible(model)
    content = export_onnx(encoder.model)
    if backend == "onnx-int8":
        content = quantize(content)
    check_onnx(content, "the export")
    # Replace the encoder during the copy instead of copying it: it may be large.
    return copy.deepcopy(model, {id(encoder.model): OnnxTransformer(content, encoder.model.config)}).eval()


def attach(encoder: Encoder, content: bytes, path: str) -> Encoder:
    """Put ONNX Runtime in place of the weights of an encoder that was restored without memory for them."""
    if type(encoder) is not TransformerEncoder:
        raise ConfigError(f"{path} is there, but the encoder is none that can be exported")
    config = encoder.model.config
    encoder.model = OnnxTransformer(content, config, path)
    if encoder.config.lstm is not None:
        encoder.lstm = BiLSTM(config.hidden_size, encoder.config.lstm)
    return encoder
