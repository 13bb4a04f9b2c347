import gzip
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus.files import read_lines
from lacuner.errors import DataError
from lacuner.streams.shards import Shard, cut_into_shards, read_shard

LINES = st.lists(st.sampled_from(["", "", " ", "\t", "a", "Zoë", "上海 👩‍🚀", "x" * 30, " b"]), max_size=20)
ENDS = st.sampled_from(["\n", "\r\n"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shards") / "file.txt"


def blocks(lines: list[str]) -> list[list[str]]:
    return [list(group) for empty, group in groupby(lines, lambda line: not line.strip()) if not empty]


@given(LINES, ENDS, st.booleans(), st.integers(1, 60))
def test_every_line_is_in_exactly_one_shard(path: Path, lines: list[str], end: str, last: bool, size: int) -> None:
    content = end.join(lines) + (end if last else "")
    path.write_bytes(content.encode())
    shards = cut_into_shards(path, size)
    assert [line for shard in shards for line in read_shard(shard)] == [line for _, line in read_lines(path)]
    position = 0
    for shard in shards:
        assert (shard.begin, 0 < shard.end - shard.begin <= size) == (position, True)
        position = shard.end
    assert position == len(content.encode())


@given(LINES, ENDS, st.booleans(), st.integers(1, 60))
def test_no_block_is_cut(path: Path, lines: list[str], end: str, last: bool, size: int) -> None:
    path.write_bytes((end.join(lines) + (end if last else "")).encode())
    parts = [list(read_shard(shard)) for shard in cut_into_shards(path, size, "block")]
    assert [block for part in parts for block in blocks(part)] == blocks([line for _, line in read_lines(path)])


def test_a_line_belongs_to_the_shard_in_which_it_begins(path: Path) -> None:
    path.write_text("aaaa\nbb\nc\n")
    assert [list(read_shard(shard)) for shard in cut_into_shards(path, 5)] == [["aaaa"], ["bb", "c"]]
    assert [list(read_shard(shard)) for shard in cut_into_shards(path, 4)] == [["aaaa"], ["bb"], ["c"]]
    assert [list(read_shard(shard)) for shard in cut_into_shards(path, 2)] == [["aaaa"], [], ["bb"], [], ["c"]]


def test_a_long_line_of_spaces_is_empty_too(path: Path) -> None:
    path.write_text("a\n" + " " * 10_000 + "\nb\nc\n")
    assert list(read_shard(Shard(path, 10_003, 10_007, "block"))) == ["b", "c"]
    assert list(read_shard(Shard(path, 10_005, 10_007, "block"))) == []


def test_a_byte_order_mark_is_no_text(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfa\nb\n")
    assert [list(read_shard(shard)) for shard in cut_into_shards(path, 5)] == [["a"], ["b"]]


def test_compressed_files_are_one_shard(tmp_path: Path) -> None:
    packed = tmp_path / "file.jsonl.gz"
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    (shard,) = cut_into_shards(packed, 1)
    assert list(read_shard(shard)) == ["a", "b"]


def test_an_empty_file_has_no_shards(path: Path) -> None:
    path.write_text("")
    assert cut_into_shards(path) == []


def test_what_is_not_utf8_is_said_with_its_line(path: Path) -> None:
    path.write_bytes(b"a\nb\n\xe9\n")
    with pytest.raises(DataError, match=r"file\.txt:3: byte 0xe9 is not UTF-8"):
        list(read_shard(Shard(path, 3, 6)))


@pytest.mark.parametrize("name", ["-", "/dev/null", "."])
def test_only_files_can_be_cut(name: str) -> None:
    with pytest.raises(DataError, match="only files can be cut into shards"):
        cut_into_shards(name)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file or directory — check the path"):
        cut_into_shards(tmp_path / "absent.txt")
