"""Safe loading of Hugging Face models from untrusted folders: no code in them is run, and nothing is downloaded."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from lacuner.errors import ConfigError, ModelError
from lacuner.features.stored import StoredTensor, no_more_than, not_finite, read_header

_RUNS_CODE = frozenset({"auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_internal"})
_MAKES_LISTS = frozenset({"num_labels", "id2label", "label2id"})
"""Settings of classifiers, not used by encoders, which could create lists of any length."""
_MAX_COUNT = 10_000
"""Maximum number of layers or labels, since configurations build lists of them before there is a model."""


def load_pretrained(name: str) -> Any:
    """Load a pretrained model by hub name or from a folder.

    Raises:
        ConfigError: it requires third-party code or kernels, or its weights are damaged.
        Exception: of any kind; damaged files make Hugging Face raise all sorts of errors.
    """
    from transformers import AutoConfig, AutoModel  # slow to import, and not needed by other encoders

    folder, stored = Path(name), {}
    if not folder.is_dir() and (name.startswith((".", "~")) or folder.is_absolute() or len(folder.parts) > 2):
        raise FileNotFoundError("there is no such folder")  # and no name on the hub looks like this
    with ExitStack() as stack:
        if (folder / "encoder.onnx").is_file():
            raise ConfigError(f"{name} is an exported model, which cannot be trained; give the encoder it was made of")
        if folder.is_dir():
            stack.enter_context(offline())
            _check_counts(json.loads((folder / "config.json").read_text(encoding="utf-8")))
            stored = {
                key: each for path in sorted(folder.glob("*.safetensors")) for key, each in read_header(path).items()
            }
            if stored:
                stack.enter_context(no_more_than(stored, folder / "config.json"))
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        if getattr(config, "quantization_config", None) is not None:
            raise ConfigError(
                f"the encoder {name!r} is quantized, and cannot be trained; give the model it was made of"
            )
        model = AutoModel.from_pretrained(
            name, config=config, dtype=torch.float32, trust_remote_code=False, attn_implementation=attention_of(config)
        )
    _check_weights(name, model, stored)
    return model


def build_model(architecture: Mapping[str, Any]) -> Any:
    """Build a model without weights, as described in a model folder."""
    from transformers import AutoConfig, AutoModel

    _check_counts(architecture)
    harmless = {key: value for key, value in architecture.items() if key not in _RUNS_CODE | _MAKES_LISTS}
    with offline():
        config = AutoConfig.for_model(**harmless)
        return AutoModel.from_config(
            config, dtype=torch.float32, trust_remote_code=False, attn_implementation=attention_of(config)
        )


def attention_of(config: Any) -> str:
    """Torch's own attention implementation; a configuration could name a kernel to be downloaded and run."""
    from transformers import MODEL_MAPPING

    kind = MODEL_MAPPING.get(type(config), None)
    kinds = kind if isinstance(kind, tuple | list) else (kind,)
    return "sdpa" if all(getattr(each, "_supports_sdpa", False) for each in kinds) else "eager"


@contextmanager
def offline() -> Iterator[None]:
    """Disable hub downloads in this context, whatever the files of a folder request."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _check_counts(described: Any) -> None:
    """Reject implausible numbers of layers and labels, also in nested configurations."""
    for key, value in described.items() if isinstance(described, Mapping) else ():
        if isinstance(value, int) and value > _MAX_COUNT and ("layer" in key or key == "num_labels"):
            raise ModelError(f"{key} is {value:,}, which no model has")
        _check_counts(value)


def _check_weights(name: str, model: Any, stored: Mapping[str, StoredTensor]) -> None:
    weights = dict(model.named_parameters())
    damaged = not_finite(weights)
    if damaged is not None:
        raise ConfigError(
            f"the weights {damaged!r} of the encoder {name!r} have infinite values, or NaN; copy it again"
        )
    for key, tensor in stored.items():
        own = key if key in weights else key.partition(".")[2]  # bert.embeddings. …
        if own in weights and not tensor.floating:
            raise ConfigError(f"the weights {key!r} of the encoder {name!r} are integers or booleans; copy it again")
