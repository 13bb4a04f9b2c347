"""Model folders: JSON, safetensors, a vocabulary or tokenizer, and a model card. No pickle: loading executes no code."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, field_validator

from lacuner.corpus import OUTSIDE
from lacuner.corpus.tokenize import Splitting
from lacuner.encoders import Encoder
from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.features.stored import StoredTensor, load_tensors, no_more_than, read_header, read_json, save_tensors
from lacuner.inference.backends import BackendName, attach, exported_encoder
from lacuner.inference.onnx import check_onnx, read_onnx
from lacuner.model_card import ModelCard
from lacuner.models.model import Model
from lacuner.models.span_filter import SpanFilter
from lacuner.models.span_model import SpanModel
from lacuner.parts import validate
from lacuner.storage import new_folder, recover_folder, reporting, try_writing
from lacuner.training.settings import RunSettings, settings_from_dict
from lacuner.version import __version__

FORMAT_VERSION = 5
"""Version of the folder format; older versions of the package cannot read it."""

CONFIG, CARD = "config.json", "README.md"
_WEIGHTS, _METRICS, _ONNX = "model.safetensors", "metrics.jsonl", "encoder.onnx"


class _Config(BaseModel):
    """``config.json``."""

    format_version: int
    lacuner_version: str
    labels: list[str]
    split: Splitting
    settings: dict[str, Any]
    record: dict[str, Any]
    architecture: dict[str, Any]
    reports: list[str] = []
    backend: BackendName = "torch"

    @field_validator("labels")
    @classmethod
    def _outside_comes_first(cls, labels: list[str]) -> list[str]:
        if labels[:1] != [OUTSIDE] or len(set(labels)) < len(labels) or not all(map(str.strip, labels)):
            raise ValueError("the first label must be O, and none may be empty or stand twice")
        return labels

    @field_validator("reports")
    @classmethod
    def _reports_stand_in_the_folder(cls, names: list[str]) -> list[str]:
        if not all(re.fullmatch(r"[a-z-]+", name) for name in names):
            raise ValueError("a report has small letters and hyphens as its name")
        return names


@dataclass(frozen=True)
class ModelFolder:
    """Content of a model folder."""

    model: Model
    settings: RunSettings
    split: Splitting
    record: dict[str, Any]
    backend: BackendName = "torch"


def write_model_folder(folder: Path, content: ModelFolder) -> None:
    """Write the folder atomically; an existing model is replaced."""
    check_target(folder)
    with new_folder(folder) as unfinished, reporting(folder):
        _write(unfinished, content)


def read_model_folder(folder: Path) -> ModelFolder:
    """Load a model, or raise an error that says what is wrong with its folder.

    The architecture described by the configuration is compared with the header of the weights before memory is allocated.
    """
    recover_folder(folder)
    config = _read_config(folder)
    stored = read_header(folder / _WEIGHTS)
    exported = None if config.backend == "torch" else read_onnx(folder / _ONNX)
    described = stored if exported is None else stored | check_onnx(exported, folder / _ONNX)

    def restore() -> Encoder:
        if exported is None:
            return settings.encoder.restore(config.architecture, folder)
        with torch.device("meta"):
            encoder = settings.encoder.restore(config.architecture, folder)
        return attach(encoder, exported, str(folder / _ONNX))

    def build() -> Model:
        encoder = restore()
        model = settings.method.build_model(encoder, config.labels)
        if isinstance(model, SpanModel) and any(name.startswith("span_filter.") for name in stored):
            model.span_filter = SpanFilter(encoder.size)
        return model

    try:
        settings = settings_from_dict(config.settings)
        with no_more_than(described, folder / CONFIG):
            _compare(folder / _WEIGHTS, stored, _without_memory(build))
            model = build()
    except ConfigError as error:
        raise ModelError(f"{folder / CONFIG}: {error} — or install the package that brings what is missing") from error
    except LacunerError:
        raise
    except Exception as error:  # the packages involved may raise anything on invalid values
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"{folder / CONFIG} describes a model that cannot be built ({reason}) — copy the folder again"
        ) from error
    model.load_state_dict(load_tensors(folder / _WEIGHTS))
    record = config.record | {"history": tuple(_read_lines(folder / _METRICS))}
    record["reports"] = {name: tuple(_read_lines(folder / f"{name}.jsonl")) for name in config.reports}
    return ModelFolder(model, settings, config.split, record, config.backend)


def check_target(folder: Path) -> None:
    """Refuse to overwrite anything but a model folder, or to write where that is impossible."""
    recover_folder(folder)
    if folder.exists() and not is_model_folder(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder} exists and is not a model folder — choose another place for the model")
    try_writing(folder, folder=True)


def is_model_folder(folder: Path) -> bool:
    """Whether ``folder`` contains a Lacuner model, as opposed to, say, a Hugging Face one."""
    try:
        return isinstance(read_json(folder, CONFIG).get("format_version"), int)
    except ModelError:
        return False


def _read_config(folder: Path) -> _Config:
    content = read_json(folder, CONFIG)
    version = content.get("format_version")
    if not isinstance(version, int):
        raise ModelError(f"{folder / CONFIG} is not the configuration of a Lacuner model — check the path")
    if version != FORMAT_VERSION:
        remedy = "install a newer one: git pull, then pip install . in its clone"
        remedy = remedy if version > FORMAT_VERSION else "train the model again"
        raise ModelError(
            f"{folder} has format version {version}; this Lacuner ({__version__}) reads {FORMAT_VERSION} — {remedy}"
        )
    try:
        return validate(_Config, content)
    except ConfigError as error:
        raise ModelError(f"{folder / CONFIG} is damaged: {error} — copy the folder again") from None


def _write(folder: Path, content: ModelFolder) -> None:
    model = content.model
    record = {key: value for key, value in content.record.items() if key not in ("history", "reports")}
    architecture = model.encoder.save(folder)
    config = _Config(
        format_version=FORMAT_VERSION,
        lacuner_version=__version__,
        labels=list(model.labels),
        split=content.split,
        settings=content.settings.model_dump(mode="json"),
        record=record,
        architecture=architecture,
        reports=sorted(content.record.get("reports", {})),
        backend=content.backend,
    )
    exported = exported_encoder(model)
    assert (exported is None) == (content.backend == "torch")
    if exported is not None:
        (folder / _ONNX).write_bytes(exported.content)
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    files = {_METRICS: content.record["history"]}
    files |= {f"{name}.jsonl": records for name, records in content.record.get("reports", {}).items()}
    for name, records in files.items():
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / name).write_text("".join(lines), encoding="utf-8")
    save_tensors({name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}, folder / _WEIGHTS)
    card = ModelCard(model.labels[1:], content.settings, content.record)
    (folder / CARD).write_text(str(card), encoding="utf-8")


def _without_memory(build: Callable[[], Model]) -> Model:
    """Build the model with shapes but no data."""
    with torch.device("meta"):
        return build()


def _compare(path: Path, stored: Mapping[str, StoredTensor], model: Model) -> None:
    """Reject weights that do not match the model."""
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in stored:
            raise ModelError(f"{path} lacks the weights {name!r} — copy the folder again")
        if stored[name].shape != tensor.shape:
            sizes = f"{stored[name].shape} instead of {tuple(tensor.shape)}"
            raise ModelError(f"{path}: {name!r} has the shape {sizes} — weights and config.json do not belong together")
        if stored[name].floating != tensor.is_floating_point():
            kinds = ("integers or booleans", "floating-point numbers")
            found, wanted = kinds[stored[name].floating], kinds[tensor.is_floating_point()]
            raise ModelError(f"{path}: {name!r} has {found} instead of {wanted} — copy the folder again")
    if surplus := stored.keys() - expected.keys():
        raise ModelError(f"{path} has unknown weights ({sorted(surplus)[0]!r}, …) — it belongs to another config.json")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:  # str.splitlines would also split at rarer line ends inside words
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged ({error}) — remove it; the model works without") from error
