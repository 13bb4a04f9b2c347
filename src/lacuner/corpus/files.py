"""Opening corpus files: encodings, compression, standard input, and what was odd about their contents."""

import gzip
import io
import logging
import os
import select
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from lacuner.errors import DataError

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
_PIPE = 1 << 16
"""Bytes that are read from standard input at a time, if they are there: what a pipe holds."""
_SHOWN_FIELDS = 20
"""How many fields the report names; a file may have a different one in every record."""


@dataclass
class ReadingReport:
    """What a reader had to repair or leave out, counted, each with the first line where it happened.

    With ``strict`` the first such thing is an error instead.

    Attributes:
        strict: whether it is.
        counts: how often something of a kind was repaired or left out.
        examples: the first of each kind.
        remarks: how the file was read where it could have been read otherwise; no error even with ``strict``.
        unread: names of fields that are handed on without being read, and how many records have them.
    """

    strict: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, detail: str, remedy: str, path: str | Path, line: int) -> None:
        """Count one oddity of this ``kind``."""
        if self.strict:
            raise DataError(detail, remedy, path, line)
        self.counts[kind] += 1
        self.examples.setdefault(kind, f"{path}:{line}: {detail}")

    def remark(self, what: str, path: str | Path) -> None:
        """Say once how the file is read."""
        self.remarks.setdefault(f"{path}: {what}")

    def log(self) -> None:
        """Tell the user, one line a kind."""
        for kind, count in self.counts.items():
            logger.warning("%s: %d; the first: %s", kind, count, self.examples[kind])
        for remark in self.remarks:
            logger.info("%s", remark)
        if self.unread:
            fields = [f"{name} ({count})" for name, count in self.unread.most_common(_SHOWN_FIELDS)]
            more = [f"{len(self.unread) - _SHOWN_FIELDS} more"] if len(self.unread) > _SHOWN_FIELDS else []
            logger.info("fields that are handed on without being read: %s", ", ".join(fields + more))

    def __add__(self, other: "ReadingReport") -> "ReadingReport":
        return ReadingReport(
            self.strict or other.strict,
            self.counts + other.counts,
            other.examples | self.examples,
            self.remarks | other.remarks,
            self.unread + other.unread,
        )


def read_lines(path: str | Path, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file, without byte order mark. ``-`` is standard input; ``.gz`` is unpacked.

    Args:
        path: the file.
        keep_ends: whether lines have their ends, as they are in the file.
    """
    with open_binary(path) as file:
        for number, raw in enumerate(file, 1):
            line = decode_line(raw, path, number)
            yield number, line + raw[len(raw.rstrip(b"\r\n")) :].decode() if keep_ends else line


@contextmanager
def open_binary(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file. ``-`` is standard input; ``.gz`` is unpacked. What the system has against it is a ``DataError``."""
    try:
        with _open(path) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(what, "check the path and the file", path) from error


def read_text(path: str | Path) -> str:
    """The whole of a UTF-8 file as it is, with a byte order mark and whatever line ends it has."""
    with open_binary(path) as file:
        content = file.read()
    return _decode(content, path, 1)


def decode_line(raw: bytes, path: str | Path, number: int) -> str:
    """A line of a UTF-8 file, without line end; the first one may begin with a byte order mark."""
    line = _decode(raw, path, number).rstrip("\r\n")
    if number == 1 and not raw.endswith(b"\n") and "\r" in line:
        what = "lines end in carriage returns, as on old Macs, and not in line feeds"
        raise DataError(what, "convert it: tr '\\r' '\\n'", path)
    return line.removeprefix("\ufeff") if number == 1 else line


def _decode(raw: bytes, path: str | Path, number: int) -> str:
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError("the file is UTF-16, not UTF-8", "convert it: iconv -f utf-16 -t utf-8", path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        line = number + raw.count(b"\n", 0, error.start)
        raise DataError(what, "convert the file, e.g. iconv -f latin1 -t utf-8", path, line) from None


def name_of(path: str | Path) -> str:
    """The file's name without ``.gz``, in lower case; its ending says which format it has."""
    return Path(path).name.lower().removesuffix(".gz")


def refuse_overwriting(
    out: str | Path, others: Mapping[str, Sequence[str | Path | None]], option: str = "--out"
) -> None:
    """Refuse to write over a file that the same command reads, or writes besides.

    Two spellings of a path, symbolic links and hard links are the same file. A folder stands for everything in it: a
    file inside a model folder that is read is refused, and so is a folder that is replaced with a file that is read in it.
    ``-`` and ``None`` are no files.

    Args:
        out: the file or folder to write.
        others: the paths it must not be, by what the error calls them: ``{"the dictionary": [path]}``.
        option: the command-line option that names ``out``.
    """
    if str(out) == STANDARD_INPUT:
        return
    for what, paths in others.items():
        for path in paths:
            if path is not None and str(path) != STANDARD_INPUT and _would_overwrite(out, path):
                raise DataError(f"{option} would overwrite {what}", "give it another name", out)


def _would_overwrite(out: str | Path, other: str | Path) -> bool:
    if os.path.exists(out) and os.path.exists(other):
        if not (os.path.isfile(out) or os.path.isdir(out)):  # a device or a pipe is written, but not replaced
            return False
        if os.path.samefile(out, other):
            return True
    ours, theirs = Path(out).resolve(), Path(other).resolve()
    return ours == theirs or ours in theirs.parents or (os.path.isdir(other) and theirs in ours.parents)


def _open(path: str | Path) -> BinaryIO:
    if str(path) == STANDARD_INPUT:
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, _KeepOpen(sys.stdin.buffer)), _PIPE))
    if str(path).lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return open(path, "rb")


class _KeepOpen(io.RawIOBase):
    """Standard input seen through a handle that may be closed without closing standard input itself.

    What is there is read without waiting for more, so that a line can be answered before the next one is written. The
    buffer is left out: a thread that waits for its lock would keep the process from ending.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: io.RawIOBase = getattr(stream, "raw", cast(io.RawIOBase, stream))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while (data := self._stream.read(len(buffer))) is None:  # another process has made it non-blocking
            select.select([self._stream], [], [])
        buffer[: len(data)] = data
        return len(data)
