"""Every method and part there is: those in this folder, and those of packages with an entry point ``lacuner.methods``."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lacuner import registry as registries
from lacuner.errors import ConfigError
from lacuner.heads import SPAN_HEADS, TAG_HEADS
from lacuner.methods.method import Method, SpanMethod, TokenMethod
from lacuner.parts import Part

LEVELS: dict[str, type[Method]] = {"span": SpanMethod, "token": TokenMethod}
HEADS: dict[str, Mapping[str, type[Part]]] = {"span": SPAN_HEADS, "token": TAG_HEADS}


class Registry(registries.Registry):
    """Methods by name, and parts by level and kind."""

    def __init__(self) -> None:
        bases = {base.__name__: base for method in LEVELS.values() for base in method.part_types.values()}
        heads = {head.__name__ for head in (SpanMethod.part_types["head"], TokenMethod.part_types["head"])}
        kinds = {name: base for name, base in bases.items() if name not in heads}
        super().__init__(__package__, kinds, {"METHODS": Method})

    @property
    def methods(self) -> Mapping[str, Method]:
        """All presets, by name."""
        return self.entries("METHODS")

    def method(self, name: str) -> Method:
        """The preset with this name."""
        if name not in self.methods:
            raise ConfigError(f"there is no method {name!r}; choose {', '.join(sorted(self.methods))}")
        return self.methods[name]

    def method_class(self, name: object, level: object) -> type[Method]:
        """The class of a stored method; where its package is gone, that of its level."""
        if isinstance(name, str) and name in self.methods:
            return type(self.methods[name])
        if not isinstance(level, str) or level not in LEVELS:
            raise ConfigError(f"method.level={level!r}: there are methods of the levels {', '.join(LEVELS)}")
        return LEVELS[level]

    def part_kinds(self) -> tuple[str, ...]:
        """The kinds of parts that methods of any level consist of, as settings call them."""
        return tuple(dict.fromkeys(kind for method in LEVELS.values() for kind in method.kinds()))

    def choices(self, kind: str, method: type[Method] | Method) -> Mapping[str, type[Part]]:
        """The parts of a kind that such a method can have."""
        level: str = method.level if isinstance(method, Method) else method.model_fields["level"].default
        if kind == "head":
            return {name: head for name, head in HEADS[level].items() if issubclass(head, method.part_types[kind])}
        parts: Mapping[str, Any] = self.entries(method.part_types[kind].__name__)
        return {name: part for name, part in parts.items() if level in part.levels}


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Everything that is installed."""
    return Registry()
