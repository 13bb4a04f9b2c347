"""What ``lacuner methods`` shows, as data: made of the registry, and kept in a file that is read without loading torch.

``make catalog`` writes the file; a test compares it with the registry.
"""

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypedDict

from lacuner.errors import ConfigError, did_you_mean

PATH = Path(__file__).with_name("catalog.json")
_GROUPS = ("lacuner.methods", "lacuner.heads")
"""Entry points of packages that bring methods, or parts of them."""


class Parameter(TypedDict):
    """A setting of a method: its key, its value in the preset, and what it means."""

    key: str
    value: Any
    description: str


class MethodEntry(TypedDict):
    """A method as ``lacuner methods`` describes it."""

    name: str
    level: str
    paper: str
    summary: str
    parameters: list[Parameter]


class Catalog(TypedDict):
    """All methods by name, and the parts of each kind that methods of a level can have."""

    methods: dict[str, MethodEntry]
    parts: dict[str, dict[str, list[str]]]


def read_catalog() -> Catalog:
    """Everything that is installed: the stored catalog, unless other packages bring methods or heads."""
    if any(entry_points(group=group) for group in _GROUPS):
        return make_catalog()
    catalog: Catalog = json.loads(PATH.read_text(encoding="utf-8"))
    return catalog


def find_method(catalog: Catalog, name: str) -> MethodEntry:
    """The method with this name."""
    if name not in catalog["methods"]:
        known = sorted(catalog["methods"])
        raise ConfigError(f"there is no method {name!r}{did_you_mean(name, known)}; choose {', '.join(known)}")
    return catalog["methods"][name]


def make_catalog() -> Catalog:
    """Describe every method of the registry."""
    from lacuner.methods.registry import LEVELS, registry

    found = registry()
    parts = {
        level: {
            kind: sorted(found.choices(kind, method)) + (["none"] if method.optional(kind) else [])
            for kind in method.kinds()
        }
        for level, method in LEVELS.items()
    }
    return {"methods": {name: _describe(found.methods[name]) for name in sorted(found.methods)}, "parts": parts}


def _describe(method: Any) -> MethodEntry:
    parameters = [Parameter(key=key, value=value, description=text) for key, value, text in _rows(method)]
    return {
        "name": method.name,
        "level": method.level,
        "paper": method.paper,
        "summary": method.summary,
        "parameters": parameters,
    }


def _rows(method: Any) -> list[tuple[str, Any, str]]:
    from lacuner.training.settings import TrainingConfig

    rows: list[tuple[str, Any, str]] = []
    for kind in method.kinds():
        part = getattr(method, kind)
        if part is None:
            rows.append((kind, "none", ""))
            continue
        rows.append((kind, part.name, _first_sentence(part)))
        for field, info in type(part).model_fields.items():
            if field != "name":
                value = getattr(part, field)
                rows.append((f"{kind}.{field}", "none" if value is None else value, info.description or ""))
    described = TrainingConfig.model_fields
    rows += [
        (f"training.{name}", value, described[name].description or "" if name in described else "")
        for name, value in method.training.items()
    ]
    return rows


def _first_sentence(part: Any) -> str:
    line = next(iter((type(part).__doc__ or "").strip().splitlines()), "")
    return (line.partition(": ")[2] or line).replace("`", "")


def as_text(catalog: Catalog) -> str:
    """The catalog as it is stored: indented, so that a change is easy to read."""
    return json.dumps(catalog, ensure_ascii=False, indent=1) + "\n"


def write_catalog() -> None:
    """Store the catalog of everything that is installed; there should be no other packages with methods."""
    PATH.write_text(as_text(make_catalog()), encoding="utf-8")
