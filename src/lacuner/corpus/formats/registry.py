"""Every format there is: those in this folder, and those of packages with an entry point ``lacuner.formats``."""

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from lacuner.corpus.files import name_of
from lacuner.corpus.formats.format import Format, Reader, Writer
from lacuner.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

ENTRY_POINTS = "lacuner.formats"


def all_formats() -> Mapping[str, Format]:
    """Formats by name, those of installed packages among them."""
    return _installed()


def get_format(name: str) -> Format:
    """The format with this name."""
    found = _own().get(name) or all_formats().get(name)
    if found is None:
        raise DataError(f"there is no format {name!r}", f"choose {_choice(all_formats().values())}")
    return found


def guess_format(path: str | Path) -> Format | None:
    """The format that a file's ending tells, if it tells one; ours are looked at first."""
    name = name_of(path)
    for known in (_own, _installed):  # packages are looked for only where they may be needed
        fitting = [
            (len(ending), found)
            for found in known().values()
            for ending in found.endings
            if name.endswith(ending) and name != ending
        ]
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
    return None


def format_of(path: str | Path, name: str | None = None) -> Format:
    """The format that is asked for, or else the one that the file's ending tells."""
    if name is not None:
        return get_format(name)
    found = guess_format(path)
    if found is None:
        endings = sorted(ending for known in all_formats().values() for ending in known.endings)
        what, formats = "the name does not tell the format", _choice(all_formats().values())
        raise DataError(what, f"give the format ({formats}), or end the name in {', '.join(endings)}", path)
    return found


def reader_of(path: str | Path, name: str | None = None) -> Reader:
    """Reads this file."""
    found = format_of(path, name)
    if found.read is None:
        readable = _choice(other for other in all_formats().values() if other.read)
        raise DataError(f"the format {found.name} can be written, but not read", f"choose {readable}", path)
    return found.read


def writer_of(path: str | Path, name: str | None = None) -> Writer:
    """Writes this file."""
    found = format_of(path, name)
    if found.write is None:
        writable = _choice(other for other in all_formats().values() if other.write)
        raise DataError(f"the format {found.name} can be read, but not written", f"choose {writable}", path)
    return found.write


def _choice(formats: Iterable[Format]) -> str:
    *most, last = sorted(known.name for known in formats)
    return f"{', '.join(most)} or {last}"


@lru_cache(maxsize=1)
def _own() -> dict[str, Format]:
    found: dict[str, Format] = {}
    package = importlib.import_module(__package__)
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        _add(found, importlib.import_module(f"{__package__}.{info.name}"))
    return found


@lru_cache(maxsize=1)
def _installed() -> dict[str, Format]:
    found = dict(_own())
    for point in entry_points(group=ENTRY_POINTS):
        try:
            _add(found, point.load())
        except Exception as error:  # somebody else's package must not keep ours from working
            logger.warning("The formats of %s (%s) cannot be loaded: %s", point.name, point.value, error)
    return found


def _add(known: dict[str, Format], module: Any) -> None:
    """Take what a module lists in ``FORMATS``: everything, or nothing if something is wrong with it."""
    new: dict[str, Format] = {}
    for entry in getattr(module, "FORMATS", ()):
        if not isinstance(entry, Format):
            raise ConfigError(f"{entry!r} in FORMATS is no Format")
        others = (known | new).values()
        if any(entry.name == other.name for other in others):
            raise ConfigError(f"two formats are called {entry.name!r}")
        for other in others:
            for ending in sorted(set(entry.endings).intersection(other.endings)):
                raise ConfigError(f"the formats {entry.name!r} and {other.name!r} both have the ending {ending!r}")
        new[entry.name] = entry
    known |= new
