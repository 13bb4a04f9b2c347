"""A run: one model to be trained, or a dictionary to be matched, with everything that decides how it turns out."""

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
"""What a method says about itself, which does not change its models."""
_FILES = ("train", "trusted", "gold", "dev", "test", "dictionary")
"""Fields of a dataset that name files."""
_SAID = ("folder", "language", "unseen_labels", "other_dictionary")
"""Fields of a dataset that change no result."""
_LEARNED = ("train", "trusted", "gold")
"""Those that only training reads."""


@dataclass(frozen=True)
class Run:
    """One model to be trained, or a dictionary to be matched.

    Attributes:
        data: name of the dataset.
        hidden: fraction of its complete labels that is hidden; 0: it has gaps of its own, or none.
        complete: trained on the complete labels, to see how much the gaps cost.
        method: method and settings, as the recipe calls them.
        encoder: as the recipe calls it; empty: nothing is trained, and the seed changes nothing.
        seed: of masking and of training.
        config: what decides the outcome: dataset, experiment, measures and all settings, without paths of this machine.
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
        """A hash of what decides the outcome, not of names; what is measured meanwhile does not change it."""
        settings = dict(self.config["settings"])
        settings["method"] = {name: part for name, part in settings.get("method", {}).items() if name not in _DESCRIBED}
        dataset, others = self._content()
        config = self.config | {"dataset": dataset, "settings": settings, "measure": None}
        drawn = (self.hidden, self.complete, self.seed) if self.is_trained else ()
        content = [_without_unset(config), others, *drawn, self.training_version]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def _content(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The dataset with the hashes of the files that are read, instead of names; and the hashes of all other files."""
        dataset = self.config["dataset"] | dict.fromkeys(_SAID)
        named = {role: [names] if isinstance(names, str) else names for role in _FILES if (names := dataset.get(role))}
        dataset |= {role: [self.files.get(name, name) for name in names] for role, names in named.items()}
        if not self.is_trained:
            dataset |= dict.fromkeys(_LEARNED)
        elif self.hidden or self.complete or dataset.get("dictionary_fraction"):
            dataset["train"] = None  # it learns from all labels, or what is left of them, or what a dictionary finds
        if self.is_trained and not dataset.get("dictionary_fraction"):
            dataset["dictionary"] = None
        of_dataset = {name for names in named.values() for name in names}
        return dataset, {name: known for name, known in self.files.items() if name not in of_dataset}

    @property
    def folder(self) -> str:
        """The name of its folder; a run that also measures something does not replace one that did not."""
        return "-".join([self.key, *sorted(self.config["measure"])])

    def result_from(self, result: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result of a run with the same key under the names of this one; none if it lacks what is measured here."""
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
        """The name of a row in a result whose method was called ``old``."""
        return self.method + name.removeprefix(old) if name == old or name.startswith(f"{old}, ") else name

    @property
    def is_trained(self) -> bool:
        """Whether a model is trained; if not, a dictionary is matched."""
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
        """As :meth:`as_dict` wrote it."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def settings(self, paths: PathTemplates) -> RunSettings:
        """All settings, with the paths of this machine."""
        return settings_from_dict(paths.fill(self.config["settings"]))


def _without(record: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def _without_unset(config: Any) -> Any:
    """The same without what is not set, so that a new setting leaves the keys of old results as they are."""
    if isinstance(config, Mapping):
        return {key: _without_unset(value) for key, value in config.items() if value is not None}
    return [_without_unset(value) for value in config] if isinstance(config, list | tuple) else config
