"""Shards: byte ranges of files that are worked on independently, on any machine that sees the file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from lacuner.corpus.files import STANDARD_INPUT, decode_line, read_lines
from lacuner.errors import DataError

Unit = Literal["line", "block"]
"""What is never cut: a line of text or JSON Lines, or a block of lines between empty ones, as in column files."""
DEFAULT_SIZE = 64 * 2**20


@dataclass(frozen=True, order=True)
class Shard:
    """The lines, or blocks of lines, of a file that begin in the bytes ``[begin, end)``."""

    path: Path
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.path}, bytes {self.begin:,} to {self.end:,}"


def cut_into_shards(path: str | Path, size: int = DEFAULT_SIZE) -> list[Shard]:
    """Shards of ``size`` bytes that cover a file; one shard if the file is compressed, none if it is empty."""
    if size < 1:
        raise ValueError("a shard has at least one byte")
    path = Path(path)
    if str(path) == STANDARD_INPUT or (path.exists() and not path.is_file()):
        raise DataError("only files can be cut into shards", "save it to a file first", path)
    try:
        length = path.stat().st_size
    except OSError as error:
        raise DataError(error.strerror or str(error), "check the path", path) from error
    step = max(length, 1) if _is_compressed(path) else size
    return [Shard(path, begin, min(begin + step, length)) for begin in range(0, length, step)]


def read_shard(shard: Shard, unit: Unit = "line") -> Iterator[str]:
    """The lines of a shard, without line ends. All shards of a file together have every line of it exactly once."""
    if _is_compressed(shard.path):
        yield from (line for _, line in read_lines(shard.path))
        return
    try:
        with shard.path.open("rb") as file:
            first = _next_line(file, shard.begin)
            after_empty = _is_after_empty_line(file, first)
            file.seek(first)
            outside = unit == "block" and not after_empty  # in a block that begins in an earlier shard
            position = first
            for raw in file:
                begins = unit == "line" or after_empty
                if position >= shard.end and begins:
                    break
                after_empty = not raw.strip()
                outside = outside and not after_empty
                if not outside:
                    yield _decode(raw, shard.path, position)
                position += len(raw)
    except OSError as error:
        raise DataError(error.strerror or str(error), "check the path and the file", shard.path) from error


def _decode(raw: bytes, path: Path, position: int) -> str:
    try:
        return decode_line(raw, path, 1 if position == 0 else 2)
    except DataError as error:
        if error.line is None:
            raise
        raise DataError(error.what, error.remedy, path, _line_number(path, position)) from None


def _line_number(path: Path, position: int) -> int:
    """The number of the line that begins at ``position``; it takes reading the file, and so is asked only for errors."""
    with path.open("rb") as file:
        count, left = 1, position
        while left and (read := file.read(min(left, 2**20))):
            count, left = count + read.count(b"\n"), left - len(read)
    return count


def _next_line(file: BinaryIO, position: int) -> int:
    """Where the first line begins that begins at ``position`` or later."""
    if position == 0:
        return 0
    file.seek(position - 1)
    file.readline()
    return file.tell()


def _is_after_empty_line(file: BinaryIO, position: int) -> bool:
    """Whether the line before the one at ``position`` is empty; the beginning of the file counts as empty."""
    end = position - 1  # of the line before, without its line feed
    while end > 0:
        begin = max(0, end - 4096)
        file.seek(begin)
        _, feed, line = file.read(end - begin).rpartition(b"\n")
        if line.strip():
            return False
        if feed:
            return True
        end = begin
    return True


def _is_compressed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")
