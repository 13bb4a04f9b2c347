"""Opening corpus files: encodings, compression, standard input, and reports of irregularities."""

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
"""Maximum bytes read from standard input at a time: the capacity of a pipe."""
_SHOWN_FIELDS = 20
"""Number of fields named in a report; a file may have different ones in every record."""
COMPRESSED = (".gz", ".bz2", ".zst")
"""Extensions of compressed files, which follow that of the format."""
Unit = Literal["line", "block", "row group", "file"]
"""What is never split: a line of text or JSON Lines; a block of lines between empty ones, as in column files; a Parquet row
group; or the whole file.
"""


@dataclass(frozen=True)
class FileRange:
    """The lines or blocks of a file that begin in the bytes ``[begin, end)``, or its row groups ``begin`` to ``end - 1``."""

    begin: int
    end: int
    unit: Unit = "line"

    def locate(self, path: str | Path, line: int) -> str:
        """Describe the position of a line that was counted from the start of this range."""
        if self.unit == "row group":
            return f"{path}, row {line:,} from row group {self.begin} on"
        if is_url(path):  # counting lines would mean reading everything before
            return f"{path}, line {line:,} after byte {self.begin:,}"
        return f"{path}:{line + self._lines_before(path)}"

    def _lines_before(self, path: str | Path) -> int:
        """Reads the file up to here, so it is only used for errors."""
        count, left, last = 0, self.begin, b"\n"
        with open(path, "rb") as file:
            while left and (read := file.read(min(left, 2**20))):
                count, left, last = count + read.count(b"\n"), left - len(read), read[-1:]
        return count + (last != b"\n")


@dataclass
class ReadingReport:
    """What a reader repaired or skipped, counted by kind, each with its first occurrence.

    With ``strict``, the first irregularity is an error instead.

    Attributes:
        strict: whether irregularities are errors.
        counts: number of repairs and omissions of each kind.
        examples: the first of each kind.
        remarks: how the file was read where that was ambiguous; never an error.
        unread: names of fields that are passed on without being interpreted, and the number of records with them.
        range: the part of the file that is read, if not all of it.
        format_option: command-line option for the input format, named in remedies.
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
        """Count an irregularity of this ``kind``; the remedy is shown in strict mode, or always with ``is_remedy_shown``."""
        if self.strict:
            raise DataError(detail, remedy, path, line)
        self.counts[kind] += 1
        if kind not in self.examples:
            where = f"{path}:{line}" if self.range is None else self.range.locate(path, line)
            self.examples[kind] = f"{where}: {detail}" + (f" — {remedy}" if is_remedy_shown else "")

    def remark(self, what: str, path: str | Path) -> None:
        """Record once how the file is read."""
        self.remarks.setdefault(f"{path}: {what}")

    def log(self) -> None:
        """Log the report, one line per kind."""
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
        """For JSON."""
        return {
            "counts": self.counts,
            "examples": self.examples,
            "remarks": list(self.remarks),
            "unread": self.unread,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ReadingReport":
        """Inverse of :meth:`as_dict`."""
        remarks = dict.fromkeys(content["remarks"])
        return cls(False, Counter(content["counts"]), dict(content["examples"]), remarks, Counter(content["unread"]))


def read_lines(path: str | Path, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of a UTF-8 file, without byte order mark. ``-`` is standard input; compressed files are unpacked.

    Args:
        path: the file.
        keep_ends: whether to keep line ends.
    """
    with open_binary(path) as file:
        for number, raw in enumerate(file, 1):
            line = decode_line(raw, path, number)
            yield number, line + raw[len(raw.rstrip(b"\r\n")) :].decode() if keep_ends else line


@contextmanager
def open_binary(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file or URL for reading bytes. ``-`` is standard input; ``.gz``, ``.bz2`` and ``.zst`` are unpacked.

    System errors become a ``DataError``.
    """
    with _reporting(path), _unpacked(path) as file:
        yield file


@contextmanager
def open_seekable(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file or URL for random access to its raw bytes."""
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
    """Read a whole UTF-8 file unchanged, including byte order mark and line ends."""
    with open_binary(path) as file:
        content = file.read()
    return _decode(content, path, 1)


def decode_line(raw: bytes, path: str | Path, number: int) -> str:
    """Decode a line of a UTF-8 file, without line end; the first one may begin with a byte order mark."""
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
    """The file name in lower case, without ``.gz`` and the like; its extension determines the format."""
    name = Path(path).name.lower()
    packed = next(filter(name.endswith, COMPRESSED), "")
    return name.removesuffix(packed)


def is_compressed(path: str | Path) -> bool:
    """Whether the name has a compression suffix."""
    return str(path).lower().endswith(COMPRESSED)


def is_url(path: str | Path) -> bool:
    """Whether fsspec handles it: ``s3://bucket/name``."""
    return not isinstance(path, Path) and "://" in path


class FileState(NamedTuple):
    """A file's state, to detect changes.

    Attributes:
        size: in bytes.
        modified: modification time in nanoseconds; for a URL, the tag given by its store, if any.
    """

    size: int
    modified: str

    @classmethod
    def of_info(cls, info: Mapping[str, Any]) -> "FileState":
        """From fsspec's information about a file."""
        marks = (info[key] for key in ("ETag", "etag", "mtime", "LastModified", "updated", "created") if info.get(key))
        return cls(int(info.get("size") or 0), str(next(marks, "")))


def state_of(path: str | Path) -> FileState:
    """The state of a file or URL."""
    with _reporting(path):
        if is_url(path):
            filesystem, name = filesystem_of(path)
            return FileState.of_info(filesystem.info(name))
        found = os.stat(path)
        return FileState(found.st_size, str(found.st_mtime_ns))


def filesystem_of(url: str | Path) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it."""
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(str(url))
    except (ImportError, ValueError) as error:  # the protocol's package is missing, or the protocol is unknown
        raise ConfigError(f"{url}: {error} — fsspec opens it; its documentation says which package knows it") from None
    return filesystem, path


def refuse_overwriting(
    out: str | Path, others: Mapping[str, Sequence[str | Path | None]], option: str = "--out"
) -> None:
    """Refuse to overwrite a file that the same command reads, or another of its outputs.

    Different spellings of a path, symbolic links and hard links are the same file. A folder stands for everything in it: a
    file in a model folder that is read must not be overwritten, nor a folder replaced that contains an input file. ``-`` and
    ``None`` are no files.

    Args:
        out: the file or folder to write.
        others: the paths that it must not be, by their description in the error: ``{"the dictionary": [path]}``.
        option: the command-line option for ``out``.
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
        if not (os.path.isfile(out) or os.path.isdir(out)):  # a device or a pipe is written, not replaced
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
    """Reads consecutive zstd frames, and detects truncated files, which the library's reader does not."""

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
    """Standard input behind a handle that can be closed without closing standard input itself.

    Available data is returned without waiting for more, so that a line can be answered before the next one is written. It
    bypasses the buffer: a thread blocked on the buffer's lock would keep the process from exiting.
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
