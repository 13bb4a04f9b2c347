"""Files read in parts: every format that can be cut gives the same sentences, wherever it is cut."""

import bz2
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Sentence
from lacuner.corpus.corpus import stream_sentences, unit_of_texts
from lacuner.corpus.files import FileRange, ReadingReport, read_lines
from lacuner.corpus.ranges import lines_of, locating
from lacuner.errors import ConfigError, DataError
from lacuner.matching.annotation import read_texts

BLOCKS = st.lists(
    st.sampled_from(
        [
            "-DOCSTART- O\n",
            "-DOCSTART- O\nEU B-ORG\n",
            "Ada B-PER\nmoved O\n",
            '# lacuner: {"complete": true}\nTurin B-LOC\n',
            "上海 B-LOC\n",
            "x O\n" * 4,
            "\n",
            " \n",
        ]
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranges")


def ranges(path: Path, size: int, unit: str) -> list[FileRange]:
    length = path.stat().st_size
    return [FileRange(begin, min(begin + size, length), unit) for begin in range(0, length, size)]  # type: ignore[arg-type]


@given(BLOCKS, st.sampled_from(["\n", "\r\n"]), st.integers(1, 80))
def test_columns_are_the_same_wherever_they_are_cut(folder: Path, blocks: list[str], end: str, size: int) -> None:
    path = folder / "x.conll"
    path.write_bytes(("\n".join(["Ada B-PER\nsleeps O\n", *blocks])).replace("\n", end).encode())
    whole = list(stream_sentences(path))
    parts = [list(stream_sentences(path, range=part)) for part in ranges(path, size, "block")]
    assert [sentence for part in parts for sentence in part] == whole


def test_the_beginning_of_a_file_tells_how_all_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("1 Ada B\n2 Lovelace E\n\n" + "1 Turin S\n\n" * 5 + "1 New B\n2 York I\n3 City E\n\n")
    path.write_text(path.read_text().replace(" B\n", " B-X\n").replace(" E\n", " E-X\n").replace(" S\n", " S-X\n"))
    path.write_text(path.read_text().replace(" I\n", " I-X\n"))
    whole = list(stream_sentences(path))
    parts = [list(stream_sentences(path, range=part)) for part in ranges(path, 16, "block")]
    assert [sentence for part in parts for sentence in part] == whole
    assert whole[-1] == Sentence(("New", "York", "City"), (Entity(0, 3, "X"),))


@given(
    st.lists(st.sampled_from(['{"text": "Ada"}', '{"tokens": ["上海"], "id": 7}', "", " "]), max_size=12),
    st.integers(1, 60),
)
def test_json_lines_are_the_same_wherever_they_are_cut(folder: Path, lines: list[str], size: int) -> None:
    path = folder / "x.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    parts = [list(stream_sentences(path, range=part)) for part in ranges(path, size, "line")]
    assert [sentence for part in parts for sentence in part] == list(stream_sentences(path))


def test_a_range_in_a_huge_line_is_not_read_beyond_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a\n" + "b" * 10_000_000 + "\nc\n")
    read = []

    class Counting:
        def __init__(self, file) -> None:  # type: ignore[no-untyped-def]
            self.file, self.seek = file, file.seek

        def read(self, count: int) -> bytes:
            read.append(count)
            return self.file.read(count)

    from contextlib import contextmanager

    @contextmanager
    def opened(path):  # type: ignore[no-untyped-def]
        with open(path, "rb") as file:
            yield Counting(file)

    monkeypatch.setattr("lacuner.corpus.ranges.open_seekable", opened)
    assert list(lines_of(path, FileRange(1000, 3000))) == []
    assert sum(read) <= 2001


def test_a_block_without_end_is_not_read_beyond_the_range(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_bytes(b"x O\n" * 100 + b"\xff\n")  # what is not UTF-8 would be noticed
    assert list(lines_of(path, FileRange(8, 40, "block"))) == []


@pytest.mark.parametrize(
    ("name", "content", "unit"),
    [
        ("x.txt", "Ada\n", "line"),
        ("x", "Ada\n", "line"),
        ("x.jsonl", '{"text": "Ada"}\n', "line"),
        ("x.jsonl", '["Ada", {"entities": []}]\n', "line"),
        ("x.json", '[{"text": "Ada"}]', "file"),
        ("x.json", '{\n"text": "Ada"}', "file"),
        ("x.jsonl", '{"tokens": ["Ada"], "ner_tags": ["B-PER"]}\n', "file"),
        ("x.conll", "Ada\tB-PER\n", "block"),
        ("x.csv", "Sentence #,Word,Tag\n1,Ada,B-PER\n", "file"),
        ("x.conllu", "# text = Ada\n", "file"),
        ("x.txt.gz", "", "file"),
        ("x.parquet", "", "row group"),
    ],
)
def test_what_a_file_consists_of(tmp_path: Path, name: str, content: str, unit: str) -> None:
    (tmp_path / name).write_text(content)
    assert unit_of_texts(tmp_path / name) == unit


def test_row_groups_of_parquet_are_read_one_by_one(tmp_path: Path) -> None:
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rows = [
        {"tokens": [f"w{number}", "x"], "ner_tags": ["S-A" if number == 9 else "B-A", "E-A"]} for number in range(9)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "tags.parquet", row_group_size=2)
    whole = list(stream_sentences(tmp_path / "tags.parquet"))
    parts = [
        list(stream_sentences(tmp_path / "tags.parquet", range=FileRange(n, n + 1, "row group"))) for n in range(5)
    ]
    assert list(map(len, parts)) == [2, 2, 2, 2, 1]
    assert [sentence for part in parts for sentence in part] == whole
    texts = [{"text": f"Ada {number}", "id": number} for number in range(5)]
    parquet.write_table(pa.Table.from_pylist(texts), tmp_path / "texts.parquet", row_group_size=2)
    (second, third), fields = (
        [list(read_texts(tmp_path / "texts.parquet", range=FileRange(n, n + 1, "row group")).texts) for n in (1, 2)],
        ["tokens", "text", "extra"],
    )
    assert [getattr(second[0], field) for field in fields] == [("Ada", "2"), "Ada 2", {"id": 2}]
    assert [sentence.text for sentence in third] == ["Ada 4"]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="there are no columns with words and their tags"):
        Corpus.read(tmp_path / "texts.parquet")


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_compressed_files_are_unpacked(tmp_path: Path, ending: str) -> None:
    content = b'{"text": "Ada"}\n' * 1000
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
        half = zstandard.ZstdCompressor().compress(content[:8000])
        packed = half + zstandard.ZstdCompressor().compress(content[8000:])  # as several threads pack it
    else:
        packed = {".gz": gzip, ".bz2": bz2}[ending].compress(content)
    path = tmp_path / f"x.jsonl{ending}"
    path.write_bytes(packed)
    assert len(list(stream_sentences(path))) == 1000
    path.write_bytes(packed[:-20])
    with pytest.raises(DataError, match=r"x\.jsonl"):
        list(stream_sentences(path))


def test_a_url_that_nobody_knows_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^nowhere://x: .* — fsspec opens it"):
        list(read_lines("nowhere://x"))


def test_lines_of_a_range_are_located_in_the_file(tmp_path: Path) -> None:
    path, part = tmp_path / "x.jsonl", FileRange(20, 80)
    path.write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n{"text": "d"}\nbroken\n')
    with pytest.raises(DataError, match=r"x\.jsonl:5: not JSON"), locating(path, part):
        list(stream_sentences(path, range=part))
    report = ReadingReport(range=part)
    report.note("oddities", "it is odd", "make it even", path, 2)
    assert report.examples == {"oddities": f"{path}:4: it is odd"}
    assert ReadingReport.from_dict(json.loads(json.dumps(report.as_dict()))).examples == report.examples
    url = "memory://x.jsonl"
    with (
        pytest.raises(DataError, match=r"^memory://x\.jsonl: line 3 after byte 20: bad — mend it$"),
        locating(url, part),
    ):
        raise DataError("bad", "mend it", url, 3)
