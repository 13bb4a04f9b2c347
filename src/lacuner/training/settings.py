"""All settings of a training run: presets, then a TOML file, then ``--set``, checked and typed."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lacuner.encoders import ENCODERS, RecurrentConfig, TransformerConfig
from lacuner.errors import ConfigError
from lacuner.methods.composition import Method
from lacuner.methods.registry import KINDS, registry
from lacuner.parts import Settings, build_part, validate

DEFAULT_METHOD = "uniform"
DEFAULT_ENCODER = "recurrent"

_EPOCHS = {"recurrent": 15, "transformer": 10}
_FEWEST_STEPS, _MOST_EPOCHS = 400, 200
_METHOD_PARTS = ("head", *KINDS)
_OPTIONAL_PARTS = ("contrast", "inference")
_BY_ENCODER: dict[str, dict[str, Any]] = {
    "recurrent": {"batch_tokens": 256, "encoder_learning_rate": 2e-3, "head_learning_rate": 2e-3},
    "transformer": {"batch_tokens": 1024, "encoder_learning_rate": 5e-5, "head_learning_rate": 5e-4},
}


class TrainingConfig(Settings):
    """How a model is fitted. What is not given depends on the encoder."""

    epochs: int | None = Field(
        None, ge=1, description="passes over the training data; none: 15 (transformer: 10), more for a small corpus"
    )
    seed: int = Field(1, ge=0, description="decides initial weights, order, dropout, and what a method draws")
    batch_tokens: int = Field(ge=1, description="tokens of a batch, padding included")
    encoder_learning_rate: float = Field(gt=0, description="greatest learning rate of the encoder")
    head_learning_rate: float = Field(gt=0, description="greatest learning rate of everything behind it")
    weight_decay: float = Field(1e-5, ge=0, description="decoupled weight decay")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of training in which the learning rates rise")
    clip: float = Field(5.0, gt=0, description="greatest norm of the gradient")
    patience: int | None = Field(
        5, ge=1, description="epochs without a better dev F1 before training stops; none: never"
    )

    def for_corpus(self, words: int, encoder: str) -> "TrainingConfig":
        """With the number of epochs for this many words: a small corpus is read often enough to learn something from it."""
        if self.epochs is not None:
            return self
        usual = _EPOCHS[encoder]
        needed = -(-_FEWEST_STEPS * self.batch_tokens // max(1, words))
        epochs = min(max(usual, needed), _MOST_EPOCHS)
        patience = None if self.patience is None else self.patience * epochs // usual
        return self.model_copy(update={"epochs": epochs, "patience": patience})


class RunSettings(Settings):
    """A method, an encoder, how they are trained, and how raw text is split."""

    method: Method
    encoder: RecurrentConfig | TransformerConfig = Field(discriminator="name")
    training: TrainingConfig
    split: Literal["auto", "words", "whitespace", "characters"] = "auto"


def resolve_settings(
    method: str | None = None,
    encoder: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> RunSettings:
    """Settings of a run.

    Args:
        method: name of a preset.
        encoder: ``recurrent``, or the name or folder of a Hugging Face model.
        overrides: dotted keys and values, such as ``{"negatives.ratio": 0.5, "training.epochs": 20}``.
        config: the same as nested tables (a TOML file); ``method``, ``encoder`` and ``overrides`` outrank it.
    """
    tree = _nested(config or {})
    preset = registry().method(method or _name(tree.pop("method", None), "method") or DEFAULT_METHOD)
    for key, value in (overrides or {}).items():
        _put(tree, key, value)
    parts = {kind: _section(kind, tree.pop(kind, None), getattr(preset, kind)) for kind in _METHOD_PARTS}
    encoder_settings = _encoder_section(encoder, tree.pop("encoder", None))
    given = tree.pop("training", {})
    training = _BY_ENCODER[encoder_settings.name] | dict(given if isinstance(given, Mapping) else {"training": given})
    rest = {"split": tree.pop("split")} if "split" in tree else {}
    if tree:
        known = ", ".join(["encoder", *_METHOD_PARTS, "split", "training"])
        raise ConfigError(f"there is no setting {next(iter(tree))}; settings begin with one of: {known}")
    checked = validate(TrainingConfig, training, "training.")
    return validate(
        RunSettings,
        {"method": preset.model_copy(update=parts), "encoder": encoder_settings, "training": checked, **rest},
    )


def settings_from_dict(data: Mapping[str, Any]) -> RunSettings:
    """Settings as :meth:`RunSettings.model_dump` wrote them."""
    described = dict(data["method"])
    for kind in _METHOD_PARTS:
        value = described.get(kind)
        described[kind] = None if value is None else build_part(kind, value, registry().choices(kind))
    return validate(RunSettings, dict(data) | {"method": validate(Method, described, "method.")})


def read_config(path: str | Path) -> dict[str, Any]:
    """A TOML file with the same keys as ``--set``."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror} — check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path}: not TOML ({error}) — write lines such as method = "uniform"') from error


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """``KEY=VALUE`` texts as they stand on the command line. Values are TOML, or else plain text."""
    parsed: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write KEY=VALUE, for example negatives.ratio=0.5")
        try:
            parsed[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key.strip()] = value.strip()
    return parsed


def _section(kind: str, value: Any, default: Any) -> Any:
    """A part of the method: the preset's, with what is set on top."""
    if value is None:
        return default
    if value in ("none", {"name": "none"}):
        if kind not in _OPTIONAL_PARTS:
            raise ConfigError(f"{kind}=none: a method needs a {kind}; choose {', '.join(registry().choices(kind))}")
        return None
    if isinstance(value, Mapping):
        if "name" not in value and default is None:
            raise ConfigError(f"{kind}.{next(iter(value))} is set, but the method has no {kind}; set {kind}=NAME, too")
        if value.get("name", default and default.name) == (default and default.name):
            value = default.model_dump() | value
    return build_part(kind, value, registry().choices(kind))


def _encoder_section(encoder: str | None, value: Any) -> RecurrentConfig | TransformerConfig:
    if isinstance(value, str):
        encoder, value = encoder or value, {}
    section = dict(value or {})
    chosen = encoder or section.pop("name", None) or ("transformer" if "model" in section else DEFAULT_ENCODER)
    if chosen not in ENCODERS:
        chosen, section = "transformer", {"model": chosen} | section
    if chosen == "transformer" and "model" not in section:
        raise ConfigError("encoder=transformer: give the model's name or folder instead, or set encoder.model")
    return build_part("encoder", {"name": chosen} | section, ENCODERS)


def _name(value: Any, kind: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ConfigError(f"{kind} must be a name, not {value!r}")


def _nested(config: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            for name, item in value.items():
                _put(tree, f"{key}.{name}", item)
        else:
            _put(tree, key, value)
    return tree


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    section, dot, name = key.partition(".")
    if not dot:
        tree[section] = value
        return
    if not isinstance(tree.get(section), dict):
        tree[section] = {"name": tree[section]} if section in tree else {}
    tree[section][name] = value
