"""Files and folders that are written as a whole or not at all, also if the process is killed or the power fails.

Everything is written under a temporary name beside its target (``.NAME.RANDOM.lacuner``), brought to the disk with
``fsync``, and renamed; the rename counts once its folder is on the disk, too. A writer holds a lock on what it writes, so
that the next one can tell what a killed process has left behind from what another is still writing.
"""

import ctypes
import errno
import hashlib
import io
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from lacuner.errors import DataError

_ENDING = ".lacuner"
_MAX_NAME = 200
"""Bytes of a name that a temporary one can be made of; systems allow 255."""
_REMEDIES = {
    errno.ENOSPC: "make room, or choose another disk",
    errno.EDQUOT: "make room, or choose another disk",
    errno.EFBIG: "the system limits the size of files; choose another disk, or raise the limit",
    errno.EROFS: "the disk can only be read; choose another one",
    errno.EACCES: "get the permission to write there, or choose another path",
    errno.EPERM: "get the permission to write there, or choose another path",
    errno.EIO: "the disk may be broken; choose another one",
    errno.ENAMETOOLONG: "choose a shorter name",
}
DISK_ERRORS = frozenset(_REMEDIES) - {errno.EPERM}
"""What is never a mistake of this program."""


class WriteError(DataError, OSError):
    """A file or folder that could not be written, and was left as it was."""

    def __init__(self, error: OSError | str, path: str | Path, remedy: str | None = None) -> None:
        self._arguments = (error, path, remedy)
        number = None if isinstance(error, str) else error.errno
        what = error if isinstance(error, str) else error.strerror or str(error)
        super().__init__(what, remedy or _REMEDIES.get(number or 0, "choose another path"), path)
        self.errno = number

    def __reduce__(self) -> Any:
        return type(self), self._arguments  # worker processes raise it, too


@contextmanager
def reporting(path: str | Path) -> Iterator[None]:
    """Errors of the system inside are about writing ``path``."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(error, path) from error


def target_of(path: str | Path) -> Path:
    """Where something called ``path`` is written: a symbolic link stays, and what it points to is replaced."""
    return Path(os.path.realpath(path))


@contextmanager
def new_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file that takes its name when the context ends without an error; until then, what had that name stays.

    Raises:
        WriteError: it could not be written. Errors of other files that the context reads or writes pass unchanged.
    """
    with reporting(path):
        target = target_of(path)
        remove_leftovers(target)
        descriptor, temporary = _new_locked(target, folder=False)
    try:
        with io.BufferedWriter(_File(descriptor, path)) as file:
            yield file
            with reporting(path):
                file.flush()
                os.fsync(descriptor)
                os.chmod(temporary, 0o666 & ~umask())
                os.replace(temporary, target)
        with reporting(path):
            sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def new_folder(path: str | Path, replace: bool = True) -> Iterator[Path]:
    """A folder to fill, which takes its name when the context ends without an error.

    Args:
        path: its name.
        replace: whether it takes the place of a folder that has this name; otherwise that is an error.
    """
    with reporting(path):
        target = target_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        recover_folder(target)
        remove_leftovers(target)
        descriptor, temporary = _new_locked(target, folder=True)
    try:
        yield temporary
        with reporting(path):
            _sync_tree(temporary)
            temporary.chmod(0o777 & ~umask())
            _put_in_place(temporary, target) if replace else os.rename(temporary, target)
            sync_folder(target.parent)
    finally:  # what is left under the temporary name is an unfinished folder, or the one that was replaced
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def scratch_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder beside ``path`` that is gone when the context ends; what killed processes have left there is, too."""
    with reporting(path):
        target = target_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
        descriptor, temporary = _new_locked(target, folder=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


def try_writing(path: str | Path, folder: bool = False) -> None:
    """See before long work that its result can be written.

    Args:
        path: the file or folder that will be.
        folder: whether it will be a folder, which replaces one that is there.
    """
    with reporting(path):
        target = target_of(path)
        if not folder and target.exists() and not target.is_file():
            return  # a device or a pipe is written, but not replaced
        if folder:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and (os.path.ismount(target) or target == Path.cwd()):
                raise WriteError("this folder cannot be replaced", path, "choose a folder in it")
            if target.is_dir() and not os.access(target, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        descriptor, temporary = _new_locked(target, folder)
        os.close(descriptor)
        temporary.rmdir() if folder else temporary.unlink()


def recover_folder(path: str | Path) -> None:
    """Give a folder its name back that a killed process had taken away to replace it.

    Only needed where the system cannot exchange two folders: there is a moment then in which neither has the name.
    """
    target = target_of(path)
    if os.path.lexists(target):
        return
    for previous in _temporary_names(target, ".previous"):
        with suppress(OSError):
            descriptor = _lock(previous, wait=True)  # whoever is replacing it has finished, or is dead
            try:
                if not os.path.lexists(target) and previous.is_dir():
                    os.rename(previous, target)
                    sync_folder(target.parent)
            finally:
                os.close(descriptor)


def remove_leftovers(path: str | Path) -> None:
    """Remove what killed processes have left behind when they wrote ``path``; what is being written is locked, and stays."""
    target = target_of(path)
    replaced = _temporary_names(target, ".previous") if os.path.lexists(target) else []
    for left in [*_temporary_names(target), *replaced]:
        with suppress(OSError):
            descriptor = _lock(left)
            try:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems have no such thing
            raise
    finally:
        os.close(descriptor)


def umask() -> int:
    """The permissions that the user takes away from new files; temporary ones do not follow it by themselves."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _File(io.FileIO):
    """Its errors name the file that it will be."""

    def __init__(self, descriptor: int, path: str | Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any, /) -> int:
        with reporting(self._path):
            return os.write(self.fileno(), data)


def _put_in_place(new: Path, target: Path) -> None:
    """Afterwards ``target`` is what ``new`` was; ``new`` is what ``target`` was, or gone."""
    if not os.path.lexists(target):
        os.rename(new, target)
    elif not _exchange(new, target):
        descriptor = _lock(target)
        previous = new.with_name(f"{new.name.removesuffix(_ENDING)}.previous{_ENDING}")
        try:
            os.rename(target, previous)
            try:
                os.rename(new, target)
            except BaseException:
                os.rename(previous, target)
                raise
            shutil.rmtree(previous, ignore_errors=True)
        finally:
            os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Give two folders each other's names at once; false if the system or the disk cannot."""
    name, swap = {"linux": ("renameat2", 2), "darwin": ("renameatx_np", 2)}.get(sys.platform, (None, 0))
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is None:
        return False
    here = {"linux": -100, "darwin": -2}[sys.platform]  # AT_FDCWD
    if function(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number))


def _sync_tree(folder: Path) -> None:
    mode = 0o666 & ~umask()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.chmod(path, mode)  # safetensors writes files that nobody else may read
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


def _stem(target: Path) -> str:
    name = target.name
    return f".{name if len(os.fsencode(name)) <= _MAX_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()}."


def _temporary_names(target: Path, kind: str = "") -> list[Path]:
    """Temporary files and folders of ``target``, of any process; ``kind`` is the end of their names."""
    stem, found = _stem(target), []
    with suppress(OSError):  # whoever writes there says what is wrong with the folder
        for name in os.listdir(target.parent):
            middle = name.removeprefix(stem).removesuffix(kind + _ENDING)
            if name == f"{stem}{middle}{kind}{_ENDING}" and "." not in middle and len(middle) == 16:
                found.append(target.parent / name)
    return found


def _new_locked(target: Path, folder: bool) -> tuple[int, Path]:
    """A new temporary file or folder beside ``target``; nobody takes it for a leftover as long as the descriptor is open."""
    while True:
        temporary = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}{_ENDING}")
        if folder:
            temporary.mkdir(0o700)
        else:
            os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        try:
            return _lock(temporary, os.O_RDONLY if folder else os.O_RDWR), temporary
        except (FileNotFoundError, BlockingIOError):
            continue  # somebody who cleans up was faster
        except BaseException:
            with suppress(OSError):
                temporary.rmdir() if folder else temporary.unlink()
            raise


def _lock(path: Path, flags: int = os.O_RDONLY, wait: bool = False) -> int:
    """A descriptor of ``path`` that holds a lock on it, as long as it is open and the process lives."""
    import fcntl

    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.path.samestat(os.stat(path), os.fstat(descriptor)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
