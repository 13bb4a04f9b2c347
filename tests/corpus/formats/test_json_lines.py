import pytest

from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json, read_records, to_line
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
        ('{"text": "a", "text": "b"}', "the key 'text' is there twice — keep one of them"),
        ('{"a": [{"b": 1, "c": 2, "b": 1}]}', "the key 'b' is there twice — keep one of them"),
        ('{"score": 1e400}', "the number 1e400 is too large — write a smaller one, or null"),
        ('{"score": NaN}', "NaN is no number in JSON — write null instead"),
        ('{"score": -Infinity}', "-Infinity is no number in JSON — write null instead"),
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
