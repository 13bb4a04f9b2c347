"""Atomic writing of files and folders, safe against killed processes and power failures.

Everything is written under a temporary name next to its target (``.NAME.RANDOM.lacuner``), flushed to disk with ``fsync``,
and renamed; the rename is durable once its folder is flushed, too. A writer locks what it writes, so that the next one can
tell leftovers of a killed process from files that are still being written.
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
"""Maximum bytes of a name used in a temporary one; systems allow 255."""
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
"""System errors that are never caused by a bug of this program."""


class WriteError(DataError, OSError):
    """A file or folder that could not be written, and was left unchanged."""

    def __init__(self, error: OSError | str, path: str | Path, remedy: str | None = None) -> None:
        self._arguments = (error, path, remedy)
        number = None if isinstance(error, str) else error.errno
        what = error if isinstance(error, str) else error.strerror or str(error)
        super().__init__(what, remedy or _REMEDIES.get(number or 0, "choose another path"), path)
        self.errno = number

    def __reduce__(self) -> Any:
        return type(self), self._arguments  # must be picklable: worker processes raise it, too


@contextmanager
def reporting(path: str | Path) -> Iterator[None]:
    """Turn system errors in this context into errors about writing ``path``."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(error, path) from error


def target_of(path: str | Path) -> Path:
    """The target of ``path``: a symbolic link is kept, and the file that it points to is replaced."""
    return Path(os.path.realpath(path))


@contextmanager
def new_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a temporary file, renamed to ``path`` if the context ends without an error; until then, an existing file stays.

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
    """Yield a temporary folder to fill, renamed to ``path`` if the context ends without an error.

    Args:
        path: its final name.
        replace: whether it replaces an existing folder; otherwise that is an error.
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
    finally:  # the temporary name now holds an unfinished folder, or the one that was replaced
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def scratch_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder next to ``path``, deleted on exit, along with leftovers of killed processes."""
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
    """Check before long work that its result can be written.

    Args:
        path: the file or folder to be written.
        folder: whether it will be a folder, which replaces an existing one.
    """
    with reporting(path):
        target = target_of(path)
        if not folder and target.exists() and not target.is_file():
            return  # a device or a pipe is written, not replaced
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
    """Restore a folder that a killed process had renamed in order to replace it.

    Only needed where the system cannot exchange two folders atomically, so that for a moment neither has the name.
    """
    target = target_of(path)
    if os.path.lexists(target):
        return
    for previous in _temporary_names(target, ".previous"):
        with suppress(OSError):
            descriptor = _lock(previous, wait=True)  # the process that was replacing it has finished or died
            try:
                if not os.path.lexists(target) and previous.is_dir():
                    os.rename(previous, target)
                    sync_folder(target.parent)
            finally:
                os.close(descriptor)


def remove_leftovers(path: str | Path) -> None:
    """Remove leftovers of killed processes that were writing ``path``; files being written are locked, and kept."""
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
    """Flush a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by some network file systems
            raise
    finally:
        os.close(descriptor)


def umask() -> int:
    """The process's umask, which temporary files do not follow by themselves."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _File(io.FileIO):
    """A file whose errors name the final path."""

    def __init__(self, descriptor: int, path: str | Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: Any, /) -> int:
        with reporting(self._path):
            return os.write(self.fileno(), data)


def _put_in_place(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; afterwards ``new`` is the previous target, or gone."""
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
    """Exchange two folders atomically; False if the system or file system cannot."""
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
                os.chmod(path, mode)  # safetensors writes files readable by their owner only
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


def _stem(target: Path) -> str:
    name = target.name
    return f".{name if len(os.fsencode(name)) <= _MAX_NAME else hashlib.sha256(os.fsencode(name)).hexdigest()}."


def _temporary_names(target: Path, kind: str = "") -> list[Path]:
    """Temporary files and folders of ``target``, of any process; ``kind`` is their suffix."""
    stem, found = _stem(target), []
    with suppress(OSError):  # errors of the folder are reported when writing to it
        for name in os.listdir(target.parent):
            middle = name.removeprefix(stem).removesuffix(kind + _ENDING)
            if name == f"{stem}{middle}{kind}{_ENDING}" and "." not in middle and len(middle) == 16:
                found.append(target.parent / name)
    return found


def _new_locked(target: Path, folder: bool) -> tuple[int, Path]:
    """Create a locked temporary file or folder next to ``target``; while the descriptor is open, it is no leftover."""
    while True:
        temporary = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}{_ENDING}")
        if folder:
            temporary.mkdir(0o700)
        else:
            os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        try:
            return _lock(temporary, os.O_RDONLY if folder else os.O_RDWR), temporary
        except (FileNotFoundError, BlockingIOError):
            continue  # another process has cleaned it up
        except BaseException:
            with suppress(OSError):
                temporary.rmdir() if folder else temporary.unlink()
            raise


def _lock(path: Path, flags: int = os.O_RDONLY, wait: bool = False) -> int:
    """Open and lock ``path``; the lock is held while the descriptor is open and the process lives."""
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
