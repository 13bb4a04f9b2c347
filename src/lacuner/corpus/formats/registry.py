"""Registry of formats: those in this folder, and those of packages with an entry point ``lacuner.formats``."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lacuner.corpus.files import STANDARD_INPUT, name_of
from lacuner.corpus.formats.format import Format, Reader, Writer
from lacuner.errors import DataError, did_you_mean
from lacuner.registry import Registry


def all_formats() -> Mapping[str, Format]:
    """All formats by name, including those of installed packages."""
    return _installed()


def get_format(name: str) -> Format:
    """The format of this name."""
    found = _own().get(name) or all_formats().get(name)
    if found is None:
        raise DataError(
            f"there is no format {name!r}{did_you_mean(name, all_formats())}",
            f"choose {_choice(all_formats().values())}",
        )
    return found


def guess_format(path: str | Path) -> Format | None:
    """Guess the format from a file's extension, or a folder's content; our own take precedence."""
    name, folder = name_of(path), Path(path) if Path(path).is_dir() else None
    for known in (_own, _installed):  # search other packages only if needed
        fitting = [
            (len(ending), found)
            for found in known().values()
            for ending in found.endings
            if name.endswith(ending) and name != ending
        ]
        if folder is not None:
            fitting = [(0, found) for found in known().values() if found.fits_folder(folder)] or fitting
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
    return None


def format_of(path: str | Path, name: str | None = None) -> Format:
    """The requested format, or else that of the file's extension."""
    if name is not None:
        return get_format(name)
    found = guess_format(path)
    if found is None and Path(path).is_dir():
        patterns = sorted(pattern for known in all_formats().values() for pattern in known.folder_files)
        what, files = "nothing in the folder tells the format", ", ".join(patterns)
        raise DataError(what, f"give the format, one of the files in it, or a folder with one of: {files}", path)
    if found is None and str(path) == STANDARD_INPUT:
        what = "what comes or goes through a pipe has no name that tells its format"
        raise DataError(what, f"give the format ({_choice(all_formats().values())})", path)
    if found is None:
        endings = sorted(ending for known in all_formats().values() for ending in known.endings)
        what, formats = "the name does not tell the format", _choice(all_formats().values())
        raise DataError(what, f"give the format ({formats}), or end the name in {', '.join(endings)}", path)
    return found


def reader_of(path: str | Path, name: str | None = None) -> Reader:
    """The reader of this file."""
    found = format_of(path, name)
    if found.read is None:
        readable = _choice(other for other in all_formats().values() if other.read)
        raise DataError(f"the format {found.name} can be written, but not read", f"choose {readable}", path)
    return found.read


def writable_format(path: str | Path, name: str | None = None) -> Format:
    """The format of a file or folder to write."""
    found = format_of(path, name)
    if not found.can_be_written:
        writable = _choice(other for other in all_formats().values() if other.can_be_written)
        raise DataError(f"the format {found.name} can be read, but not written", f"choose {writable}", path)
    return found


def writer_of(path: str | Path, name: str | None = None) -> Writer:
    """The writer of this text file."""
    found = writable_format(path, name)
    if found.write is None:
        what = f"the format {found.name} cannot be written incrementally"
        raise DataError(what, "write jsonl and convert it with lacuner convert", path)
    return found.write


def _choice(formats: Iterable[Format]) -> str:
    *most, last = sorted(known.name for known in formats)
    return f"{', '.join(most)} or {last}"


def _own() -> Mapping[str, Format]:
    return _REGISTRY.own["FORMATS"]


def _installed() -> Mapping[str, Format]:
    return _REGISTRY.installed["FORMATS"]


def _common_ending(entry: Format, other: Format) -> str | None:
    for ending in sorted(set(entry.endings).intersection(other.endings)):
        return f"the formats {entry.name!r} and {other.name!r} both have the ending {ending!r}"
    return None


_REGISTRY = Registry(
    "lacuner.corpus.formats", presets={"FORMATS": Format}, group="lacuner.formats", conflict=_common_ending
)
