"""What an engine costs: one worker against the plain loop, two against one, and Ray against processes of this machine.

The work is that of ``annotate``. Where processes are compared, times are those of a clock, and mean something only on two free
cores; the ratio of one worker to the plain loop is one of CPU time.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scale import write_names, write_text

from lacuner.matching import Dictionary
from lacuner.matching.annotation import read_texts
from lacuner.streams.annotate import Matchers, ShardAnnotator, annotate_stream
from lacuner.streams.engine import Engine, LocalEngine
from lacuner.streams.folders import folder_at
from lacuner.streams.inputs import with_states
from lacuner.streams.resumable import Plan, map_to_files

MEGABYTES = 192
SHARDS = 24


def compare_engines(megabytes: float = MEGABYTES, rounds: int = 3, ray: bool = True) -> list[dict[str, Any]]:
    """Rows for the table of speed.py; the best of some rounds, in turns."""
    with _text(megabytes) as (text, matchers, words):
        run = _Runs(text, matchers)
        cpu = _best({"plain": run.plain, "one": lambda: run.parts(LocalEngine(1))}, rounds, time.process_time)
        engines: dict[str, Engine] = {"one": LocalEngine(1), "two": LocalEngine(2)}
        if ray:
            from lacuner.streams.ray_engine import RayEngine

            engines["ray"] = RayEngine(2)
        wall = dict.fromkeys(engines, float("inf"))
        for _ in range(rounds):
            for name, engine in engines.items():
                wall[name] = min(wall[name], run.parts(engine))
    rows = [_row("engine local, one worker", cpu["one"] / cpu["plain"], "plain loop (CPU)", words / cpu["one"])]
    rows.append(_row("engine local, two workers", wall["two"] / wall["one"], "one worker", words / wall["two"]))
    if ray:
        rows.append(_row("engine ray, two workers", wall["ray"] / wall["two"], "engine local", words / wall["ray"]))
    return rows


class _Runs:
    def __init__(self, text: Path, matchers: Matchers) -> None:
        self._text, self._matchers, self._count = text, matchers, 0

    def plain(self) -> None:
        """The loop without shards: read, annotate, write."""
        matcher, _ = self._matchers.get(characters=False)
        with (self._text.parent / "plain.jsonl").open("w", encoding="utf-8") as out:
            annotate_stream(matcher, read_texts(self._text).texts, out, "jsonl", max_words=256)

    def parts(self, engine: Engine) -> float:
        """Seconds for all parts at the rate of the second half of them, in which all workers have started."""
        self._count += 1
        files = with_states([self._text])
        plan = Plan(files, {}, size=files[0].state.size // SHARDS + 1)
        work = ShardAnnotator(self._matchers, max_words=256)
        moments = []
        for part in map_to_files(engine, work, plan, folder_at(self._text.parent / f"out-{self._count}")):
            assert part.error is None, part.error
            moments.append(time.perf_counter())
        return (moments[-1] - moments[SHARDS // 2 - 1]) / (len(moments) - SHARDS // 2) * len(moments)


def _best(runs: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            run()
            seconds[name] = min(seconds[name], clock() - began)
    return seconds


@contextmanager
def _text(megabytes: float) -> Iterator[tuple[Path, Matchers, int]]:
    with tempfile.TemporaryDirectory() as name:
        generator, text = random.Random(1), Path(name, "text.txt")
        names = write_names(Path(name, "names.tsv"), generator)
        write_text(text, names, generator, int(megabytes * 2**20))
        matchers = Matchers(Dictionary.of([(each, "NAME") for each in names]))
        matchers.get(characters=False)
        yield text, matchers, len(text.read_text(encoding="utf-8").split())


def _row(name: str, ratio: float, yardstick: str, rate: float) -> dict[str, Any]:
    words = round(rate)
    return {
        "name": name,
        "phase": "annotate",
        "ratio": round(ratio, 3),
        "yardstick": yardstick,
        "words_per_second": words,
    }


if __name__ == "__main__":
    for row in compare_engines():
        print(f"{row['name']:<28} {row['ratio']:6.2f}  {row['yardstick']:<18} {row['words_per_second']:10,} words/s")
