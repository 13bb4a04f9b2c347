"""A cell: one training, with everything that decides how it turns out."""

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from lacuner.bench.recipe import Places, column_name
from lacuner.training.settings import RunSettings, settings_from_dict
from lacuner.version import __version__

_DESCRIBED = ("name", "paper", "summary")
"""What a method says about itself, which changes nothing."""
_FILES = ("train", "trusted", "gold", "dev", "test")
"""What a dataset says about files."""


@dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        data: name of the dataset.
        hidden: share of its complete labels that is hidden; 0: it has gaps of its own, or none.
        complete: trained on the complete labels, to see how much the gaps cost.
        run: method and settings, as the recipe calls them.
        encoder: as the recipe calls it.
        seed: decides what is hidden, and how training goes.
        config: what decides the outcome: dataset, experiment, measures and all settings, without paths of this machine.
        files: hashes of the files that it reads.
        version: of the package.
    """

    data: str
    hidden: float
    complete: bool
    run: str
    encoder: str
    seed: int
    config: dict[str, Any]
    files: dict[str, str]
    version: str = __version__

    @cached_property
    def key(self) -> str:
        """Tells one training from another, by content and not by name; what is measured beside it changes nothing."""
        settings = dict(self.config["settings"])
        settings["method"] = {name: part for name, part in settings["method"].items() if name not in _DESCRIBED}
        dataset, others = self._content()
        config = self.config | {"dataset": dataset, "settings": settings, "measure": None}
        content = [_said(config), others, self.hidden, self.complete, self.seed, self.version]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def _content(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The dataset with the hashes of the files that are read, instead of names; and the hashes of all other files."""
        dataset = self.config["dataset"] | {"folder": None, "unseen_labels": None}
        named = {role: [names] if isinstance(names, str) else names for role in _FILES if (names := dataset.get(role))}
        dataset |= {role: [self.files.get(name, name) for name in names] for role, names in named.items()}
        if self.hidden or self.complete:
            dataset["train"] = None  # it learns from all labels, or from what is left of them
        of_dataset = {name for names in named.values() for name in names}
        return dataset, {name: known for name, known in self.files.items() if name not in of_dataset}

    @property
    def folder(self) -> str:
        """The name of its folder: what is measured beside a training does not take the place of what was measured before."""
        return "-".join([self.key, *sorted(self.config["measure"])])

    def result_from(self, result: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a result of the same training says of this cell, under its name; none if it lacks something measured here."""
        wanted, known = set(self.config["measure"]), set(result["config"]["measure"])
        if not wanted <= known:
            return None
        found = _without(result, known - wanted) | self.as_dict()
        if "rows" in found:
            found["rows"] = {
                self._row_name(name, result["run"]): _without(row, known - wanted)
                for name, row in found["rows"].items()
            }
        return found

    def _row_name(self, name: str, run: str) -> str:
        """The name of a row that was measured when the run was called otherwise."""
        return self.run + name.removeprefix(run) if name == run or name.startswith(f"{run}, ") else name

    @property
    def column(self) -> str:
        """The column of its table."""
        return column_name(self.data, self.hidden)

    def __str__(self) -> str:
        labels = ", all labels" if self.complete else ""
        return f"{self.column}{labels}, {self.run}, {self.encoder}, seed {self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"key": self.key, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Cell":
        """As :meth:`as_dict` wrote it."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def settings(self, places: Places) -> RunSettings:
        """All settings of the training."""
        return settings_from_dict(places.fill(self.config["settings"]))


def _without(record: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def _said(config: Any) -> Any:
    """The same without what is not set: that there is a new setting does not make old results wrong."""
    if isinstance(config, Mapping):
        return {key: _said(value) for key, value in config.items() if value is not None}
    return [_said(value) for value in config] if isinstance(config, list | tuple) else config
