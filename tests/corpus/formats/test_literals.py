"""Lists in cells are data, never code."""

import pytest

from lacuner.corpus.formats.literals import MAX_LENGTH, parse_literal


def test_json_and_python_are_the_same():
    assert parse_literal("[(0, 3, 'PER')]") == parse_literal('[[0, 3, "PER"]]') == [[0, 3, "PER"]]
    assert parse_literal("{'a': None}") == parse_literal('{"a": null}') == {"a": None}


@pytest.mark.parametrize(
    "cell",
    [
        "open('x')", "[1].append(2)", "1 + x", "{1, 2}", "b'x'", "[1e999]", "'\\ud800'", "(" * 5000, "-" * 50_000 + "1",
        "[" * 150 + "]" * 150, "\x00", "9" * 5000, "'" + "a" * MAX_LENGTH + "'", "", "NaN", '{"a": 1, "a": 2}',
    ],
)  # fmt: skip
def test_anything_else_is_an_error_that_says_why(cell):
    with pytest.raises(ValueError, match=r"\w"):
        parse_literal(cell)
