"""A run: one model to train, or a dictionary to match, with everything that determines its result."""

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.recipe import ALL_LABELS, column_name
from lacuner.training.settings import RunSettings, settings_from_dict
from lacuner.training.version import TRAINING_VERSION

_DESCRIBED = ("name", "paper", "summary")
"""Descriptive fields of a method, which do not affect its models."""
_FILES = ("train", "trusted", "gold", "dev", "test", "dictionary")
"""Fields of a dataset that name files."""
_SAID = ("folder", "language", "unseen_labels", "other_dictionary")
"""Fields of a dataset that do not affect results."""
_LEARNED = ("train", "trusted", "gold")
"""Files read only by training."""


@dataclass(frozen=True)
class Run:
    """One model to train, or a dictionary to match.

    Attributes:
        data: name of the dataset.
        hidden: fraction of its complete labels that is hidden; 0: its own labels.
        complete: trained on the complete labels, to measure the cost of the gaps.
        method: method and settings, as named in the recipe.
        encoder: as named in the recipe; empty: nothing is trained, and the seed has no effect.
        seed: of masking and of training.
        config: what determines the result: dataset, experiment, measures and all settings, without machine-specific paths.
        files: hashes of the files that it reads.
        training_version: see :data:`~lacuner.training.version.TRAINING_VERSION`.
    """

    data: str
    hidden: float
    complete: bool
    method: str
    encoder: str
    seed: int
    config: dict[str, Any]
    files: dict[str, str]
    training_version: int = TRAINING_VERSION

    @cached_property
    def key(self) -> str:
        """Hash of what determines the result, excluding names and additional measurements."""
        settings = dict(self.config["settings"])
        settings["method"] = {name: part for name, part in settings.get("method", {}).items() if name not in _DESCRIBED}
        dataset, others = self._content()
        config = self.config | {"dataset": dataset, "settings": settings, "measure": None}
        drawn = (self.hidden, self.complete, self.seed) if self.is_trained else ()
        content = [_without_unset(config), others, *drawn, self.training_version]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def _content(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The dataset with file hashes instead of names, and the hashes of all other files."""
        dataset = self.config["dataset"] | dict.fromkeys(_SAID)
        named = {role: [names] if isinstance(names, str) else names for role in _FILES if (names := dataset.get(role))}
        dataset |= {role: [self.files.get(name, name) for name in names] for role, names in named.items()}
        if not self.is_trained:
            dataset |= dict.fromkeys(_LEARNED)
        elif self.hidden or self.complete or dataset.get("dictionary_fraction"):
            dataset["train"] = None  # trained on complete or masked labels, or on matches of a dictionary
        if self.is_trained and not dataset.get("dictionary_fraction"):
            dataset["dictionary"] = None
        of_dataset = {name for names in named.values() for name in names}
        return dataset, {name: known for name, known in self.files.items() if name not in of_dataset}

    @property
    def folder(self) -> str:
        """Name of its folder; a run with additional measurements does not replace one without."""
        return "-".join([self.key, *sorted(self.config["measure"])])

    def result_from(self, result: Mapping[str, Any]) -> dict[str, Any] | None:
        """Rename the result of a run with the same key for this run; None if it lacks a measurement."""
        wanted, known = set(self.config["measure"]), set(result["config"]["measure"])
        if not wanted <= known:
            return None
        found = _without(result, known - wanted) | self.as_dict()
        if "rows" in found:
            found["rows"] = {
                self._row_name(name, result["method"]): _without(row, known - wanted)
                for name, row in found["rows"].items()
            }
        return found

    def _row_name(self, name: str, old: str) -> str:
        """The new name of a row in a result whose method was called ``old``."""
        return self.method + name.removeprefix(old) if name == old or name.startswith(f"{old}, ") else name

    @property
    def is_trained(self) -> bool:
        """Whether a model is trained; otherwise a dictionary is matched."""
        return bool(self.encoder)

    @property
    def column(self) -> str:
        """The column of its table."""
        return column_name(self.data, self.hidden)

    def __str__(self) -> str:
        labels = ALL_LABELS if self.complete else ""
        trained = f", {self.encoder}, seed {self.seed}" if self.is_trained else ""
        return f"{self.column}{labels}, {self.method}{trained}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"key": self.key, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Run":
        """Inverse of :meth:`as_dict`."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def settings(self, paths: PathTemplates) -> RunSettings:
        """All settings, with the paths of this machine."""
        return settings_from_dict(paths.fill(self.config["settings"]))


def _without(record: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def _without_unset(config: Any) -> Any:
    """Remove unset values, so that a new setting does not change the keys of old results."""
    if isinstance(config, Mapping):
        return {key: _without_unset(value) for key, value in config.items() if value is not None}
    return [_without_unset(value) for value in config] if isinstance(config, list | tuple) else config
