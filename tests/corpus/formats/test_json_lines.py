import io
import json

import pytest

from lacuner.corpus.formats.json_lines import (
    UnfitJSONError,
    decode_json,
    read_objects,
    read_records,
    to_line,
    write_array,
)
from lacuner.errors import DataError


@pytest.mark.parametrize("content", ['[{"tokens": ["Ada"]},\n', '{\n  "tokens": []\n}'])
def test_json_that_is_not_json_lines_is_called_so(tmp_path, content):
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        list(read_records(path))
    assert str(raised.value).startswith(f"{path}:1: not JSON: ")
    assert str(raised.value).endswith("(a JSON array or an indented object is not JSON Lines)")


def test_records_come_with_their_line_numbers(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('\n{"text": "a"}\n\n{"text": "b"}')
    assert list(read_records(path)) == [(2, {"text": "a"}), (4, {"text": "b"})]


def test_a_record_is_written_as_one_line_in_plain_letters(tmp_path):
    record = {"text": "Zoë\n😀"}
    assert to_line(record) == '{"text": "Zoë\\n😀"}\n'
    path = tmp_path / "data.jsonl"
    path.write_text(to_line(record), encoding="utf-8")
    assert list(read_records(path)) == [(1, record)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "text": "b"}', "the key 'text' occurs twice — keep one of them"),
        ('{"a": [{"b": 1, "c": 2, "b": 1}]}', "the key 'b' occurs twice — keep one of them"),
        ('{"score": 1e400}', "the number 1e400 is too large — write a smaller one, or null"),
        ('{"score": NaN}', "NaN is not a number in JSON — write null instead"),
        ('{"score": -Infinity}', "-Infinity is not a number in JSON — write null instead"),
        ('{"a": "\\ud800"}', "there is half of a surrogate pair — write the whole character"),
        ('{"\\uDFFF": 1}', "there is half of a surrogate pair — write the whole character"),
        (
            f'{{"a": {"[" * 150}1{"]" * 150}}}',
            "lists and objects are nested more than 100 deep — make the record flatter",
        ),
        (
            f'{{"a": {"[" * 100_000}',
            "lists and objects are nested more than 100 deep — make the record flatter",
        ),
    ],
)
def test_json_that_would_be_changed_or_could_not_be_written_is_refused(tmp_path, line, message):
    path = tmp_path / "data.jsonl"
    path.write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(DataError) as raised:
        list(read_records(path))
    assert str(raised.value) == f"{path}:2: {message}"


@pytest.mark.parametrize(
    ("opened", "closed"), [("[", "]"), ('{"a": ', "}"), ('[{"a": ', "}]")], ids=["lists", "objects", "both"]
)
def test_lists_and_objects_may_be_nested_a_hundred_deep(opened, closed):
    """The record itself is one of them, and so is the innermost list."""
    levels = 2 if closed == "}]" else 1
    content = f'{{"a": {opened * (98 // levels)}[1]{closed * (98 // levels)}}}'
    assert to_line(decode_json(content)) == content + "\n"
    with pytest.raises(UnfitJSONError, match="nested more than 100 deep"):
        decode_json(f'{{"b": {content}}}')


def test_many_lists_beside_each_other_are_not_deep(tmp_path):
    path = tmp_path / "data.jsonl"
    record = {"entities": [[number, number + 1, "[{"] for number in range(1000)], "deep": [[[[[]]]]]}
    path.write_text(to_line(record))
    assert list(read_records(path)) == [(1, record)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_cannot_hold_is_not_written(value):
    with pytest.raises(DataError, match=r"^a record (holds what JSON cannot|cannot be written as JSON)"):
        to_line({"score": value})


RECORDS = [{"text": "a[{"}, {"text": "]\n😀", "deep": [[{"b": "}"}]]}, {}]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("".join(to_line(record) for record in RECORDS), [1, 2, 3]),
        ("\ufeff\n" + "\r\n\r\n".join(json.dumps(record) for record in RECORDS), [2, 4, 6]),
        (json.dumps(RECORDS), [1, 1, 1]),
        (" \n [" + " ,\r\n".join(json.dumps(record) for record in RECORDS) + "\n] \n", [2, 3, 4]),
        ("\n".join(json.dumps(record, indent=2) for record in RECORDS), [1, 4, 14]),
    ],
)
def test_objects_are_found_in_lines_in_an_array_or_indented(tmp_path, content, lines):
    path = tmp_path / "data.json"
    path.write_text(content, encoding="utf-8", newline="")
    assert list(read_objects(path)) == list(zip(lines, RECORDS, strict=True))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": 1},\n', "1: not JSON: Expecting value at column 11 — correct the file, or export it again"),
        (
            '[{"a": 1}\n{"b": 1}]',
            "2: a comma or the end of the array is missing — correct the file, or export it again",
        ),
        ('[{"a": 1}]\n[]', "2: there is content after the end of the array — correct the file, or export it again"),
        ('[{"a": 1},\n["b"]]', "2: the array holds something that is not an object — write objects"),
        ('[\n{"a": 1, "a": 2}]', "2: the key 'a' occurs twice — keep one of them"),
        ('{"a": 1\n{"a": 1}', "1: not JSON: Expecting ',' delimiter at column 8 — write one JSON object a line"),
        ('{"a":\n1\n', "2: not JSON: Expecting ',' delimiter at column 2 — correct the file, or export it again"),
        ("{} 3", "1: the file holds something that is not an object — write objects"),
        ("3", "1: the line is not a JSON object — write one JSON object a line"),
        ("x", "1: not JSON: Expecting value at column 1 — write one JSON object a line"),
    ],
)
def test_objects_that_cannot_be_read_are_refused_where_they_are(tmp_path, content, message):
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        list(read_objects(path))
    assert str(raised.value).startswith(f"{path}:{message}")


@pytest.mark.parametrize("records", [[], RECORDS])
def test_an_array_is_written_one_record_a_line(records):
    file = io.StringIO()
    write_array(iter(records), file)
    assert json.loads(file.getvalue()) == records
    assert file.getvalue().count("\n") == (len(records) + 2 if records else 1)
