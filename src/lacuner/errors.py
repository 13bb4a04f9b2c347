"""Errors that a user can correct: one sentence that says what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class LacunerError(Exception):
    """Base of all errors that Lacuner raises on purpose. The command line prints them without a traceback."""


class DataError(LacunerError):
    """A corpus that cannot be read as it is: ``file:line: what — what to do``."""

    def __init__(self, what: str, remedy: str, path: str | Path | None = None, line: int | None = None) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(f"{where}{what} — {remedy}")
        self.what, self.remedy, self.path, self.line = what, remedy, path, line

    def __reduce__(self) -> tuple[type["DataError"], tuple[str, str, str | Path | None, int | None]]:
        return type(self), (self.what, self.remedy, self.path, self.line)  # picklable, for worker processes


class ConfigError(LacunerError):
    """A setting that does not exist, or has an invalid value."""


class ModelError(LacunerError):
    """A model folder that cannot be loaded."""


class TrainingError(LacunerError):
    """Training that cannot start, continue, or be resumed."""


class ProcessLostError(TrainingError):
    """Another process training the same model has ended, and this one cannot continue without it."""


def described(error: BaseException) -> str:
    """The message of an error, preceded by its type unless it is a :class:`LacunerError`.

    >>> described(ConfigError("there is no such setting")), described(ValueError("seven"))
    ('there is no such setting', 'ValueError: seven')
    """
    return str(error) if isinstance(error, LacunerError) else f"{type(error).__name__}: {error}"


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Suggestion to append to an unknown name: the one that was probably meant, at least as similar as ``cutoff``.

    >>> did_you_mean("unifrom", ["full", "uniform"])
    ' (did you mean uniform?)'
    >>> did_you_mean("magic", ["full", "uniform"])
    ''
    """
    close = get_close_matches(name, list(known), n=1, cutoff=cutoff) if isinstance(name, str) else []
    return f" (did you mean {close[0]}?)" if close else ""
