"""Calls of the system that fail at a chosen moment."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lacuner import storage
from lacuner.errors import LacunerError
from lacuner.features import stored

CALLS: dict[str, tuple[Any, ...]] = {
    "write": ((os, "write"), (Path, "write_text"), (stored, "save_file")),
    "fsync": ((os, "fsync"),),
    "rename": ((os, "rename"), (os, "replace"), (storage, "_exchange")),
    "create": ((os, "open"), (os, "mkdir")),
    "lock": ((storage, "_lock"),),
}
"""What can fail, by what the user would call it."""


def full() -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def failing(what: str, number: int, error: Callable[[], BaseException] = full) -> Iterator[list[str]]:
    """The ``number``-th of these calls raises an error; the list has the names of all calls."""
    calls: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                raise error()
            return real(*arguments, **keywords)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS[what]:
            patch.setattr(owner, name, counted(name, getattr(owner, name)))
        yield calls


@contextmanager
def always_failing(what: str, error: Callable[[], BaseException]) -> Iterator[None]:
    """All such calls raise an error, unless they are about what is not ours: terminals, and files that are read."""

    def refused(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            terminal = arguments[0] in (1, 2)
            reading = name == "open" and not str(arguments[0]).endswith(".lacuner")
            if terminal or reading:
                return real(*arguments, **keywords)
            raise error()

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS[what]:
            patch.setattr(owner, name, refused(name, getattr(owner, name)))
        yield


def fail_everywhere(
    what: str,
    operation: Callable[[], object],
    check: Callable[[], None],
    error: Callable[[], BaseException] = full,
) -> int:
    """Let each call fail in turn until the operation is done without; ``check`` is asked after every failure.

    Returns:
        the number of failures.
    """
    for number in itertools.count(1):
        said = None
        with failing(what, number, error) as calls:
            try:
                operation()
                if len(calls) < number:
                    return number - 1
            except LacunerError as raised:
                said = str(raised)
            except MemoryError:
                pass
        if said is not None:
            assert " — " in said, said
            assert "\n" not in said, said
        check()
    raise AssertionError
