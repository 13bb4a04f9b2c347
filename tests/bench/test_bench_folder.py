import json
from pathlib import Path

import pytest
from handmade import recipe

from lacuner.bench.folder import locked, read_results
from lacuner.bench.results import Title
from lacuner.errors import ConfigError, LacunerError

WHOLE = {
    "key": "1", "data": "toy", "hidden": 0.5, "method": "a", "encoder": "recurrent", "seed": 1, "version": "0.1",
}  # fmt: skip
"""What every result has."""


def test_only_one_bench_at_a_time_runs_in_a_folder(tmp_path: Path) -> None:
    refusal = r"another bench is running in .* — wait for it, or choose another --out"
    with locked(tmp_path), pytest.raises(LacunerError, match=refusal), locked(tmp_path):
        pass
    with locked(tmp_path), locked(tmp_path / "inner"):  # it is free again, and so are other folders
        pass


@pytest.mark.parametrize("name", ["report.md", "results.jsonl", "recipe.json", "figures"])
def test_files_of_somebody_else_are_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[1]")
    refusal = rf"it contains files not written by lacuner bench \({name}\) — choose a new or empty folder with --out"
    with pytest.raises(ConfigError, match=refusal), locked(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "[1]"


def test_an_empty_folder_and_one_that_a_bench_has_written_are_taken(tmp_path: Path) -> None:
    with locked(tmp_path / "new"):
        pass
    with locked(tmp_path / "new"):  # a bench was stopped before it wrote anything
        Title("toy", "standard", recipe()).write(tmp_path / "new")
        (tmp_path / "new" / "report.md").touch()
    with locked(tmp_path / "new"):
        pass


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal = r"file: .* — choose another folder with --out"
    with pytest.raises(ConfigError, match=refusal), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(WHOLE) + '\n\n{"key"', r"results\.jsonl:3: not JSON"),
        ('{"key": "1", "method": "a", "data": "b", "seed": 1}', r"results\.jsonl:1: this is not the result of a run"),
        ('{"key": "1"}', r"results\.jsonl:1: this is not the result of a run"),
        ("[1]", r"results\.jsonl:1: this is not the result of a run"),
        (b"\xff\xfe", r"results\.jsonl: .*utf-8"),
        (None, r"results\.jsonl: .*No such file"),
    ],
)
def test_what_is_no_file_of_results_is_refused(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    path = tmp_path / "results.jsonl"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=f"{message}.* — give the results.jsonl of a bench"):
        read_results(path)
