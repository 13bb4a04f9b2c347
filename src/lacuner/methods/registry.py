"""Every method and part there is: those in this folder, and those of packages with an entry point ``lacuner.methods``."""

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from lacuner.errors import ConfigError
from lacuner.heads import SPAN_HEADS, TAG_HEADS
from lacuner.methods.composition import Contrast, Inference, Loss, Negatives, SpanMethod, Teacher
from lacuner.methods.method import Method
from lacuner.methods.tagging import Balance, Sampling, Stage, TokenMethod, Unlabeled
from lacuner.parts import Part

logger = logging.getLogger(__name__)

ENTRY_POINTS = "lacuner.methods"
KINDS: dict[str, type[Part]] = {
    "negatives": Negatives,
    "loss": Loss,
    "contrast": Contrast,
    "inference": Inference,
    "teacher": Teacher,
    "untagged": Unlabeled,
    "sampling": Sampling,
    "balance": Balance,
    "stage": Stage,
}
"""What packages can bring parts of; a method has some of these kinds, and a head."""
LEVELS: dict[str, type[Method]] = {"span": SpanMethod, "token": TokenMethod}
HEADS: dict[str, Mapping[str, type[Part]]] = {"span": SPAN_HEADS, "token": TAG_HEADS}


@dataclass
class Registry:
    """Methods by name, and parts by kind and name."""

    methods: dict[str, Method] = field(default_factory=dict)
    parts: dict[str, dict[str, type[Part]]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def add(self, module: Any) -> None:
        """Take what a module lists in ``PARTS`` and ``METHODS``: everything, or nothing if something is wrong with it."""
        entries: list[tuple[dict[str, Any], str, Any, str]] = []
        for part in getattr(module, "PARTS", ()):
            kind = next(
                (kind for kind, base in KINDS.items() if isinstance(part, type) and issubclass(part, base)), None
            )
            if kind is None:
                raise ConfigError(f"{part!r} in PARTS is none of: {', '.join(KINDS)}")
            entries.append((self.parts[kind], part.model_fields["name"].default, part, kind))
        for method in getattr(module, "METHODS", ()):
            if not isinstance(method, SpanMethod | TokenMethod):
                raise ConfigError(f"{method!r} in METHODS is no SpanMethod or TokenMethod")
            entries.append((self.methods, method.name, method, "method"))
        for table, name, value, kind in entries:
            if not isinstance(name, str):
                raise ConfigError(f"{value!r} in PARTS has no name; give it one: name: Literal[...] = ...")
            if table.get(name, value) is not value:
                raise ConfigError(
                    f"two {kind} entries are called {name!r}; uninstall one of the packages that bring them"
                )
        for table, name, value, _ in entries:
            table[name] = value

    def method(self, name: str) -> Method:
        """The preset with this name."""
        if name not in self.methods:
            raise ConfigError(f"there is no method {name!r}; choose {', '.join(sorted(self.methods))}")
        return self.methods[name]

    def choices(self, kind: str, level: str = "span") -> Mapping[str, type[Part]]:
        """The parts of a kind (``head`` is one, too, of which each level has its own)."""
        return HEADS[level] if kind == "head" else self.parts[kind]


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Everything that is installed."""
    found = Registry()
    for module in _own_modules():
        found.add(module)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found.add(point.load())
        except Exception as error:  # somebody else's package must not keep ours from working
            logger.warning("The methods of %s (%s) cannot be loaded: %s", point.name, point.value, error)
    return found


def _own_modules() -> Iterable[Any]:
    package = importlib.import_module(__package__)
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        yield importlib.import_module(f"{__package__}.{info.name}")
