"""What is to be searched: files, texts on the command line, or standard input."""

import os
import re
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from lacuner.corpus.files import STANDARD_INPUT
from lacuner.errors import ConfigError, DataError
from lacuner.streams.inputs import expand, matches_files

_ENDING = re.compile(r"[^\s.]\.[A-Za-z]\w{1,9}(\.gz|\.bz2|\.zst)?\s*$")
"""``my data.conll``; not ``He left Turin.``, ``in the U.S.`` or ``version 2.5``."""
_FOLDER = re.compile(r"\s*(~|\.{0,2})/|[A-Za-z]:\\")
"""``/home/me/my data``, ``./my data``, ``../my data``, ``~/my data``, ``C:\\my data``."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


class Url(str):
    """What a URL names, which is a file or a folder, and no text."""


def sort_inputs(arguments: Sequence[str], texts: Sequence[str]) -> list[Path | str]:
    """Files as paths, URLs, patterns and folders as what they name, and texts as strings.

    What exists is a file, and so is a URL, or a pattern that fits files. Several words that are no file are a text, unless
    they look like the name of a file: a name that is mistyped must not be searched for entities. One word that is no file
    may be meant either way, and is refused. Without any argument, what is piped into the command is read.

    Args:
        arguments: files or texts.
        texts: what is a text in any case.
    """
    if not arguments and not texts:
        if not _has_piped_input():
            raise ConfigError(
                'there is nothing to read — give files, a text in quotes, or --text "…"; - is standard input'
            )
        return [Path(STANDARD_INPUT)]
    return [*(item for argument in arguments for item in _inputs_of(argument)), *texts]


def files_of_inputs(inputs: Sequence[Path | str]) -> list[Path | str]:
    """Those of the inputs that are no texts."""
    return [item for item in inputs if isinstance(item, Path | Url)]


def _inputs_of(argument: str) -> list[Path | str]:
    if _URL.fullmatch(argument):
        return [Url(url) for url in expand([argument])]
    if argument == STANDARD_INPUT or _exists(argument) or matches_files(argument):
        return expand([argument])
    return [_text_of(argument)]


def _exists(argument: str) -> bool:
    try:
        return os.path.exists(argument)
    except ValueError:  # of a character that no name has
        return False


def _text_of(argument: str) -> str:
    if "\n" in argument or (len(argument.split()) > 1 and not _looks_like_a_path(argument)):
        return argument
    shown = argument if len(argument) <= 40 else f"{argument[:40]}…"
    remedy = f"check the path; if it is a text: --text {shlex.quote(shown)}"
    raise DataError("there is no such file", remedy, argument)


def _looks_like_a_path(argument: str) -> bool:
    parent = os.path.dirname(argument)
    return bool(_ENDING.search(argument) or _FOLDER.match(argument) or (parent and os.path.isdir(parent)))


def is_waited_for(inputs: Sequence[Path | str]) -> bool:
    """Whether somebody types the input, or a program pipes it, and may want answers before it ends."""
    mode = _mode_of_standard_input()
    return Path(STANDARD_INPUT) in inputs and mode is not None and (_is_pipe(mode) or sys.stdin.isatty())


def _has_piped_input() -> bool:
    mode = _mode_of_standard_input()
    return mode is not None and (_is_pipe(mode) or stat.S_ISREG(mode))


def _is_pipe(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _mode_of_standard_input() -> int | None:
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # there is none, or it is no file
        return None
