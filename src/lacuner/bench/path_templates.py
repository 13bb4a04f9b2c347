"""Path templates in recipes and results, to make them independent of the machine."""

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lacuner.errors import ConfigError

_FOLDER = "LACUNER_DATA"


class PathTemplates:
    """Replaces ``{data}`` and ``{package:NAME}`` in settings by paths of this machine, and vice versa.

    Args:
        data: folder of the datasets; ``LACUNER_DATA`` by default.
    """

    def __init__(self, data: str | Path | None = None) -> None:
        self.data = Path(data or os.environ.get(_FOLDER) or Path("..", "shared", "data")).absolute()
        self._packages: dict[str, str] = {}

    def fill(self, value: Any) -> Any:
        """Replace templates by paths; an unknown template at the start of a path is an error."""
        return _replace_text(value, self._fill_text)

    def hide(self, value: Any) -> Any:
        """Replace paths by templates."""
        return _replace_text(value, self._hide_text)

    def _fill_text(self, text: str) -> str:
        text = text.replace("{data}", str(self.data))
        text = re.sub(r"\{package:([^}]*)\}", lambda found: self._package(found[1]), text)
        unknown = re.match(r"(\{\w+\})/", text)
        if unknown:
            raise ConfigError(f"{unknown[1]} in {text!r} is not a known template; write {{data}} or {{package:NAME}}")
        return text

    def _hide_text(self, text: str) -> str:
        for name, folder in self._packages.items():
            text = text.replace(folder, f"{{package:{name}}}")
        return re.sub(rf"{re.escape(str(self.data))}(?![^/\\])", "{data}", text)

    def _package(self, name: str) -> str:
        if name not in self._packages:
            try:
                found = importlib.util.find_spec(name)
            except (ImportError, ValueError):  # a missing parent package, or an invalid name
                found = None
            folders = list(found.submodule_search_locations or ()) if found is not None else []
            if not folders:
                raise ConfigError(f"{{package:{name}}}: the package {name} is not installed — install it")
            self._packages[name] = folders[0]
        return self._packages[name]


def _replace_text(value: Any, replace: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, Mapping):
        return {key: _replace_text(item, replace) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_text(item, replace) for item in value]
    return value
