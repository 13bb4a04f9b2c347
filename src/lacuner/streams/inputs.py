"""Expansion of input arguments: files, folders, patterns, and URLs supported by fsspec."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from lacuner.corpus.files import STANDARD_INPUT, filesystem_of, is_url
from lacuner.corpus.formats.registry import guess_format
from lacuner.errors import DataError
from lacuner.streams.shards import InputFile

_PATTERN = "*?["


def expand(arguments: Iterable[str | Path]) -> list[str | Path]:
    """Expand to single files and URLs, in order: a folder stands for all files in it, a pattern for its matches.

    Names in folders that begin with a dot or an underscore are skipped, as by other tools. A folder that is a corpus by
    itself, such as one of brat, is kept.
    """
    return [file for argument in arguments for file in _files_of(argument)]


def with_states(paths: Iterable[str | Path]) -> list[InputFile]:
    """The files with their state, to detect changes."""
    return [InputFile.of(path) for path in paths]


def matches_files(argument: str) -> bool:
    """Whether it is a pattern with matching files."""
    try:
        found = glob.iglob(argument, recursive=True) if any(sign in argument for sign in _PATTERN) else iter(())
        return next(found, None) is not None
    except (OSError, ValueError):  # not a valid file name on this system
        return False


def stands_for(argument: str | Path, path: str) -> bool:
    """Whether a file that does not exist yet would be matched by a folder or pattern."""
    if is_url(argument) != is_url(path):
        return False
    given, file = (_parts(each if is_url(argument) else os.path.realpath(each)) for each in (str(argument), path))
    if os.path.isdir(argument) and guess_format(Path(argument)) is not None:
        return False
    if (is_url(argument) or os.path.isdir(argument)) and len(file) > len(given) and file[: len(given)] == given:
        return all(map(_is_visible, file[len(given) :]))
    if os.path.exists(argument):
        return False
    parents = (file[:end] for end in range(len(file) + 1))  # a pattern may match a folder, which stands for its files
    return any(_fits(parent, given) and all(map(_is_visible, file[len(parent) :])) for parent in parents)


def _parts(path: str) -> list[str]:
    return path.rstrip("/").split("/")


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match in the same way as ``glob``."""
    if not pattern:
        return not parts
    visible = bool(parts) and (not parts[0].startswith(".") or pattern[0].startswith("."))
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or (visible and _fits(parts[1:], pattern))
    return visible and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _files_of(argument: str | Path) -> Iterator[str | Path]:
    if is_url(argument):
        yield from _remote_files(str(argument))
    elif str(argument) == STANDARD_INPUT or os.path.exists(argument):
        path = Path(argument)
        yield from _files_in(path) if path.is_dir() and guess_format(path) is None else [path]
    elif any(sign in str(argument) for sign in _PATTERN):
        found = sorted(glob.glob(str(argument), recursive=True))
        if not found:
            raise DataError("no file fits the pattern", "check it", argument)
        for name in found:
            yield from _files_of(Path(name))
    else:
        raise DataError("there is no such file", "check the path", argument)


def _files_in(folder: Path) -> Iterator[Path]:
    found = [
        Path(parent, name)
        for parent, folders, names in os.walk(folder)
        if _keep_visible(folders)
        for name in names
        if _is_visible(name)
    ]
    if not found:
        raise DataError("there is no file in the folder", "check the path", folder)
    yield from sorted(found)


def _keep_visible(folders: list[str]) -> bool:
    folders[:] = filter(_is_visible, folders)
    return True


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_"))


def _remote_files(url: str) -> Iterator[str]:
    filesystem, path = filesystem_of(url)
    try:
        if any(sign in path for sign in _PATTERN):
            found = sorted(name for name, info in filesystem.glob(path, detail=True).items() if info["type"] == "file")
        elif filesystem.isdir(path):
            inside = (name for name in filesystem.find(path) if name != path)
            found = sorted(name for name in inside if all(map(_is_visible, _below(path, name))))
        else:
            found = [path] if filesystem.exists(path) else []
    except OSError as error:
        raise DataError(str(error), "check the URL, and what the store asks for", url) from error
    if not found:
        raise DataError("there is no such file", "check the URL", url)
    yield from (filesystem.unstrip_protocol(name) for name in found)


def _below(folder: str, name: str) -> list[str]:
    return name.removeprefix(folder.rstrip("/")).strip("/").split("/")
