"""Reading parts of a file such that together they yield every line, or every block of lines, exactly once."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from lacuner.corpus.files import FileRange, decode_line, open_seekable, read_lines
from lacuner.errors import DataError

T = TypeVar("T")

_STEP = 1 << 20
_BLANK = b" \t\r\n"


def lines_of(
    path: str | Path, range: FileRange | None, keep_ends: bool = False, mark: bytes | None = None
) -> Iterator[tuple[int, str]]:
    """Yield lines of a file, or a range of it, numbered from the first line that begins there.

    Args:
        path: the file.
        range: by default the whole file, which may then be compressed.
        keep_ends: whether to keep line ends.
        mark: prefix of lines that apply to the following block; such a line is repeated before a range that begins with that
            block.
    """
    if range is None:
        yield from read_lines(path, keep_ends)
        return
    with open_seekable(path) as file:
        position = _next_line(file, range.begin, range.end)
        if position is None:
            return
        after_empty = _is_after_empty_line(file, position)
        before = b"" if mark is None else _last_line(file, position)  # the last non-empty line before the range
        file.seek(position)
        blocks = range.unit == "block"
        outside = blocks and not after_empty  # in a block that begins in an earlier range
        for number, raw in enumerate(file, 1):
            if position >= range.end and (not blocks or after_empty or outside):
                break
            after_empty = not raw.strip(_BLANK)
            outside = outside and not after_empty
            if not after_empty and not outside and mark is not None:
                if before.startswith(mark):
                    yield number - 1, before.decode("utf-8", "replace") + "\n" * keep_ends
                mark = None
            elif outside:
                before = raw.rstrip(_BLANK)
            if not outside:
                text = _decode(raw, path, position, number)
                yield number, text + (raw[len(raw.rstrip(b"\r\n")) :].decode() if keep_ends else "")
            position += len(raw)


@contextmanager
def locating(path: str | Path, range: FileRange | None) -> Iterator[None]:
    """Translate line numbers in errors to positions of the file, given those of the range."""
    try:
        yield
    except DataError as error:
        if range is None or error.line is None or str(error.path) != str(path):
            raise
        where = range.locate(path, error.line).removeprefix(f"{path}")
        if where.startswith(":"):
            raise DataError(error.what, error.remedy, path, int(where[1:])) from None
        raise DataError(f"{where.removeprefix(', ')}: {error.what}", error.remedy, path) from None


def until_error(items: Iterable[T]) -> Iterator[T]:
    """Yield items up to the first that cannot be read; the error is raised by the reader of the range that contains it."""
    with suppress(DataError):
        yield from items


def _decode(raw: bytes, path: str | Path, position: int, number: int) -> str:
    try:
        return decode_line(raw, path, 1 if position == 0 else 2)  # only the start of a file has a byte order mark
    except DataError as error:
        if error.line is None:
            raise
        raise DataError(error.what, error.remedy, path, number) from None


def _next_line(file: BinaryIO, position: int, end: int) -> int | None:
    """Offset of the first line that begins at or after ``position``; ``None`` if that is not before ``end``."""
    if position == 0:
        return 0
    at = position - 1
    file.seek(at)
    while at < end and (read := file.read(min(_STEP, end - at))):
        found = read.find(b"\n")
        if found >= 0:
            return at + found + 1 if at + found + 1 < end else None
        at += len(read)
    return None


def _is_after_empty_line(file: BinaryIO, position: int) -> bool:
    """Whether the line before the one at ``position`` is empty; the start of the file counts as empty."""
    end = position - 1  # of the line before, without its line feed
    while end > 0:
        begin = max(0, end - 4096)
        file.seek(begin)
        _, feed, line = file.read(end - begin).rpartition(b"\n")
        if line.strip(_BLANK):
            return False
        if feed:
            return True
        end = begin
    return True


def _last_line(file: BinaryIO, position: int) -> bytes:
    """The last non-empty line before ``position``, or its end if it is long."""
    end = position
    while end > 0:
        begin = max(0, end - 4096)
        file.seek(begin)
        text = file.read(end - begin).rstrip(_BLANK)
        if text:
            return text.rpartition(b"\n")[2]
        end = begin
    return b""
