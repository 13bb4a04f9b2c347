"""All settings of a training run: presets, overridden by a TOML file, then by ``--set``; validated and typed."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveInt, SerializeAsAny

from lacuner.corpus import Corpus
from lacuner.encoders import ENCODERS, EncoderConfig
from lacuner.encoders.device import default_device, has_bf16
from lacuner.errors import ConfigError, did_you_mean
from lacuner.methods.method import Method
from lacuner.methods.parts import TrainingData
from lacuner.methods.registry import registry
from lacuner.parts import Part, Settings, build_part, validate

DEFAULT_METHOD = "lacuner"
DEFAULT_ENCODER = "recurrent"

_EXAMPLES = {"method": DEFAULT_METHOD, "encoder": DEFAULT_ENCODER, "split": "words"}
_MAX_EPOCHS = 200
_ENOUGH_STEPS = 4000
"""A corpus for which the usual epochs have more steps gets fewer epochs, but at least half."""


class TrainingConfig(Settings):
    """How a model is trained. Defaults depend on the encoder."""

    epochs: int | None = Field(
        None,
        ge=1,
        description="passes over the training data; none: 15 (transformer: 10), more for a small corpus, fewer for a large one",
    )
    seed: int = Field(
        1, ge=0, description="random seed for initial weights, data order, dropout, and sampling by the method"
    )
    batch_tokens: int = Field(ge=1, description="tokens per batch, including padding")
    encoder_learning_rate: float = Field(
        gt=0, description="peak learning rate of the encoder, or of its pretrained part"
    )
    head_learning_rate: float = Field(gt=0, description="peak learning rate of all other weights")
    weight_decay: float = Field(1e-5, ge=0, description="decoupled weight decay")
    warmup: float = Field(0.1, ge=0, lt=1, description="fraction of training used for learning-rate warmup")
    beta2: float = Field(
        0.98, ge=0, lt=1, description="β₂ of Adam, the decay rate for the average of squared gradients"
    )
    max_grad_norm: float = Field(5.0, gt=0, description="maximum gradient norm, for gradient clipping")
    ema_epochs: float | None = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="horizon of the exponential moving average of the weights, in epochs; none: no averaging",
    )
    fit_threshold: bool = Field(False, description="tune the O-logit offset on the dev set")
    nested: bool = Field(
        False, description="keep overlapping entities when evaluating on the dev set (span level only)"
    )
    width_quantile: float | None = Field(
        None,
        gt=0,
        le=1,
        description="raise head.max_span_width to this quantile of the annotated span widths; none: leave it unchanged",
    )
    metric: Literal["f1", "pu"] = Field(
        "f1",
        description="metric for selecting the best epoch; pu: recall² / fraction of predictions, for "
        "incomplete dev data",
    )
    patience: PositiveInt | Literal["auto"] | None = Field(
        "auto",
        description="epochs without a better dev score before training stops; auto: two thirds of all epochs, "
        "at least 5; none: never stop early",
    )
    precision: Literal["fp32", "bf16", "auto"] = Field(
        "fp32",
        description="bf16: bfloat16 mixed precision in pretrained layers; auto: bf16 if the processor supports it",
    )

    def for_encoder(self, encoder: EncoderConfig) -> "TrainingConfig":
        """Fill in what depends on the encoder and this machine, so that a resumed run keeps its precision."""
        if self.precision == "auto":
            chosen = encoder.auto_precision if has_bf16(default_device()) else "fp32"
            return self.model_copy(update={"precision": chosen})
        if self.precision not in encoder.precisions:
            raise ConfigError(
                f"training.precision={self.precision}: the encoder {encoder.name} is trained in "
                f"{' or '.join(encoder.precisions)} only; leave it out, or give auto"
            )
        return self

    def for_corpus(self, words: int, usual: int, min_steps: int) -> "TrainingConfig":
        """Fill in what depends on the corpus size: more epochs for a small corpus, fewer for a large one.

        Args:
            words: size of the corpus.
            usual: epochs for a corpus of ordinary size.
            min_steps: a corpus is small if the usual epochs have fewer steps.
        """
        least, enough = (-(-steps * self.batch_tokens // max(1, words)) for steps in (min_steps, _ENOUGH_STEPS))
        epochs = self.epochs or min(max(least, -(-usual // 2), min(usual, enough)), _MAX_EPOCHS)
        patience = max(5, -(-2 * epochs // 3)) if self.patience == "auto" else self.patience
        return self.model_copy(update={"epochs": epochs, "patience": patience})

    def stretched(self, factor: float) -> "TrainingConfig":
        """Multiply the number of epochs by a factor."""
        numbers = {name: getattr(self, name) for name in ("epochs", "patience")}
        stretched = {name: round(value * factor) for name, value in numbers.items() if isinstance(value, int)}
        return self.model_copy(update=stretched)


class TrustedConfig(Settings):
    """The weight of complete sentences relative to incomplete ones."""

    fraction: float | None = Field(
        None, gt=0, lt=1, description="fraction of each epoch that consists of complete sentences; none: as in the data"
    )


class RunSettings(Settings):
    """A method, an encoder, how they are trained, and how raw text is split."""

    method: SerializeAsAny[Method]
    encoder: SerializeAsAny[EncoderConfig]
    training: TrainingConfig
    trusted: TrustedConfig = TrustedConfig()
    split: Literal["auto", "words", "whitespace", "characters", "single-characters"] = "auto"

    def for_data(self, corpus: Corpus, dev: Corpus | None = None) -> "RunSettings":
        """Fill in what depends on the data: the length of training, span widths, and the fraction of entity words."""
        training = self.training.for_corpus(sum(map(len, corpus)), self.encoder.epochs, self.encoder.min_steps)
        method = self.method.for_data(self.training_data(corpus, dev), training.width_quantile)
        return self.model_copy(update={"training": training, "method": method})

    def with_method(self, method: Method) -> "RunSettings":
        """Replace the method by one chosen by a stage; for a tagger, reset settings that only span models have."""
        spans_only = {} if method.level == "span" else {"width_quantile": None, "nested": False}
        return self.model_copy(
            update={"method": method, "training": self.training.model_copy(update=spans_only)},
        )

    def training_data(self, corpus: Corpus, dev: Corpus | None) -> TrainingData:
        """The view of the data that the method and its parts get."""
        return TrainingData(corpus, dev, self.training.metric == "pu", self.encoder)


def resolve_settings(
    method: str | None = None,
    encoder: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> RunSettings:
    """Resolve the settings of a run.

    Args:
        method: name of a preset.
        encoder: ``recurrent``, ``flat``, ``bert-word``, ``lebert``, or the name or folder of a Hugging Face model.
        overrides: dotted keys and values, such as ``{"negatives.ratio": 0.5, "training.epochs": 20}``.
        config: the same as nested tables (a TOML file); ``method``, ``encoder`` and ``overrides`` take precedence.
    """
    layers = [_sections(config or {}), _sections(overrides or {})]
    names = [DEFAULT_METHOD, *(_name("method", layer.pop("method", {})) for layer in layers), method]
    preset = registry().method(next(name for name in reversed(names) if name is not None))
    parts = {kind: _part(preset, kind, [layer.pop(kind, {}) for layer in layers]) for kind in preset.kinds()}
    for foreign in (kind for layer in layers for kind in layer if kind in registry().part_kinds()):
        raise ConfigError(
            f"{foreign} is set, but {preset.name} is a {preset.level}-level method and has none; "
            f"it consists of: {', '.join(preset.kinds())}"
        )
    encoder_layers = [layer.pop("encoder", {}) for layer in layers]
    if encoder is not None:
        encoder_layers[-1]["name"] = encoder
    chosen = _encoder(encoder_layers)
    training = chosen.training | preset.training
    trusted: dict[str, Any] = {}
    split = {"split": "auto"}
    for layer in layers:
        training |= layer.pop("training", {})
        trusted |= layer.pop("trusted", {})
        split["split"] = _name("split", layer.pop("split", {})) or split["split"]
        if layer:
            known = ["method", "encoder", *registry().part_kinds(), "split", "training", "trusted"]
            key = next(iter(layer))
            meant = did_you_mean(key, known)
            raise ConfigError(f"there is no setting {key}{meant}; settings begin with one of: {', '.join(known)}")
    _check_level(preset, training)
    return validate(
        RunSettings,
        {
            "method": preset.model_copy(update=parts),
            "encoder": chosen,
            "training": validate(TrainingConfig, training, "training.").for_encoder(chosen),
            "trusted": validate(TrustedConfig, trusted, "trusted."),
            **split,
        },
    )


def settings_from_dict(data: Mapping[str, Any]) -> RunSettings:
    """Load settings written by :meth:`RunSettings.model_dump`."""
    if not isinstance(data.get("method"), Mapping):
        raise ConfigError("the settings contain no method")
    described = dict(data["method"])
    base = registry().method_class(described.get("name"), described.get("level"))
    for kind in base.kinds():
        value = described.get(kind)
        described[kind] = None if value is None else build_part(kind, value, registry().choices(kind, base))
    method = validate(base, described, "method.")
    encoder = build_part("encoder", data.get("encoder"), ENCODERS)
    return validate(RunSettings, dict(data) | {"method": method, "encoder": encoder})


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a TOML file with the same keys as ``--set``."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror} — check the path") from error
    except RecursionError:
        raise ConfigError(f"{path}: lists and tables are nested too deep — make it flatter") from None
    except ValueError as error:
        raise ConfigError(f'{path}: not TOML ({error}) — write lines such as method = "uniform"') from error


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` arguments of the command line. Values are TOML, or else plain text."""
    parsed: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write KEY=VALUE, for example negatives.ratio=0.5")
        try:
            parsed[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except RecursionError:
            raise ConfigError(f"--set {text[:60]}…: lists are nested too deep — make it flatter") from None
        except ValueError:
            parsed[key.strip()] = value.strip()
    return parsed


def _sections(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group settings by section, independently of their order; ``negatives=uniform`` means ``negatives.name=uniform``."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, dot, name = key.partition(".")
        inner = value if isinstance(value, Mapping) and not dot else {name if dot else "name": value}
        sections.setdefault(section, {}).update(inner)
    return sections


def _name(section: str, settings: Mapping[str, Any]) -> str | None:
    """The name in a section that sets nothing else."""
    foreign = next((key for key in settings if key != "name"), None)
    if foreign is not None:
        raise ConfigError(f"there is no setting {section}.{foreign}; there is: {section}")
    return _checked_name(section, settings["name"]) if settings else None


def _checked_name(section: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f'{section}={name!r}: give a name, such as {section} = "{_EXAMPLES[section]}"')
    return name


def _merge(current: dict[str, Any], layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers onto a part's settings. A different name starts from that part's defaults."""
    for layer in layers:
        changed = "name" in layer and layer["name"] != current.get("name")
        current = dict(layer) if changed else {**current, **layer}
    return current


def _part(preset: Method, kind: str, layers: Iterable[Mapping[str, Any]]) -> Part | None:
    """A part of the method: the preset's, with overrides applied."""
    default, choices = getattr(preset, kind), registry().choices(kind, preset)
    merged = _merge({} if default is None else default.model_dump(), layers)
    if merged.get("name") == "none":
        if not preset.optional(kind):
            raise ConfigError(f"{kind}=none: no method of this kind does without; choose {', '.join(choices)}")
        return None
    if merged and "name" not in merged:
        raise ConfigError(f"{kind}.{next(iter(merged))} is set, but the method has no {kind}; set {kind}=NAME, too")
    return build_part(kind, merged, choices) if merged else None


def _check_level(method: Method, training: Mapping[str, Any]) -> None:
    """Reject training settings that do not apply to a tagger."""
    for name in ("width_quantile", "nested") if method.level == "token" else ():
        if training.get(name) not in (None, False, "none"):
            raise ConfigError(
                f"training.{name} is set, but {method.name} tags words: it is for span-level methods only"
            )


def _refuse_misspelled(name: str) -> None:
    """Reject a misspelled encoder such as ``recurent`` before the hub is asked for it."""
    meant = did_you_mean(name, ENCODERS, cutoff=0.85)
    if meant and name not in ENCODERS and not Path(name).is_dir():
        raise ConfigError(
            f"there is no encoder {name!r}{meant}; "
            f"give {', '.join(sorted(ENCODERS))}, or the name or folder of a Hugging Face encoder"
        )


def _encoder(layers: Iterable[Mapping[str, Any]]) -> EncoderConfig:
    """The encoder; an unknown name is a Hugging Face model's, and a model without a name a transformer."""
    merged: dict[str, Any] = {"name": DEFAULT_ENCODER}
    for layer in layers:
        takes_model = "model" in ENCODERS[merged["name"]].model_fields
        name = layer.get("name", merged["name"] if takes_model or "model" not in layer else "transformer")
        _checked_name("encoder", name)
        _refuse_misspelled(name)
        described = {"name": name} if name in ENCODERS else {"name": "transformer", "model": name}
        merged = _merge(merged, [{**layer, **described}])
    if merged["name"] == "transformer" and "model" not in merged:
        raise ConfigError("encoder=transformer: give the model's name or folder instead, or set encoder.model")
    for setting, field in ENCODERS[merged["name"]].model_fields.items():
        if field.is_required() and setting not in merged:
            raise ConfigError(f"encoder={merged['name']}: set encoder.{setting}, too ({field.description})")
    return build_part("encoder", merged, ENCODERS)
