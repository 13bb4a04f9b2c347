"""Resumable map over shards with results in files: an interruption at any moment neither loses nor repeats a finished part.

A result folder contains::

    part-00000-00499.jsonl   the results of the shards 0 to 499, here small files
    part-00500.jsonl         those of shard 500
    _manifest.json           settings and inputs, failed shards, and total counts
    _summaries/              counts of each part
"""

import io
import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from lacuner.corpus.files import is_url
from lacuner.errors import ConfigError, LacunerError, described
from lacuner.storage import WriteError
from lacuner.streams.engine import Engine
from lacuner.streams.folders import Folder, copy_file
from lacuner.streams.shards import DEFAULT_SIZE, Batch, InputFile, Shard, cut_all, group_shards
from lacuner.version import __version__

MANIFEST = "_manifest.json"
_SUMMARIES = "_summaries"
_PART = re.compile(r"part-(\d+)(?:-(\d+))?(\..+)")

Work = Callable[[Sequence[Shard], TextIO], Any]
"""Processes shards, writes their result to the file, and returns a summary for JSON."""


@dataclass(frozen=True)
class Part:
    """The result of a batch of shards, or its error.

    Attributes:
        batch: the batch; one shard, if there is an error.
        name: of the result file.
        summary: return value of the work.
        reused: whether it is from an earlier run.
        error: what is wrong with the shard.
    """

    batch: Batch
    name: str
    summary: Any = None
    reused: bool = False
    error: BaseException | None = None


@dataclass(frozen=True)
class Plan:
    """The work to be done.

    Attributes:
        inputs: the files.
        made_with: everything except the inputs that the results depend on: model, options, …
        size: bytes of a shard.
        format: of the inputs, if not evident from their names.
        suffix: extension of the result files.
        shards: those of the inputs.
    """

    inputs: Sequence[InputFile]
    made_with: Mapping[str, Any]
    size: int = DEFAULT_SIZE
    format: str | None = None
    suffix: str = ".jsonl"
    shards: Sequence[Shard] = field(init=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a shard has at least one byte")
        object.__setattr__(self, "shards", tuple(cut_all(self.inputs, self.size, self.format)))

    def name_of(self, batch: Batch) -> str:
        """The result file of a batch; names sort like shards."""
        digits = max(5, len(str(len(self.shards))))
        last = f"-{batch.end - 1:0{digits}}" if len(batch.shards) > 1 else ""
        return f"part-{batch.first:0{digits}}{last}{self.suffix}"

    def fingerprint(self) -> dict[str, Any]:
        """What must be equal for results to belong together."""
        cut = {"shard_size": self.size, "input_format": self.format, "suffix": self.suffix}
        inputs = [{"path": _shown(file.path), **file.state._asdict()} for file in self.inputs]
        made: dict[str, Any] = json.loads(
            json.dumps({"lacuner": __version__, **self.made_with, **cut, "inputs": inputs})
        )
        return made

    def finished(self, folder: Folder) -> dict[int, Batch]:
        """The batches with results in the folder, by the index of their first shard."""
        found = {}
        for name in folder.names():
            match = _PART.fullmatch(name)
            if match is not None and match[3] == self.suffix:
                first, end = int(match[1]), int(match[2] or match[1]) + 1
                found[first] = Batch(first, tuple(self.shards[first:end]))
        return found

    def missing(self, finished: Mapping[int, Batch]) -> Iterator[Batch]:
        """Batches of all shards that are in no finished batch."""
        begin = 0
        for first in [*sorted(finished), len(self.shards)]:
            yield from group_shards(self.shards[begin:first], self.size, begin)
            begin = finished[first].end if first in finished else first


def map_to_files(engine: Engine, start: Callable[[], Work], plan: Plan, folder: Folder) -> Generator[Part, None, None]:
    """Process every shard without a result in ``folder``. Parts of earlier runs are yielded first, then new ones.

    Result files are always complete. A batch that fails is halved repeatedly until the failing shard is found; that becomes a
    part with an error, and everything else is processed. Only an unwritable disk ends the map.

    Args:
        engine: where the work runs.
        start: called once in each worker; returns the function to apply to batches.
        plan: the work.
        folder: for the results. It must be empty, or of the same plan; it must not be written to by others.
    """
    _create(folder)
    with folder.claimed():
        fingerprint = _claim(folder, plan)
        finished = plan.finished(folder)
        for _, batch in sorted(finished.items()):
            name = plan.name_of(batch)
            yield Part(batch, name, _read_json(folder, f"{_SUMMARIES}/{name}.json"), reused=True)
        failed: list[Part] = []
        try:
            for part in _make_all(engine, start, plan, folder, list(plan.missing(finished))):
                failed += [part] if part.error is not None else []
                yield part
        finally:
            folder.clean()  # of interrupted runs, possibly this one
        reasons = [{"shard": str(part.batch), "reason": described(part.error)} for part in failed if part.error]
        _write_json(folder, MANIFEST, {**fingerprint, "complete": not failed, "failed": reasons})


def conclude(plan: Plan, folder: Folder, counts: Mapping[str, Any]) -> None:
    """Write the total counts of all parts into the manifest."""
    manifest = _read_json(folder, MANIFEST)
    _write_json(folder, MANIFEST, {**manifest, "parts": len(plan.finished(folder)), "counts": counts})


def merge_parts(plan: Plan, folder: Folder, out: BinaryIO) -> None:
    """Write all parts, in the order of the shards."""
    finished = plan.finished(folder)
    if next(plan.missing(finished), None) is not None:
        raise LacunerError(f"{folder} does not hold the results of all shards yet — run the command again")
    for _, batch in sorted(finished.items()):
        copy_file(folder, plan.name_of(batch), out)


@dataclass(frozen=True)
class _Job:
    batch: Batch
    name: str
    folder: Folder

    def __str__(self) -> str:
        return str(self.batch)


class _Jobs(Iterator[_Job]):
    """Remaining work. It may continue after its end: halves of a failed batch are added for the running workers."""

    def __init__(self, plan: Plan, folder: Folder, batches: Iterable[Batch]) -> None:
        self.batches = deque(batches)
        self._plan, self._folder = plan, folder

    def __next__(self) -> _Job:
        if not self.batches:
            raise StopIteration
        batch = self.batches.popleft()
        return _Job(batch, self._plan.name_of(batch), self._folder)


def _make_all(
    engine: Engine, start: Callable[[], Work], plan: Plan, folder: Folder, batches: Sequence[Batch]
) -> Iterator[Part]:
    jobs = _Jobs(plan, folder, batches)
    while jobs.batches:  # once, unless an engine does not ask again for the halves
        with closing(engine.map_each(partial(_starter, start), jobs)) as ended:
            for outcome in ended:
                batch, error = outcome.item.batch, outcome.error
                if isinstance(error, WriteError):
                    raise error  # no other result could be written either
                if error is not None and len(batch.shards) > 1:
                    jobs.batches.extendleft(reversed(batch.halves()))
                else:
                    yield Part(batch, outcome.item.name, outcome.result, error=error)


def _shown(path: str | Path) -> str:
    return str(path) if is_url(path) else str(Path(path).absolute())


def _create(folder: Folder) -> None:
    try:
        folder.create()
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error} — choose another folder") from error


def _claim(folder: Folder, plan: Plan) -> dict[str, Any]:
    """Claim the folder, or check that it belongs to this plan; return the manifest."""
    wanted = plan.fingerprint()
    try:
        names = folder.names()
        if MANIFEST not in names:
            if any(not name.startswith(f".{MANIFEST}.") for name in names - {_SUMMARIES}):
                raise ConfigError(
                    f"{folder} is not empty, and holds no results of this command — choose another folder"
                )
            _write_json(folder, MANIFEST, {**wanted, "complete": False})
        folder.create(_SUMMARIES)
        found = _read_json(folder, MANIFEST)
    except WriteError:
        raise
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error} — choose another folder") from error
    except ValueError as error:
        raise ConfigError(
            f"{folder}/{MANIFEST} is damaged ({error}) — remove the folder, or choose another one"
        ) from error
    differ = [key for key in wanted if not isinstance(found, dict) or found.get(key) != wanted[key]]
    if differ and isinstance(found, dict) and "lacuner" in found and all(map(_is_empty_without, names)):
        _write_json(folder, MANIFEST, {**wanted, "complete": False})  # left by a run without results
        return wanted
    if differ:
        changed = _changed_inputs(found, wanted) if differ == ["inputs"] else ""
        raise ConfigError(
            f"{folder} holds the results of another run, with other {', '.join(differ).replace('_', ' ')}{changed} — choose "
            "another folder, or remove it"
        )
    return wanted


def _is_empty_without(name: str) -> bool:
    """Whether a folder with only such files has no results."""
    return name in (MANIFEST, _SUMMARIES) or (name.startswith(".") and name.endswith(".lacuner"))


def _changed_inputs(found: Any, wanted: Mapping[str, Any]) -> str:
    """Describe in one sentence which files have changed."""
    known = {item["path"]: item for item in found.get("inputs") or ()}
    changed = [item["path"] for item in wanted["inputs"] if item["path"] in known and known[item["path"]] != item]
    if not changed:
        return ""
    more = f", and {len(changed) - 1:,} others have" if len(changed) > 1 else ""
    return f" ({changed[0]} has changed since then{more})"


def _starter(start: Callable[[], Work]) -> Callable[[_Job], Any]:
    return partial(_make, start())


def _make(work: Work, job: _Job) -> Any:
    with job.folder.write(job.name) as raw:
        with _as_text(raw) as file:
            summary = work(job.batch.shards, file)
        # Write the summary first, so that every part has one.
        _write_json(job.folder, f"{_SUMMARIES}/{job.name}.json", summary)
    return summary


@contextmanager
def _as_text(raw: BinaryIO) -> Iterator[TextIO]:
    file = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
    try:
        yield file
        file.flush()
    finally:
        file.detach()


def _write_json(folder: Folder, name: str, value: Any) -> None:
    with folder.write(name) as file:
        file.write((json.dumps(value, ensure_ascii=False, indent=1 if name == MANIFEST else None) + "\n").encode())


def _read_json(folder: Folder, name: str) -> Any:
    with folder.read(name) as file:
        return json.loads(file.read())
