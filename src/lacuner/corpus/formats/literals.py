"""Lists and objects in table cells, as JSON or Python literals. Nothing is evaluated."""

import ast
import json
from typing import Any

from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json

MAX_LENGTH = 300_000
"""Maximum length of a Python literal; its syntax tree takes a hundred times as much memory."""


def parse_literal(cell: str) -> Any:
    """Parse the value in a cell, with tuples as lists.

    Raises:
        ValueError: it is neither JSON nor a Python literal, or contains what JSON cannot represent.

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
