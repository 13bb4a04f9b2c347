"""JSON in model folders."""

import json
from pathlib import Path
from typing import Any

from lacuner.errors import ModelError


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The object in a file of a model folder, or in one sentence what is wrong with it."""
    if not folder.is_dir():
        raise ModelError(f"there is no folder {folder} — check the path")
    path = folder / name
    if not path.is_file():
        raise ModelError(f"{folder} is no model folder: {name} is missing — check the path")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"{path} is damaged ({error}) — copy the folder again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds no JSON object — copy the folder again")
    return content
