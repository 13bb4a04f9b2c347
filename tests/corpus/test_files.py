import gzip
import io
import logging
import sys

import pytest

from lacuner.corpus.files import ReadingReport, name_of, read_lines, refuse_overwriting
from lacuner.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write_bytes(content, name="data.conll"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


def lines(path):
    return list(read_lines(path))


def error_of(path):
    with pytest.raises(DataError) as raised:
        lines(path)
    return str(raised.value)


def test_lines_are_numbered_from_one(write):
    assert lines(write(b"a\n\nb\n")) == [(1, "a"), (2, ""), (3, "b")]


def test_the_last_line_needs_no_end(write):
    assert lines(write(b"a\nb")) == [(1, "a"), (2, "b")]


def test_an_empty_file_has_no_lines(write):
    assert lines(write(b"")) == []


def test_windows_line_ends_and_byte_order_marks_are_no_text(write):
    assert lines(write(b"\xef\xbb\xbfa \r\n\r\nb\r\n")) == [(1, "a "), (2, ""), (3, "b")]


def test_only_the_first_line_can_begin_with_a_byte_order_mark(write):
    assert lines(write("a\n\ufeffb\n".encode())) == [(1, "a"), (2, "\ufeffb")]


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "👩\u200d🚀", "\U00020000"])
def test_only_a_line_feed_ends_a_line(write, character):
    assert lines(write(f"a{character}b\n".encode())) == [(1, f"a{character}b")]


def test_compressed_files_are_unpacked(write):
    assert lines(write(gzip.compress("Zoë\n".encode()), "data.conll.GZ")) == [(1, "Zoë")]


def test_latin_1_is_refused_where_it_shows(write):
    path = write("Ada\nZoë\n".encode("latin-1"))
    assert error_of(path) == f"{path}:2: byte 0xeb is not UTF-8 — convert the file, e.g. iconv -f latin1 -t utf-8"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised(write, encoding):
    mark = "" if encoding == "utf-16" else "\ufeff"
    path = write(f"{mark}Ada\tO\n".encode(encoding))
    assert error_of(path) == f"{path}: the file is UTF-16, not UTF-8 — convert it: iconv -f utf-16 -t utf-8"


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "missing.conll"
    assert error_of(path) == f"{path}: No such file or directory — check the path and the file"


def test_a_folder_is_no_file(tmp_path):
    assert error_of(tmp_path) == f"{tmp_path}: Is a directory — check the path and the file"


def damaged(content):
    """Compressed, with a wrong byte in the compressed part."""
    packed = bytearray(gzip.compress(content))
    packed[10] ^= 0xFF
    return bytes(packed)


@pytest.mark.parametrize(
    "content",
    [b"not compressed\n", gzip.compress(b"Ada\tO\n" * 1000)[:-20], damaged(b"Ada\tO\n" * 1000)],
    ids=["not compressed", "cut off", "damaged"],
)
def test_a_broken_archive_is_an_error_of_the_file(write, content):
    path = write(content, "data.conll.gz")
    assert error_of(path).startswith(f"{path}: ")
    assert error_of(path).endswith(" — check the path and the file")


def test_a_dash_is_standard_input_and_leaves_it_open(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO("\ufeffZoë\tO\r\n\n".encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert lines("-") == [(1, "Zoë\tO"), (2, "")]
    assert not stream.buffer.closed


def test_lines_come_before_the_file_ends(tmp_path):
    path = tmp_path / "data.conll"
    path.write_bytes(b"Ada\n" * 100_000 + b"\xff\n")
    assert next(read_lines(path)) == (1, "Ada")


def test_a_name_tells_its_format_in_any_case_and_compressed():
    assert name_of("folder.gz/Train.CoNLL.GZ") == "train.conll"
    assert name_of("-") == "-"


def test_oddities_are_counted_and_the_first_is_shown(caplog):
    report = ReadingReport()
    report.note("repaired tags", "I-PER continues nothing", "correct it", "a.conll", 3)
    report.note("repaired tags", "I-LOC continues nothing", "correct it", "a.conll", 9)
    report.note("duplicate entities", "Ada stands twice", "remove one", "a.conll", 12)
    with caplog.at_level(logging.WARNING, "lacuner"):
        report.log()
    assert [record.getMessage() for record in caplog.records] == [
        "repaired tags: 2; the first: a.conll:3: I-PER continues nothing",
        "duplicate entities: 1; the first: a.conll:12: Ada stands twice",
    ]


def test_a_clean_file_is_not_talked_about(caplog):
    ReadingReport().log()
    assert not caplog.records


def test_strict_makes_an_oddity_an_error():
    with pytest.raises(DataError) as raised:
        ReadingReport(strict=True).note("repaired tags", "I-PER continues nothing", "correct it", "a.conll", 3)
    assert str(raised.value) == "a.conll:3: I-PER continues nothing — correct it"


def test_reports_add_up():
    one, other = ReadingReport(), ReadingReport()
    one.note("repaired tags", "first", "", "a.conll", 1)
    other.note("repaired tags", "second", "", "b.conll", 1)
    other.note("duplicate entities", "third", "", "b.conll", 2)
    both = one + other
    assert both.counts == {"repaired tags": 2, "duplicate entities": 1}
    assert both.examples == {"repaired tags": "a.conll:1: first", "duplicate entities": "b.conll:2: third"}
    assert one.counts == {"repaired tags": 1}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "gold.conll").write_text("Ada\tB-PER\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "link.conll").symlink_to("gold.conll")
    (tmp_path / "linked").symlink_to(".")
    (tmp_path / "hard.conll").hardlink_to(tmp_path / "gold.conll")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("out", "read"),
    [
        ("gold.conll", "gold.conll"),
        ("./model/../gold.conll", "gold.conll"),
        ("link.conll", "gold.conll"),
        ("gold.conll", "link.conll"),
        ("linked/gold.conll", "gold.conll"),
        ("hard.conll", "gold.conll"),
        ("new.conll", "linked/new.conll"),
        ("model/config.json", "model"),
        ("model", "model/config.json"),
        ("model", "model"),
    ],
)
def test_what_is_read_is_never_written(folder, out, read):
    with pytest.raises(DataError, match=f"^{out}: --out would overwrite the input — give it another name$"):
        refuse_overwriting(out, {"the input": [folder / read]})
    with pytest.raises(DataError, match="--out would overwrite the input"):
        refuse_overwriting(folder / out, {"the dictionary": ["other.tsv"], "the input": ["absent.txt", read]})


def test_a_new_file_does_not_go_into_a_folder_that_is_read(folder):
    with pytest.raises(DataError, match=r"^linked/model/new.jsonl: --out lies in the folder \S+model, into which"):
        refuse_overwriting("linked/model/new.jsonl", {"the input": [folder / "model"]})


@pytest.mark.parametrize(
    ("out", "read"),
    [
        ("other.conll", "gold.conll"),
        ("model", "gold.conll"),
        ("model2", "model"),
        ("gold.conll.gz", "gold.conll"),
        ("-", "-"),
        ("-", "gold.conll"),
        ("gold.conll", "-"),
        ("gold.conll", None),
        ("/dev/null", "/dev/null"),
    ],
)
def test_other_files_may_be_written(folder, out, read):
    refuse_overwriting(out, {"the input": [read]})


def test_old_mac_line_ends_are_recognised(write):
    path = write(b"a\rb\r")
    assert error_of(path) == (
        f"{path}: lines end in carriage returns, as on old Macs, and not in line feeds — convert it: tr '\\r' '\\n'"
    )
    assert lines(write(b"a\r")) == [(1, "a")]
    assert lines(write(b"50 %\r100 %\n")) == [(1, "50 %\r100 %")]


def test_fields_that_were_not_read_are_named_even_if_nothing_is_wrong(caplog):
    report, other = ReadingReport(strict=True), ReadingReport()
    report.unread.update({"id": 3, "meta": 1})
    other.unread.update({"id": 1} | {f"f{number}": 1 for number in range(20)})
    other.remark("read from right to left", "b.conll")
    with caplog.at_level(logging.INFO, "lacuner"):
        report.log()
        (report + other).log()
    assert [record.getMessage() for record in caplog.records] == [
        "fields that are kept but not interpreted: id (3), meta (1)",
        "b.conll: read from right to left",
        "fields that are kept but not interpreted: id (4), meta (1), "
        + ", ".join(f"f{number} (1)" for number in range(18))
        + ", 2 more",
    ]
