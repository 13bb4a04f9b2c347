"""Opening corpus files: encodings, compression, standard input, and what was odd about their contents."""

import bz2
import gzip
import io
import logging
import os
import select
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from lacuner.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
_PIPE = 1 << 16
"""Bytes that are read from standard input at a time, if they are there: what a pipe holds."""
_SHOWN_FIELDS = 20
"""How many fields the report names; a file may have a different one in every record."""
COMPRESSED = (".gz", ".bz2", ".zst")
"""Endings of compressed files, which come after the ending that tells the format."""
Unit = Literal["line", "block", "row group", "file"]
"""What is never cut: a line of text or JSON Lines; a block of lines between empty ones, as in column files; a row group of
Parquet; or the whole file."""


@dataclass(frozen=True)
class FileRange:
    """The lines or blocks of a file that begin in the bytes ``[begin, end)``, or its row groups ``begin`` to ``end - 1``."""

    begin: int
    end: int
    unit: Unit = "line"

    def locate(self, path: str | Path, line: int) -> str:
        """Where a line is that was counted from the first one of this range on."""
        if self.unit == "row group":
            return f"{path}, row {line:,} from row group {self.begin} on"
        if is_url(path):  # everything before it would have to be read
            return f"{path}, line {line:,} after byte {self.begin:,}"
        return f"{path}:{line + self._lines_before(path)}"

    def _lines_before(self, path: str | Path) -> int:
        """It takes reading the file up to here, and so is asked only for errors."""
        count, left, last = 0, self.begin, b"\n"
        with open(path, "rb") as file:
            while left and (read := file.read(min(left, 2**20))):
                count, left, last = count + read.count(b"\n"), left - len(read), read[-1:]
        return count + (last != b"\n")


@dataclass
class ReadingReport:
    """What a reader had to repair or leave out, counted, each with the first line where it happened.

    With ``strict`` the first such thing is an error instead.

    Attributes:
        strict: whether it is.
        counts: how often something of a kind was repaired or left out.
        examples: the first of each kind.
        remarks: how the file was read where it could have been read otherwise; no error even with ``strict``.
        unread: names of fields that are kept but not interpreted, and how many records have them.
        range: what is read of the file, if it is not the whole.
        format_option: what the command calls the format of what it reads; remedies name it.
    """

    strict: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    range: FileRange | None = None
    format_option: str = "--format"

    def note(
        self, kind: str, detail: str, remedy: str, path: str | Path, line: int, is_remedy_shown: bool = False
    ) -> None:
        """Count one oddity of this ``kind``; its remedy is for those who are strict, unless it is what everybody has to do."""
        if self.strict:
            raise DataError(detail, remedy, path, line)
        self.counts[kind] += 1
        if kind not in self.examples:
            where = f"{path}:{line}" if self.range is None else self.range.locate(path, line)
            self.examples[kind] = f"{where}: {detail}" + (f" — {remedy}" if is_remedy_shown else "")

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
            logger.info("fields that are kept but not interpreted: %s", ", ".join(fields + more))

    def __add__(self, other: "ReadingReport") -> "ReadingReport":
        return ReadingReport(
            self.strict or other.strict,
            self.counts + other.counts,
            other.examples | self.examples,
            self.remarks | other.remarks,
            self.unread + other.unread,
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "counts": self.counts,
            "examples": self.examples,
            "remarks": list(self.remarks),
            "unread": self.unread,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ReadingReport":
        """What :meth:`as_dict` has described."""
        remarks = dict.fromkeys(content["remarks"])
        return cls(False, Counter(content["counts"]), dict(content["examples"]), remarks, Counter(content["unread"]))


def read_lines(path: str | Path, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file, without byte order mark. ``-`` is standard input; compressed files are unpacked.

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
    """The bytes of a file or a URL. ``-`` is standard input; ``.gz``, ``.bz2`` and ``.zst`` are unpacked.

    What the system has against it is a ``DataError``.
    """
    with _reporting(path), _unpacked(path) as file:
        yield file


@contextmanager
def open_seekable(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file or a URL as they are, to be read from anywhere."""
    with _reporting(path), _open_stored(path) as file:
        yield file


@contextmanager
def _reporting(path: str | Path) -> Iterator[None]:
    try:
        yield
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
    """The file's name without ``.gz`` and the like, in lower case; its ending says which format it has."""
    name = Path(path).name.lower()
    packed = next(filter(name.endswith, COMPRESSED), "")
    return name.removesuffix(packed)


def is_compressed(path: str | Path) -> bool:
    """Whether the name says so."""
    return str(path).lower().endswith(COMPRESSED)


def is_url(path: str | Path) -> bool:
    """Whether fsspec is asked for it: ``s3://bucket/name``."""
    return not isinstance(path, Path) and "://" in path


class FileState(NamedTuple):
    """What tells whether a file has changed.

    Attributes:
        size: in bytes.
        modified: when, in nanoseconds; of what a URL names, the mark that its store gives it, if any.
    """

    size: int
    modified: str

    @classmethod
    def of_info(cls, info: Mapping[str, Any]) -> "FileState":
        """From what a file system of fsspec says about a file."""
        marks = (info[key] for key in ("ETag", "etag", "mtime", "LastModified", "updated", "created") if info.get(key))
        return cls(int(info.get("size") or 0), str(next(marks, "")))


def state_of(path: str | Path) -> FileState:
    """The state of a file, or of what a URL names."""
    with _reporting(path):
        if is_url(path):
            filesystem, name = filesystem_of(path)
            return FileState.of_info(filesystem.info(name))
        found = os.stat(path)
        return FileState(found.st_size, str(found.st_mtime_ns))


def filesystem_of(url: str | Path) -> tuple[Any, str]:
    """The file system of a URL, as fsspec knows it, and the path there."""
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(str(url))
    except (ImportError, ValueError) as error:  # the package of the protocol is missing, or nobody knows it
        raise ConfigError(f"{url}: {error} — fsspec opens it; its documentation says which package knows it") from None
    return filesystem, path


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
                if os.path.isdir(path) and not os.path.exists(out):
                    inside = f"{option} lies in the folder {path}, into which this command does not write"
                    raise DataError(inside, "give a place outside of it", out)
                raise DataError(f"{option} would overwrite {what}", "give it another name", out)


def _would_overwrite(out: str | Path, other: str | Path) -> bool:
    if os.path.exists(out) and os.path.exists(other):
        if not (os.path.isfile(out) or os.path.isdir(out)):  # a device or a pipe is written, but not replaced
            return False
        if os.path.samefile(out, other):
            return True
    ours, theirs = Path(out).resolve(), Path(other).resolve()
    return ours == theirs or ours in theirs.parents or (os.path.isdir(other) and theirs in ours.parents)


def _open_stored(path: str | Path) -> BinaryIO:
    if is_url(path):
        filesystem, name = filesystem_of(path)
        return cast(BinaryIO, io.BufferedReader(filesystem.open(name, "rb"), 1 << 20))
    return open(path, "rb")


@contextmanager
def _unpacked(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == STANDARD_INPUT:
        with io.BufferedReader(cast(io.RawIOBase, _KeepOpen(sys.stdin.buffer)), _PIPE) as stream:
            yield cast(BinaryIO, stream)
        return
    name = str(path).lower()
    with _open_stored(path) as stored:
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=stored) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif name.endswith(".bz2"):
            with bz2.BZ2File(stored) as unpacked_bz2:
                yield cast(BinaryIO, unpacked_bz2)
        elif name.endswith(".zst"):
            with _unpack_zstd(stored, path) as unpacked_zstd:
                yield unpacked_zstd
        else:
            yield stored


@contextmanager
def _unpack_zstd(stored: BinaryIO, path: str | Path) -> Iterator[BinaryIO]:
    try:
        import zstandard
    except ImportError:
        what = "zstd files cannot be read, because the package zstandard is not installed"
        raise DataError(what, "install it with: pip install zstandard", path) from None
    try:
        reader = cast(Any, _ZstdReader(stored, zstandard.ZstdDecompressor().decompressobj))
        with io.BufferedReader(reader, 1 << 20) as unpacked:
            yield cast(BinaryIO, unpacked)
    except zstandard.ZstdError as error:
        raise DataError(f"the file is damaged ({error})", "compress it again", path) from None


class _ZstdReader(io.RawIOBase):
    """One frame of zstd after the other. A file that ends inside of one is damaged; the library's reader does not say so."""

    def __init__(self, stored: BinaryIO, new_frame: Callable[[], Any]) -> None:
        self._stored, self._new_frame = stored, new_frame
        self._frame: Any = None
        self._packed, self._unpacked = b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._unpacked:
            self._packed = self._packed or self._stored.read(1 << 17)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the compressed data is truncated")
                return 0
            self._frame = self._frame or self._new_frame()
            self._unpacked, self._packed = self._frame.decompress(self._packed), b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._unpacked))
        buffer[:count], self._unpacked = self._unpacked[:count], self._unpacked[count:]
        return count


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
