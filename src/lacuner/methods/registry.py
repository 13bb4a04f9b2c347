"""Registry of methods and parts: those in this folder, and those from the entry-point group ``lacuner.methods``."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from lacuner import registry as registries
from lacuner.errors import ConfigError, did_you_mean
from lacuner.heads import REGISTRY as HEADS
from lacuner.methods.method import Method, SpanMethod, TokenMethod
from lacuner.parts import Part

LEVELS: dict[str, type[Method]] = {"span": SpanMethod, "token": TokenMethod}


class Registry(registries.Registry):
    """Methods by name, and parts by kind; a module of methods may also provide heads, and new kinds of parts."""

    def __init__(self) -> None:
        kinds = {base.__name__: base for method in LEVELS.values() for base in method.part_types.values()}
        kinds = {name: base for name, base in kinds.items() if base not in HEADS.kinds.values()}
        super().__init__(__package__, kinds, {"METHODS": Method}, includes=[HEADS])

    def _listed(self, module: Any) -> Iterator[tuple[str, Any]]:
        for method in getattr(module, "METHODS", ()):
            if isinstance(method, Method):
                self._add_kinds(method)
        yield from super()._listed(module)

    def _add_kinds(self, method: Method) -> None:
        """Register kinds of parts that only this method's class has."""
        for base in method.part_types.values():
            if not any(issubclass(base, known) for known in self.kinds.values()):
                self.kinds[f"{base.__module__}.{base.__qualname__}"] = base

    @property
    def methods(self) -> Mapping[str, Method]:
        """All presets, by name."""
        return self.entries("METHODS")

    def method(self, name: str) -> Method:
        """The preset of this name."""
        if name not in self.methods:
            meant = did_you_mean(name, self.methods)
            raise ConfigError(f"there is no method {name!r}{meant}; choose {', '.join(sorted(self.methods))}")
        return self.methods[name]

    def method_class(self, name: object, level: object) -> type[Method]:
        """The class of a stored method; that of its level if the package is missing or a stage has changed the level."""
        if isinstance(name, str) and name in self.methods and self.methods[name].level == level:
            return type(self.methods[name])
        if not isinstance(level, str) or level not in LEVELS:
            raise ConfigError(f"method.level={level!r}: there are methods of the levels {', '.join(LEVELS)}")
        return LEVELS[level]

    def part_kinds(self) -> tuple[str, ...]:
        """The kinds of parts that methods consist of, as named in settings."""
        classes: list[type[Method]] = [*LEVELS.values(), *(type(method) for method in self.methods.values())]
        return tuple(dict.fromkeys(kind for method in classes for kind in method.kinds()))

    def choices(self, kind: str, method: type[Method] | Method) -> Mapping[str, type[Part]]:
        """The parts of a kind that are compatible with this method."""
        level: str = method.level if isinstance(method, Method) else method.model_fields["level"].default
        base = method.part_types[kind]
        parts = [part for listed, table in self.installed.items() if listed in self.kinds for part in table.items()]
        return {
            name: part for name, part in parts if issubclass(part, base) and level in getattr(part, "levels", (level,))
        }


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The registry of everything installed."""
    return Registry()
