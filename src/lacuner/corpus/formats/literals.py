"""Lists and objects in the cell of a table, as JSON or as Python shows them. Nothing is evaluated."""

import ast
import json
from typing import Any

from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json

MAX_LENGTH = 300_000
"""Characters of a Python literal; its tree takes a hundred times as much memory."""


def parse_literal(cell: str) -> Any:
    """The value that a cell describes, with lists in place of tuples.

    Raises:
        ValueError: it is neither JSON nor a Python literal, or holds what JSON cannot.

    >>> parse_literal("[(0, 3, 'PER')]"), parse_literal('[[0, 3, "PER"]]')
    ([[0, 3, 'PER']], [[0, 3, 'PER']])
    """
    try:
        return decode_json(cell)
    except UnfitJSONError:
        raise
    except json.JSONDecodeError:
        pass
    if len(cell) > MAX_LENGTH:
        raise ValueError(f"it has more than {MAX_LENGTH} characters")
    try:
        return decode_json(json.dumps(ast.literal_eval(cell), allow_nan=False))
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"it is neither JSON nor a Python list ({type(error).__name__})") from None
