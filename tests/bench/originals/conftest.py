from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lacuner.bench.originals.convert import Outcome, convert, find_distribution

Originals = Callable[[Mapping[str, str]], Path]
Converted = Callable[[str, Mapping[str, str]], dict[str, str]]


@pytest.fixture
def originals(tmp_path: Path) -> Originals:
    """Writes files below a folder of clones, and says where that is."""
    folder = tmp_path / "originals"

    def write(files: Mapping[str, str]) -> Path:
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def converted(originals: Originals, tmp_path: Path) -> Converted:
    """The files that are made of a corpus, given its originals, by their names."""

    def convert_all(name: str, files: Mapping[str, str]) -> dict[str, str]:
        out = tmp_path / "data" / name
        outcomes: list[Outcome] = list(convert(find_distribution(name), originals(files), out))
        assert [(outcome.target.name, outcome.reason) for outcome in outcomes if outcome.reason] == []
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(out.iterdir())}

    return convert_all
