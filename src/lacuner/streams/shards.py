"""Shards: parts of files that are processed independently, on any machine that can access the files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lacuner.corpus.corpus import unit_of_texts
from lacuner.corpus.files import STANDARD_INPUT, FileRange, FileState, Unit, is_compressed, is_url, state_of
from lacuner.corpus.ranges import lines_of, locating
from lacuner.errors import DataError

DEFAULT_SIZE = 16 * 2**20
"""Default bytes of a shard. The work of a killed worker is repeated, so a shard should take minutes at most."""
_MAX_SHARDS = 1000
"""Maximum number of shards in a batch."""


@dataclass(frozen=True)
class Shard:
    """A part of a file: what begins in the bytes ``[begin, end)``, or the row groups ``begin`` to ``end - 1`` of Parquet.

    Attributes:
        path: a file, or a URL.
        begin: where it begins.
        end: where it ends.
        unit: what is never split. A ``file`` is read as a whole.
    """

    path: str | Path
    begin: int
    end: int
    unit: Unit = "line"

    @property
    def range(self) -> FileRange | None:
        """The range of the file to read; ``None``: all."""
        return None if self.unit == "file" else FileRange(self.begin, self.end, self.unit)

    def __str__(self) -> str:
        if self.unit == "row group":
            return f"{self.path}, row group {self.begin}"
        return f"{self.path}, bytes {self.begin:,} to {self.end:,}"


@dataclass(frozen=True)
class Batch:
    """Shards that are processed together, such as many small files.

    Attributes:
        first: index of the first shard.
        shards: consecutive shards.
    """

    first: int
    shards: tuple[Shard, ...]

    @property
    def end(self) -> int:
        """Index after the last shard."""
        return self.first + len(self.shards)

    def __str__(self) -> str:
        if len(self.shards) == 1:
            return str(self.shards[0])
        return f"{len(self.shards):,} shards from {self.shards[0]} on"

    def halves(self) -> tuple["Batch", "Batch"]:
        """The first and the second half of the shards."""
        middle = len(self.shards) // 2
        return Batch(self.first, self.shards[:middle]), Batch(self.first + middle, self.shards[middle:])


@dataclass(frozen=True)
class InputFile:
    """A file to process, and its state, to detect changes."""

    path: str | Path
    state: FileState

    @classmethod
    def of(cls, path: str | Path) -> "InputFile":
        """A file or URL in its current state."""
        if str(path) == STANDARD_INPUT or (not is_url(path) and Path(path).exists() and not Path(path).is_file()):
            raise DataError("only files can be cut into shards", "save it to a file first", path)
        try:
            return cls(path, state_of(path))
        except DataError as error:
            raise DataError(error.what, "check the path", path) from error

    def shards(self, size: int = DEFAULT_SIZE, format: str | None = None) -> list[Shard]:
        """Shards that cover the file, in order.

        A file no larger than a shard is a single one, and so is a compressed file, or one in a format that can only be read
        as a whole. An empty file has none.

        Args:
            size: bytes of a shard.
            format: the format of the texts, if the name is not enough.
        """
        bytes_ = self.state.size
        if bytes_ == 0:
            return []
        unit: Unit = unit_of_texts(self.path, format) if bytes_ > size else "file"
        if unit == "file":
            return [Shard(self.path, 0, bytes_, "file")]
        if unit == "row group":
            from lacuner.corpus.formats.datasets import count_row_groups

            return [Shard(self.path, group, group + 1, unit) for group in range(count_row_groups(self.path))]
        return _cut(self.path, bytes_, size, unit)


def cut_into_shards(path: str | Path, size: int = DEFAULT_SIZE, unit: Unit = "line") -> list[Shard]:
    """Divide a file into shards of ``size`` bytes; one if it is compressed, none if it is empty."""
    if size < 1:
        raise ValueError("a shard has at least one byte")
    path = path if is_url(path) else Path(path)
    length = InputFile.of(path).state.size
    return _cut(path, length, size, "file" if is_compressed(path) else unit)


def group_shards(shards: Sequence[Shard], size: int = DEFAULT_SIZE, first: int = 0) -> Iterator[Batch]:
    """Group shards into batches of about ``size`` bytes, in order.

    Args:
        shards: all of them.
        size: of a batch; a larger shard is alone.
        first: index of the first shard.
    """
    chosen: list[Shard] = []
    total = 0
    for shard in shards:
        # The byte size of a row group is unknown; treat it as a full batch.
        bytes_ = size if shard.unit == "row group" else shard.end - shard.begin
        if chosen and (total + bytes_ > size or len(chosen) >= _MAX_SHARDS):
            yield Batch(first, tuple(chosen))
            first, chosen, total = first + len(chosen), [], 0
        chosen.append(shard)
        total += bytes_
    if chosen:
        yield Batch(first, tuple(chosen))


def cut_all(files: Iterable[InputFile], size: int = DEFAULT_SIZE, format: str | None = None) -> list[Shard]:
    """The shards of all files, in order."""
    return [shard for file in files for shard in file.shards(size, format)]


def read_shard(shard: Shard) -> Iterator[str]:
    """Yield the lines of a shard, without line ends. The shards of a file together contain every line exactly once."""
    with locating(shard.path, shard.range):
        for _, line in lines_of(shard.path, shard.range):
            yield line


def _cut(path: str | Path, length: int, size: int, unit: Unit) -> list[Shard]:
    step = max(length, 1) if unit == "file" else size
    return [Shard(path, begin, min(begin + step, length), unit) for begin in range(0, length, step)]
