"""All settings of a training run: presets, then a TOML file, then ``--set``, checked and typed."""

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveInt

from lacuner.corpus import Sentence
from lacuner.encoders import ENCODERS, RecurrentConfig, TransformerConfig
from lacuner.errors import ConfigError
from lacuner.methods.composition import Method
from lacuner.methods.registry import KINDS, OPTIONAL_PARTS, registry
from lacuner.parts import Part, Settings, build_part, validate

DEFAULT_METHOD = "lacuner"
DEFAULT_ENCODER = "recurrent"

_EPOCHS = {"recurrent": 15, "transformer": 10}
_FEWEST_STEPS, _MOST_EPOCHS = 400, 200
_METHOD_PARTS = ("head", *KINDS)
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
    average: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="average the weights over about this many epochs; none: take them as they are",
    )
    fit_threshold: bool = Field(False, description="choose on dev data how much more than O an entity must weigh")
    cover: float | None = Field(
        None,
        gt=0,
        le=1,
        description="widen head.max_span_width to this share of the annotated entities; none: leave it",
    )
    select: Literal["f1", "pu"] = Field(
        "f1", description="what dev data chooses by; pu: recall² / share of predictions, for dev data with gaps"
    )
    patience: PositiveInt | Literal["auto"] | None = Field(
        "auto",
        description="epochs without a better dev F1 before training stops (auto: a third, at least 5); none: never",
    )

    def for_corpus(self, words: int, encoder: str) -> "TrainingConfig":
        """With what depends on the corpus: one of few words is read often enough to learn something from it."""
        needed = -(-_FEWEST_STEPS * self.batch_tokens // max(1, words))
        epochs = self.epochs or min(max(_EPOCHS[encoder], needed), _MOST_EPOCHS)
        patience = max(5, epochs // 3) if self.patience == "auto" else self.patience
        return self.model_copy(update={"epochs": epochs, "patience": patience})

    def stretched(self, factor: float) -> "TrainingConfig":
        """The same with so many times the epochs."""
        numbers = {name: getattr(self, name) for name in ("epochs", "patience")}
        stretched = {name: round(value * factor) for name, value in numbers.items() if isinstance(value, int)}
        return self.model_copy(update=stretched)


class TrustedConfig(Settings):
    """What complete sentences weigh beside those with gaps."""

    share: float | None = Field(
        None, gt=0, lt=1, description="share of complete sentences in an epoch; none: as in the data"
    )


class RunSettings(Settings):
    """A method, an encoder, how they are trained, and how raw text is split."""

    method: Method
    encoder: RecurrentConfig | TransformerConfig = Field(discriminator="name")
    training: TrainingConfig
    trusted: TrustedConfig = TrustedConfig()
    split: Literal["auto", "words", "whitespace", "characters"] = "auto"

    def for_corpus(self, sentences: Iterable[Sentence]) -> "RunSettings":
        """With what depends on the corpus: how long training takes, and how wide spans are."""
        lengths, widths = 0, []
        for sentence in sentences:
            lengths += len(sentence)
            widths += [entity.end - entity.start for entity in sentence.entities]
        training = self.training.for_corpus(lengths, self.encoder.name)
        method, bound = self.method, self.method.head.max_span_width
        if training.cover is not None and bound is not None and widths:
            needed = sorted(widths)[math.ceil(training.cover * len(widths)) - 1]
            head = method.head.model_copy(update={"max_span_width": max(bound, needed)})
            method = method.model_copy(update={"head": head})
        return self.model_copy(update={"training": training, "method": method})


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
    layers = [_sections(config or {}), _sections(overrides or {})]
    names = [layer.pop("method", {}).get("name") for layer in layers]
    preset = registry().method(method or names[1] or names[0] or DEFAULT_METHOD)
    parts = {
        kind: _part(kind, getattr(preset, kind), [layer.pop(kind, {}) for layer in layers]) for kind in _METHOD_PARTS
    }
    encoder_layers = [layer.pop("encoder", {}) for layer in layers]
    if encoder is not None:
        encoder_layers[-1]["name"] = encoder
    chosen = _encoder(encoder_layers)
    training = _BY_ENCODER[chosen.name] | preset.training
    trusted: dict[str, Any] = {}
    split = {"split": "auto"}
    for layer in layers:
        training |= layer.pop("training", {})
        trusted |= layer.pop("trusted", {})
        split["split"] = layer.pop("split", {}).get("name", split["split"])
        if layer:
            known = ", ".join(["method", "encoder", *_METHOD_PARTS, "split", "training", "trusted"])
            raise ConfigError(f"there is no setting {next(iter(layer))}; settings begin with one of: {known}")
    return validate(
        RunSettings,
        {
            "method": preset.model_copy(update=parts),
            "encoder": chosen,
            "training": validate(TrainingConfig, training, "training."),
            "trusted": validate(TrustedConfig, trusted, "trusted."),
            **split,
        },
    )


def settings_from_dict(data: Mapping[str, Any]) -> RunSettings:
    """Settings as :meth:`RunSettings.model_dump` wrote them."""
    if not isinstance(data.get("method"), Mapping):
        raise ConfigError("the settings hold no method")
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


def _sections(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by section, whatever order they are given in; ``negatives=uniform`` is ``negatives.name=uniform``."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, dot, name = key.partition(".")
        inner = value if isinstance(value, Mapping) and not dot else {name if dot else "name": value}
        sections.setdefault(section, {}).update(inner)
    return sections


def _merge(current: dict[str, Any], layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings of a part with layers on top. Another name begins anew: the parameters of one part are not another's."""
    for layer in layers:
        changed = "name" in layer and layer["name"] != current.get("name")
        current = dict(layer) if changed else {**current, **layer}
    return current


def _part(kind: str, default: Part | None, layers: Iterable[Mapping[str, Any]]) -> Part | None:
    """A part of the method: the preset's, with what is set on top."""
    merged = _merge({} if default is None else default.model_dump(), layers)
    if merged.get("name") == "none":
        if kind not in OPTIONAL_PARTS:
            raise ConfigError(f"{kind}=none: a method needs a {kind}; choose {', '.join(registry().choices(kind))}")
        return None
    if merged and "name" not in merged:
        raise ConfigError(f"{kind}.{next(iter(merged))} is set, but the method has no {kind}; set {kind}=NAME, too")
    return build_part(kind, merged, registry().choices(kind)) if merged else None


def _encoder(layers: Iterable[Mapping[str, Any]]) -> RecurrentConfig | TransformerConfig:
    """The encoder; a name that is none of ours is a Hugging Face model's."""
    named = []
    for layer in layers:
        name = layer.get("name", "transformer" if "model" in layer else None)
        if name is not None and name not in ENCODERS:
            named.append({**layer, "name": "transformer", "model": name})
        else:
            named.append({**layer, **({} if name is None else {"name": name})})
    merged = _merge({"name": DEFAULT_ENCODER}, named)
    if merged["name"] == "transformer" and "model" not in merged:
        raise ConfigError("encoder=transformer: give the model's name or folder instead, or set encoder.model")
    return build_part("encoder", merged, ENCODERS)
