"""Any Hugging Face encoder, by name or folder."""

from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.bilstm import BiLSTM
from lacuner.encoders.dropout import Dropout
from lacuner.encoders.encoder import Encoder, EncoderConfig
from lacuner.encoders.hugging_face import build_model, load_pretrained
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError, ModelError
from lacuner.features.questions import QuestionIndex
from lacuner.features.subwords import PieceIndex, PieceInputs

_MAX_WINDOW = 512  # attention is quadratic, and sentences are rarely longer


class PretrainedConfig(EncoderConfig, ABC):
    """Settings shared by all encoders built on a Hugging Face model."""

    precisions: ClassVar = ("fp32", "bf16")

    model: str = Field(description="Hugging Face model: name on the hub, or folder")
    window: int | None = Field(
        None, ge=128, description="sub-word pieces encoded at a time; none: the model's maximum, at most 512"
    )

    @property
    def title(self) -> str:
        return Path(self.model).name

    @property
    def files(self) -> tuple[Path, ...]:
        folder = Path(self.model)
        return tuple(sorted(path for path in folder.iterdir() if path.is_file())) if folder.is_dir() else ()


class TransformerConfig(PretrainedConfig):
    """``transformer``: a pretrained Hugging Face encoder that is fine-tuned."""

    epochs: ClassVar = 10
    min_steps: ClassVar = 800
    training: ClassVar = {"batch_tokens": 256, "encoder_learning_rate": 1e-4, "head_learning_rate": 1e-3}
    auto_precision: ClassVar = "bf16"

    name: Literal["transformer"] = "transformer"
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the word vectors")
    lstm: int | None = Field(None, ge=1, description="hidden size of an optional BiLSTM on top (per direction)")

    def check(self) -> None:
        TransformerEncoder.create(self)

    def create(self, sentences: Sequence[Sequence[str]] = ()) -> "TransformerEncoder":
        return TransformerEncoder.create(self)

    def restore(self, architecture: dict[str, Any], folder: Path) -> "TransformerEncoder":
        try:
            return TransformerEncoder.restore(self, architecture, folder)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ModelError(
                f"the tokenizer in {folder} cannot be loaded ({reason}) — copy the folder again"
            ) from error


class TransformerEncoder(Encoder):
    """Words → vectors of their first and last pieces, in float32 whatever the type of the weights.

    With ``lstm``, a BiLSTM reads the mean of the two.
    """

    def __init__(self, config: TransformerConfig, model: Any, index: PieceIndex) -> None:
        super().__init__()
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # would remain untrained
        self.config = config
        self.model = model
        self.index: PieceIndex = index
        self.dropout = Dropout(config.dropout)
        self.lstm = None if config.lstm is None else BiLSTM(model.config.hidden_size, config.lstm)
        self.size: int = model.config.hidden_size if config.lstm is None else 2 * config.lstm

    @classmethod
    def create(cls, config: TransformerConfig) -> "TransformerEncoder":
        """Load pretrained weights."""
        try:
            with _without_progress_bar():
                model = load_pretrained(config.model)
            index = PieceIndex.load(config.model, _max_input(model.config), config.window)
        except ConfigError:
            raise
        except Exception as error:  # damaged files make Hugging Face raise errors of any kind
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ConfigError(
                f"the encoder {config.model!r} cannot be loaded ({reason}); "
                "give 'recurrent', a folder with a Hugging Face model, or a hub name that can be reached from here"
            ) from error
        return cls(config, model, index)

    @classmethod
    def restore(cls, config: TransformerConfig, architecture: dict[str, Any], folder: Path) -> "TransformerEncoder":
        """Rebuild the architecture and tokenizer of a saved model; its weights are loaded afterwards."""
        model = build_model(architecture)
        return cls(config, model, PieceIndex.load(folder, _max_input(model.config), config.window))

    @property
    def pretrained(self) -> nn.Module:
        model: nn.Module = self.model
        return model

    @property
    def knows_segments(self) -> bool:
        """Whether the model was pretrained with segment embeddings, as BERT was."""
        return (getattr(self.model.config, "type_vocab_size", None) or 0) > 1

    def ask(self, questions: Sequence[str]) -> None:
        """Prepend each of these questions to every sentence from now on, one row per pair."""
        self.index = QuestionIndex(self.index.tokenizer, self.index.window, questions)

    @property
    def architecture(self) -> dict[str, Any]:
        """The Hugging Face configuration needed to rebuild the model, for JSON."""
        described: dict[str, Any] = self.model.config.to_diff_dict()
        described.pop("dtype", None)
        return described | {"model_type": self.model.config.model_type}

    def save(self, folder: Path) -> dict[str, Any]:
        self.index.save(folder)
        return self.architecture

    def forward(self, inputs: PieceInputs) -> EncodedWords:
        segments = {} if inputs.segments is None or not self.knows_segments else {"token_type_ids": inputs.segments}
        with self.autocast():
            output = self.model(input_ids=inputs.pieces, attention_mask=inputs.attention, **segments)
        hidden = output.last_hidden_state  # (W, m, d)
        return self.at_words(hidden, inputs)

    def at_words(self, hidden: Tensor, inputs: PieceInputs) -> EncodedWords:
        """Gather the last layer ``(W, m, d)`` at each word's first and last piece, cast to float32."""
        hidden = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        pieces = self.dropout(hidden).flatten(0, 1)  # (W * m, d)
        words = EncodedWords(_gather(pieces, inputs.first), _gather(pieces, inputs.last))
        if self.lstm is None:
            return words
        read = self.dropout(self.lstm(words.mean(), inputs.lengths))  # (B, n, 2 * lstm)
        return EncodedWords(read, read)


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Hide the progress bar of loading weights, which takes no time from a local disk."""
    from transformers.utils import logging as hugging_face_logging

    shown = hugging_face_logging.is_progress_bar_enabled()
    hugging_face_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            hugging_face_logging.enable_progress_bar()


def _gather(pieces: Tensor, index: Tensor) -> Tensor:
    return pieces.index_select(0, index.flatten()).view(*index.shape, -1)  # (B, n, d)


def _max_input(config: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None) or _MAX_WINDOW
    if any(family in config.model_type for family in ("roberta", "camembert", "mpnet", "longformer", "data2vec")):
        positions -= (config.pad_token_id or 0) + 1  # position 0 follows the padding index
    return min(positions, _MAX_WINDOW)


PARTS = (TransformerConfig,)
