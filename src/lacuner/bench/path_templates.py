"""Templates of paths in recipes and results: what is written down does not depend on the folders of a machine."""

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lacuner.errors import ConfigError

_FOLDER = "LACUNER_DATA"


class PathTemplates:
    """Fills ``{data}`` and ``{package:NAME}`` in settings with paths of this machine, and puts them back.

    Args:
        data: folder of the datasets; by default what ``LACUNER_DATA`` names.
    """

    def __init__(self, data: str | Path | None = None) -> None:
        self.data = Path(data or os.environ.get(_FOLDER) or Path("..", "shared", "data")).absolute()
        self._packages: dict[str, str] = {}

    def fill(self, value: Any) -> Any:
        """The same value with real paths; an unknown name in braces at the beginning of a path is a mistake."""
        return _replace_text(value, self._fill_text)

    def hide(self, value: Any) -> Any:
        """The same value with templates instead of them."""
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
            except (ImportError, ValueError):  # of something inside a package that is not there; no name at all
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
