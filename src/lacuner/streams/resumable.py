"""A map over shards whose results are files: an interruption at any moment loses no finished shard and repeats none."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from lacuner.errors import ConfigError
from lacuner.storage import WriteError, new_file, remove_leftovers
from lacuner.streams.engine import Engine
from lacuner.streams.shards import Shard

FINGERPRINT = "fingerprint.json"
_SUMMARIES = "summaries"

Work = Callable[[Shard, TextIO], Any]
"""Works on a shard, writes its result to the file, and returns a summary that JSON can hold."""


@dataclass(frozen=True)
class Part:
    """The result of a shard.

    Attributes:
        shard: what was worked on.
        path: the file with the result.
        summary: what the work returned.
        reused: whether an earlier run has made it.
    """

    shard: Shard
    path: Path
    summary: Any
    reused: bool


@dataclass(frozen=True)
class _Job:
    shard: Shard
    path: Path
    summary: Path

    def __str__(self) -> str:
        return str(self.shard)


def map_to_files(
    engine: Engine,
    start: Callable[[], Work],
    shards: Sequence[Shard],
    folder: Path,
    fingerprint: Mapping[str, Any],
    suffix: str = ".jsonl",
) -> Iterator[Part]:
    """Work on every shard that has no result in ``folder`` yet; the parts come in the order of the shards.

    A file with the name of a part is always whole. Several runs may work in one folder at the same time; what both
    make is the same.

    Args:
        engine: where the work runs.
        start: called once in each worker; returns what is done with a shard.
        shards: what to work on.
        folder: for the results, one file a shard, and the fingerprint. It must be empty, or of the same run.
        fingerprint: everything that the results depend on, except for the files of the shards: model, options, ….
        suffix: ending of the files.
    """
    _claim(folder, {"shards": _describe(shards), **fingerprint})
    digits = max(5, len(str(len(shards))))
    names = [f"part-{number:0{digits}}" for number in range(len(shards))]
    jobs = [
        _Job(shard, folder / f"{name}{suffix}", folder / _SUMMARIES / f"{name}.json")
        for name, shard in zip(names, shards, strict=True)
    ]
    finished = {job.path for job in jobs if job.path.exists()}
    made = engine.map(partial(_starter, start), [job for job in jobs if job.path not in finished])
    for job in jobs:
        reused = job.path in finished
        if not reused:
            next(made)
        yield Part(job.shard, job.path, json.loads(job.summary.read_text(encoding="utf-8")), reused)
    for job in jobs:  # of runs that were interrupted
        remove_leftovers(job.path)
        remove_leftovers(job.summary)


def _describe(shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """The files of the shards, where they are cut, and what tells whether they have changed."""
    files: dict[Path, dict[str, Any]] = {}
    for shard in shards:
        if shard.path not in files:
            state = shard.path.stat()
            path = str(shard.path.absolute())
            files[shard.path] = {"path": path, "bytes": state.st_size, "modified": state.st_mtime_ns, "ends": []}
        files[shard.path]["ends"].append(shard.end)
    return list(files.values())


def _claim(folder: Path, fingerprint: Mapping[str, Any]) -> None:
    """Make the folder ours, or see that it is."""
    wanted = json.loads(json.dumps(fingerprint))
    path = folder / FINGERPRINT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(not child.name.startswith(f".{FINGERPRINT}.") for child in folder.iterdir()):
                raise ConfigError(
                    f"{folder} is not empty, and holds no results of this command — choose another folder"
                )
            _write_whole(path, lambda file: file.write(json.dumps(wanted, ensure_ascii=False, indent=1) + "\n"))
        (folder / _SUMMARIES).mkdir(exist_ok=True)
        found = json.loads(path.read_text(encoding="utf-8"))
    except WriteError:
        raise
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror} — choose another folder") from error
    except ValueError as error:
        raise ConfigError(f"{path} is damaged ({error}) — remove the folder, or choose another one") from error
    if found != wanted:
        keys = found.keys() | wanted.keys() if isinstance(found, dict) else wanted.keys()
        differ = sorted(key for key in keys if not isinstance(found, dict) or found.get(key) != wanted.get(key))
        raise ConfigError(
            f"{folder} holds the results of another run, with other {', '.join(differ)} — choose another folder, or remove it"
        )


def _starter(start: Callable[[], Work]) -> Callable[[_Job], None]:
    return partial(_make, start())


def _make(work: Work, job: _Job) -> None:
    summaries: list[Any] = []
    _write_whole(
        job.path,
        lambda file: summaries.append(work(job.shard, file)),
        # A part without a summary must not exist, so that the summary comes first.
        before=lambda: _write_whole(job.summary, lambda file: file.write(json.dumps(summaries[0], ensure_ascii=False))),
    )


def _write_whole(path: Path, write: Callable[[TextIO], object], before: Callable[[], None] = lambda: None) -> None:
    """Write a text file; ``before`` is done when it is written, and has not its name yet."""
    with new_file(path) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        try:
            write(file)
            file.flush()
        finally:
            file.detach()
        before()
