"""Result folders on disk or in a store supported by fsspec. Files are written atomically."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from lacuner.corpus.files import filesystem_of, is_url
from lacuner.errors import ConfigError
from lacuner.storage import new_file, remove_leftovers
from lacuner.streams.locks import exclusive

_LOCK = ".lock"
_PATIENCE = 10.0
"""Seconds for workers of a killed run to notice it, and release its lock."""


class Folder(Protocol):
    """A folder for results, possibly written by workers on other machines."""

    def names(self, inside: str = "") -> set[str]:
        """Names of the entries in the folder, or in a subfolder."""
        ...

    def create(self, inside: str = "") -> None:
        """Create the folder, or a subfolder, if missing."""
        ...

    def read(self, name: str) -> BinaryIO:
        """Open a file in it for reading."""
        ...

    def write(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file for atomic writing."""
        ...

    def claimed(self) -> contextlib.AbstractContextManager[None]:
        """Lock the folder against other runs, if the storage supports it."""
        ...

    def clean(self) -> None:
        """Remove leftovers of killed processes."""
        ...


def folder_at(path: str | Path) -> Folder:
    """Create a folder from a user-given path or URL."""
    return RemoteFolder(str(path).rstrip("/")) if is_url(path) else LocalFolder(Path(path))


@dataclass(frozen=True)
class LocalFolder:
    """A folder on a local or shared disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self, inside: str = "") -> set[str]:
        """See :class:`Folder`."""
        return set(os.listdir(self.path / inside)) - {_LOCK}

    def create(self, inside: str = "") -> None:
        """See :class:`Folder`."""
        (self.path / inside).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> BinaryIO:
        """See :class:`Folder`."""
        return (self.path / name).open("rb")

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """See :class:`Folder`."""
        with new_file(self.path / name) as file:
            yield file

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """See :class:`Folder`."""
        busy = f"another run is writing to {self.path} — wait for it to finish, or choose another folder"
        with exclusive(self.path / _LOCK, busy, _PATIENCE):
            yield

    def clean(self) -> None:
        """See :class:`Folder`."""
        for parent, _, names in os.walk(self.path):
            targets = {_target(name) for name in names if name.startswith(".") and name.endswith(".lacuner")}
            for target in targets:
                remove_leftovers(Path(parent, target))


@dataclass(frozen=True)
class RemoteFolder:
    """A folder in an object store, by URL.

    A file is written locally, uploaded under a temporary name, and renamed. There are no locks: two concurrent runs both do
    all the work, with identical results.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def names(self, inside: str = "") -> set[str]:
        """See :class:`Folder`."""
        filesystem, path = filesystem_of(f"{self.url}/{inside}".rstrip("/"))
        filesystem.invalidate_cache()
        try:
            found = filesystem.ls(path, detail=False)
        except FileNotFoundError:  # stores have no empty folders
            return set()
        return {name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != path.rstrip("/")}

    def create(self, inside: str = "") -> None:
        """See :class:`Folder`."""
        filesystem, path = filesystem_of(f"{self.url}/{inside}".rstrip("/"))
        try:
            filesystem.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.url}: {error} — choose another folder") from error

    def read(self, name: str) -> BinaryIO:
        """See :class:`Folder`."""
        filesystem, path = filesystem_of(f"{self.url}/{name}")
        return cast(BinaryIO, filesystem.open(path, "rb"))

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """See :class:`Folder`."""
        filesystem, path = filesystem_of(f"{self.url}/{name}")
        parent, _, base = path.rpartition("/")
        with tempfile.NamedTemporaryFile() as file:
            yield cast(BinaryIO, file)
            file.flush()
            temporary = f"{parent}/.{base}.{secrets.token_hex(8)}.lacuner"
            filesystem.put_file(file.name, temporary)
            filesystem.mv(temporary, path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """See :class:`Folder`."""
        yield

    def clean(self) -> None:
        """See :class:`Folder`."""
        for inside in ("", "_summaries"):
            for name in self.names(inside):
                if name.startswith(".") and name.endswith(".lacuner"):
                    filesystem, path = filesystem_of(f"{self.url}/{inside}/{name}" if inside else f"{self.url}/{name}")
                    with contextlib.suppress(OSError):
                        filesystem.rm_file(path)


def copy_file(folder: Folder, name: str, out: BinaryIO) -> None:
    """Append a file of a folder to ``out``."""
    with folder.read(name) as file:
        shutil.copyfileobj(file, out, 1 << 20)


def _target(temporary: str) -> str:
    """The final name of a temporary file: ``.NAME.RANDOM.lacuner``."""
    return temporary.removeprefix(".").removesuffix(".lacuner").rpartition(".")[0]
