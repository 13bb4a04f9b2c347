"""A model as a folder: JSON, safetensors, a vocabulary or tokenizer, a model card. No pickle: loading runs nobody's code."""

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lacuner.corpus import OUTSIDE
from lacuner.corpus.files import umask
from lacuner.corpus.tokenize import Splitting
from lacuner.errors import ConfigError, ModelError
from lacuner.features.stored import read_json
from lacuner.models.model import Model
from lacuner.parts import validate
from lacuner.training.settings import RunSettings, settings_from_dict
from lacuner.version import __version__

FORMAT_VERSION = 4
"""Of the folder; models are not read by versions before it."""

_CONFIG, _WEIGHTS, _METRICS, _CARD = "config.json", "model.safetensors", "metrics.jsonl", "README.md"


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

    @field_validator("labels")
    @classmethod
    def _outside_comes_first(cls, labels: list[str]) -> list[str]:
        if labels[:1] != [OUTSIDE] or len(set(labels)) < len(labels):
            raise ValueError("the first label must be O, and none may stand twice")
        return labels

    @field_validator("reports")
    @classmethod
    def _reports_stand_in_the_folder(cls, names: list[str]) -> list[str]:
        if not all(re.fullmatch(r"[a-z-]+", name) for name in names):
            raise ValueError("a report has small letters and hyphens as its name")
        return names


@dataclass(frozen=True)
class ModelFolder:
    """What stands in a model folder."""

    model: Model
    settings: RunSettings
    split: Splitting
    record: dict[str, Any]


def write_model_folder(folder: Path, content: ModelFolder) -> None:
    """Write everything to a temporary folder beside ``folder`` and rename it, so that a crash leaves no half of it."""
    check_target(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        unfinished.chmod(0o777 & ~umask())
        _write(unfinished, content)
        _put_in_place(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _put_in_place(new: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(new, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    os.replace(folder, old / "model")
    try:
        os.replace(new, folder)
    except BaseException:
        os.replace(old / "model", folder)
        old.rmdir()
        raise
    shutil.rmtree(old)


def read_model_folder(folder: Path) -> ModelFolder:
    """Load a model, or say in one sentence what is wrong with its folder."""
    config = _read_config(folder)
    try:
        settings = settings_from_dict(config.settings)
        encoder = settings.encoder.restore(config.architecture, folder)
    except ConfigError as error:
        raise ModelError(f"{folder / _CONFIG}: {error} — or install the package that brings what is missing") from error
    model = settings.method.build_model(encoder, config.labels)
    _load_weights(folder, model)
    record = config.record | {"history": tuple(_read_lines(folder / _METRICS))}
    record["reports"] = {name: tuple(_read_lines(folder / f"{name}.jsonl")) for name in config.reports}
    return ModelFolder(model, settings, config.split, record)


def check_target(folder: Path) -> None:
    """Refuse to write a model over something that is none."""
    if not folder.exists() or is_model_folder(folder):
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise ModelError(f"{folder} exists and is no model folder — choose another place for the model")


def is_model_folder(folder: Path) -> bool:
    """Whether ``folder`` holds a model of ours, and not, say, a Hugging Face one."""
    try:
        return isinstance(read_json(folder, _CONFIG).get("format_version"), int)
    except ModelError:
        return False


def _read_config(folder: Path) -> _Config:
    content = read_json(folder, _CONFIG)
    version = content.get("format_version")
    if not isinstance(version, int):
        raise ModelError(f"{folder / _CONFIG} is not the configuration of a Lacuner model — check the path")
    if version != FORMAT_VERSION:
        remedy = "upgrade it: pip install -U lacuner" if version > FORMAT_VERSION else "train the model again"
        raise ModelError(
            f"{folder} has format version {version}; this Lacuner ({__version__}) reads {FORMAT_VERSION} — {remedy}"
        )
    try:
        return validate(_Config, content)
    except ConfigError as error:
        raise ModelError(f"{folder / _CONFIG} is damaged: {error} — copy the folder again") from None


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
    )
    (folder / _CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    files = {_METRICS: content.record["history"]}
    files |= {f"{name}.jsonl": records for name, records in content.record.get("reports", {}).items()}
    for name, records in files.items():
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / name).write_text("".join(lines), encoding="utf-8")
    save_file({name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}, folder / _WEIGHTS)
    (folder / _CARD).write_text(_card(content), encoding="utf-8")


def _load_weights(folder: Path, model: Model) -> None:
    path = folder / _WEIGHTS
    if not path.is_file():
        raise ModelError(f"{path} is missing — copy the folder again")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged or cut short ({error}) — copy the folder again") from error
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in tensors:
            raise ModelError(f"{path} lacks the weights {name!r} — copy the folder again")
        if tensors[name].shape != tensor.shape:
            sizes = f"{tuple(tensors[name].shape)} instead of {tuple(tensor.shape)}"
            raise ModelError(f"{path}: {name!r} has the shape {sizes} — weights and config.json do not belong together")
    if surplus := tensors.keys() - expected.keys():
        raise ModelError(f"{path} has unknown weights ({sorted(surplus)[0]!r}, …) — it belongs to another config.json")
    model.load_state_dict(tensors)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:  # str.splitlines would cut words in two that hold one of the rarer line ends
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except ValueError as error:
        raise ModelError(f"{path} is damaged ({error}) — remove it; the model works without") from error


def _card(content: ModelFolder) -> str:
    """The model card."""
    method, encoder, record = content.settings.method, content.settings.encoder, content.record
    data = record["data"]
    lines = [
        "---",
        "library_name: lacuner",
        "tags: [named-entity-recognition, token-classification, incomplete-annotation]",
        "---",
        "# Named-entity recogniser",
        "",
        f"Finds {', '.join(content.model.labels[1:])}. Trained with Lacuner {__version__} "
        "on annotation that may have gaps.",
        "",
        "| | |",
        "| --- | --- |",
        f"| method | `{method.name}` ({method.paper}) |",
        f"| encoder | `{encoder.title}` |",
        f"| head | `{method.head.name}` |",
        f"| training data | {data.get('sentences', 0):,} sentences, {data.get('entities', 0):,} annotated entities |",
        f"| best epoch | {record['best_epoch']} of {len(record['history'])}; seed {content.settings.training.seed} |",
        "",
    ]
    if record.get("dev"):
        lines += [
            "## Scores on the dev data",
            "",
            "| label | precision | recall | F1 | support |",
            "| --- | --: | --: | --: | --: |",
        ]
        rows = [*record["dev"]["labels"].items(), ("**all**", record["dev"])]
        for label, s in rows:
            lines.append(
                f"| {label} | {100 * s['precision']:.2f} | {100 * s['recall']:.2f} | {100 * s['f1']:.2f} | {s['support']} |"
            )
        lines.append("")
    example = [
        "## Use",
        "",
        "```python",
        "from lacuner import Recognizer",
        "",
        'model = Recognizer.from_pretrained("path/to/this/folder")',
        'model.predict("Ada Lovelace moved to Turin.")',
        "```",
        "",
    ]
    return "\n".join(lines + example)
