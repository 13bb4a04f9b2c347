"""Output in parts: what ``annotate`` and ``predict`` do if ``--out`` is a folder."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from lacuner.cli.console import errors, say, start_bar
from lacuner.corpus.files import STANDARD_INPUT, is_url
from lacuner.errors import ConfigError, described

if TYPE_CHECKING:
    from lacuner.streams.engine import Engine
    from lacuner.streams.resumable import Part, Plan, Work

_INTERVAL = 10.0  # seconds between plain lines where there is no terminal
_SHOWN_FAILURES = 20


def is_folder(out: str) -> bool:
    """Whether the output is to be a folder with many files: it ends in a slash, or is there."""
    return out.endswith("/") or (not is_url(out) and out != STANDARD_INPUT and os.path.isdir(out))


def check_output(out: str, merge: Path | None, unmatched: Path | None = None) -> None:
    """Refuse what goes together with a folder only, or with a file only, and files in the folder of parts."""
    if not is_folder(out):
        if merge is not None:
            raise ConfigError("--merge joins the parts in a folder — end --out with /, or leave --merge out")
        if is_url(out):
            raise ConfigError(f"{out}: an output URL must be a folder — end it with /, or write to a local file")
    if merge is not None and is_url(str(merge)):
        raise ConfigError(f"--merge {merge}: the file must be on this machine")
    for option, path in (("--merge", merge), ("--unmatched", unmatched)):
        if path is not None and is_folder(out) and _is_inside(path, out):
            raise ConfigError(f"{option} {path} is in the folder of the parts, {out} — write it elsewhere")


def check_inputs(inputs: Sequence[str | Path], out: str, merge: Path | None, suffix: str) -> None:
    """Refuse results that the same command would read the next time, which makes another run of it."""
    from lacuner.streams.inputs import stands_for

    for argument in inputs:
        for option, path, made in (("--out", out, f"{out.rstrip('/')}/part-00000{suffix}"), ("--merge", merge, merge)):
            if made is not None and is_folder(out) and stands_for(argument, str(made)):
                raise ConfigError(
                    f"{option} {path} is among the inputs, {argument}, so the next run would read it — write it elsewhere"
                )


def _is_inside(path: Path, folder: str) -> bool:
    local = folder.removeprefix("file://")
    return not is_url(local) and path.resolve().is_relative_to(Path(local).resolve())


def bytes_of_shard(megabytes: float) -> int:
    """What ``--shard-size`` means."""
    return max(1, round(megabytes * 2**20))


def plan_parts(
    files: Sequence[str | Path], made_with: Mapping[str, Any], size: float, input_format: str | None, suffix: str
) -> "Plan":
    """What is to be made of these files."""
    from lacuner.streams.inputs import with_states
    from lacuner.streams.resumable import Plan

    return Plan(with_states(files), made_with, bytes_of_shard(size), input_format, suffix)


def make_parts(
    engine: "Engine",
    start: "Callable[[], Work]",
    plan: "Plan",
    out: str,
    merge: Path | None,
    add: Callable[[Any], int],
    counts: Callable[[], Mapping[str, Any]],
) -> bool:
    """Make what is missing, show how far it is, and join the parts if that is wanted.

    Args:
        engine: where the work runs.
        start: what a worker does.
        plan: what to make.
        out: the folder.
        merge: the file with all parts.
        add: counts the summary of a part; returns how many texts it has.
        counts: for the manifest, at the end.

    Returns:
        whether everything is done. What is not is said.
    """
    from lacuner.corpus.corpus import open_binary_for_writing
    from lacuner.streams.folders import folder_at
    from lacuner.streams.resumable import conclude, map_to_files, merge_parts

    folder, progress, failed = folder_at(out), _Progress(len(plan.shards)), list["Part"]()
    try:
        with closing(map_to_files(engine, start, plan, folder)) as parts:
            for part in parts:
                if part.error is None:
                    progress.add(part, add(part.summary))
                else:
                    failed.append(part)
                    progress.add(part, 0)
                    if len(failed) <= _SHOWN_FAILURES:
                        say(f"failed: {part.batch}: {described(part.error)}")
    except KeyboardInterrupt:
        progress.stop()
        done = progress.shards
        with suppress(OSError):  # more were finished while the workers were being ended
            done = sum(len(batch.shards) for batch in plan.finished(folder).values())
        say(f"Stopped. {done:,} of {len(plan.shards):,} shards are done; run the same command again to resume.")
        raise
    finally:
        progress.stop()
    conclude(plan, folder, counts())
    if progress.reused:
        say(f"{progress.reused:,} of {len(plan.shards):,} shards were already done.")
    if failed:
        kept = " --merge was not carried out." if merge is not None else ""
        say(
            f"{len(failed):,} of {len(plan.shards):,} shards failed; all others are done.{kept} "
            "Run the same command again to retry them."
        )
        return False
    if merge is not None:
        with open_binary_for_writing(merge) as file:
            merge_parts(plan, folder, file)
    return True


def exit_unless(done: bool) -> None:
    """End with the code of a failure, if it is one."""
    if not done:
        raise typer.Exit(1)


@dataclass
class _Progress:
    """How far all workers are together."""

    total: int
    shards: int = 0
    reused: int = 0
    texts: int = 0
    _bar: Progress | None = None
    _began: float = field(default_factory=time.monotonic)
    _said: float = field(default_factory=time.monotonic)

    def add(self, part: "Part", texts: int) -> None:
        count = len(part.batch.shards)
        self.shards += count
        if part.reused:
            self.reused += count
            return
        self.texts += texts
        now = time.monotonic()
        rate = f"{self.texts:,} texts, {self.texts / max(now - self._began, 0.001):,.0f} a second"
        if errors.is_terminal:
            if self._bar is None:
                columns = (TextColumn("shards"), BarColumn(), TextColumn("{task.completed:,.0f}/{task.total:,.0f}"))
                self._bar = start_bar(*columns, TextColumn("{task.description}"), TimeRemainingColumn())
                self._bar.add_task("", total=self.total)
            self._bar.update(self._bar.task_ids[0], completed=self.shards, description=rate)
        elif now - self._said > _INTERVAL:
            say(f"{self.shards:,} of {self.total:,} shards, {rate}")
            self._said = now

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
