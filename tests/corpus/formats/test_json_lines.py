import pytest

from lacuner.corpus.formats.json_lines import read_records, to_line
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
