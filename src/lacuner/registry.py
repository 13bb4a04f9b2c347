"""Open registries: the entries of a package's own modules, and those that installed packages add through entry points."""

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from lacuner.errors import ConfigError

logger = logging.getLogger(__name__)

Tables = dict[str, dict[str, Any]]
"""Entries by kind and name."""


class Registry:
    """Named entries of several kinds, discovered on demand.

    A module lists the part classes that it defines in ``PARTS``, and named instances (presets) under the names given by
    ``presets``. To add an entry to one of our packages, add a module to its folder; another package names its module in the
    entry-point group. A third-party module that cannot be imported, or whose entries conflict with others, is skipped with a
    warning.

    Args:
        package: whose modules are searched, excluding subpackages.
        kinds: user-facing names of the kinds of parts, and the base class of each.
        presets: for each further list of a module, such as ``METHODS``, the class of its instances, which have a ``name``.
        group: of entry points; by default the name of the package.
        conflict: says why two entries of a kind with different names exclude each other, if they do.
        includes: registries whose entries are included in this one.
    """

    def __init__(
        self,
        package: str,
        kinds: Mapping[str, type] | None = None,
        presets: Mapping[str, type] | None = None,
        group: str | None = None,
        conflict: Callable[[Any, Any], str | None] = lambda entry, other: None,
        includes: "Sequence[Registry]" = (),
    ) -> None:
        self.package = package
        self.kinds: dict[str, type] = {}
        for other in includes:
            self.kinds |= other.kinds
        self.kinds |= kinds or {}
        self.presets = dict(presets or {})
        self.group = group or package
        self.conflict = conflict
        self.includes = tuple(includes)
        self.lists = ("PARTS", *self.presets) if self.kinds else tuple(self.presets)

    def entries(self, kind: str) -> Mapping[str, Any]:
        """The part classes of a kind, or the presets of a list, by name."""
        assert kind in self.kinds or kind in self.presets, kind
        return _Entries(self, kind)

    @cached_property
    def own(self) -> Tables:
        """The entries of the package itself."""
        tables: Tables = {kind: {} for kind in (*self.kinds, *self.presets)}
        for other in self.includes:
            tables |= {kind: dict(table) for kind, table in other.own.items()}
        folder = importlib.import_module(self.package).__path__
        for name in sorted(info.name for info in pkgutil.iter_modules(folder)):
            self._add(tables, importlib.import_module(f"{self.package}.{name}"))
        return tables

    @cached_property
    def installed(self) -> Tables:
        """All entries: those of the package itself, and those of other packages."""
        tables = {kind: dict(table) for kind, table in self.own.items()}
        for other in self.includes:
            for kind, table in other.installed.items():
                for name, entry in table.items():
                    if tables[kind].setdefault(name, entry) is not entry:
                        logger.warning("%r is left out: there is another %s %r", entry, kind, name)
        for point in sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value)):
            try:
                module = point.load()
                if not any(hasattr(module, name) for name in self.lists):
                    raise ConfigError(f"it has no {' or '.join(self.lists)}")
                self._add(tables, module)
            except Exception as error:  # a broken third-party package must not break ours
                logger.warning("%s (entry point %r of %s) is left out: %s", point.value, point.name, self.group, error)
        return tables

    def _add(self, tables: Tables, module: Any) -> None:
        """Add all entries of a module, or none if any is invalid."""
        found: list[tuple[str, str, Any]] = []
        for kind, entry in self._listed(module):
            name = _name_of(entry)
            others = {**tables.get(kind, {}), **{n: e for k, n, e in found if k == kind}}
            if others.get(name, entry) is not entry:
                what = f"{kind} entries" if kind in self.kinds else kind.lower()
                raise ConfigError(f"two {what} are called {name!r}; uninstall one of the packages that bring them")
            for other in others.values():
                if other is not entry and (reason := self.conflict(entry, other)):
                    raise ConfigError(reason)
            found.append((kind, name, entry))
        for kind, name, entry in found:
            tables.setdefault(kind, {})[name] = entry

    def _listed(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Yield the entries of a module with their kinds."""
        for part in getattr(module, "PARTS", ()) if self.kinds else ():
            bases = self.kinds.items() if isinstance(part, type) else ()
            kind = next((kind for kind, base in bases if issubclass(part, base)), None)
            if kind is None:
                raise ConfigError(f"{part!r} in PARTS is none of: {', '.join(self.kinds)}")
            yield kind, part
        for attribute, base in self.presets.items():
            for preset in getattr(module, attribute, ()):
                if not isinstance(preset, base):
                    raise ConfigError(f"{preset!r} in {attribute} is no {base.__name__}")
                yield attribute, preset


def _name_of(entry: Any) -> str:
    is_class = isinstance(entry, type)
    name = entry.model_fields["name"].default if is_class else entry.name
    if not isinstance(name, str):
        raise ConfigError(f"{entry!r} in PARTS has no name; give it one: name: Literal[...] = ...")
    return name


class _Entries(Mapping[str, Any]):
    """The entries of one kind. Other packages are imported only for names that are not ours, or to list all names."""

    def __init__(self, registry: Registry, kind: str) -> None:
        self._registry = registry
        self._kind = kind

    def __getitem__(self, name: str) -> Any:
        own = self._registry.own[self._kind]
        return own[name] if name in own else self._registry.installed[self._kind][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.installed[self._kind])

    def __len__(self) -> int:
        return len(self._registry.installed[self._kind])
