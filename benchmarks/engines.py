"""What an engine costs: one worker against the plain loop, two against one, and Ray against processes of this machine.

The work is that of ``annotate``. In each round all engines run, in an order drawn at random, and Ray is started before its
turn and stopped after it; a ratio is the median of those of the rounds, with their quartiles. Where processes are compared,
times are those of a clock, and mean something only on two free cores; beside them is the ratio of the processor time that the
whole family of processes needed, which other work on the machine changes less.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from scale import write_names, write_text

from lacuner.matching import Dictionary
from lacuner.matching.annotation import read_texts
from lacuner.streams.annotate import Matchers, ShardAnnotator, annotate_stream
from lacuner.streams.engine import Engine, LocalEngine
from lacuner.streams.folders import folder_at
from lacuner.streams.inputs import with_states
from lacuner.streams.resumable import Plan, map_to_files

MEGABYTES = 192
SHARDS = 96


class _Cost(NamedTuple):
    """Seconds: of a clock, and of the processors that this process and those below it have had."""

    wall: float
    cpu: float


def compare_engines(megabytes: float = MEGABYTES, rounds: int = 5, ray: bool = True) -> list[dict[str, Any]]:
    """Rows for the table of speed.py."""
    with _text(megabytes) as (text, matchers, words):
        run = _Runs(text, matchers)
        runs: dict[str, Callable[[], _Cost]] = {"plain": run.plain}
        engines: dict[str, Engine] = {"one": LocalEngine(1), "two": LocalEngine(2)}
        if ray:
            from lacuner.streams.ray_engine import RayEngine

            engines["ray"] = RayEngine(2)
        runs |= {name: partial(run.parts, engine) for name, engine in engines.items()}
        if ray:
            runs["ray"] = partial(_on_ray, engines["ray"], runs["ray"])
        order = random.Random(1)
        costs = [{name: runs[name]() for name in order.sample(list(runs), len(runs))} for _ in range(rounds)]
    rows = [_row("engine local, one worker", "plain loop (CPU)", costs, "one", "plain", words, by_clock=False)]
    rows.append(_row("engine local, two workers", "one worker", costs, "two", "one", words))
    if ray:
        rows.append(_row("engine ray, two workers", "engine local", costs, "ray", "two", words))
    return rows


def _on_ray(engine: Engine, measure: Callable[[], _Cost]) -> _Cost:
    """The cost of a run once Ray has started. Ray is stopped then: what it needs while idle is no cost of the others."""
    import ray

    list(engine.map(partial(partial, str), [0]))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # its processes are busy for seconds after it has answered
        began = _Moment()
        time.sleep(1)
        if began.cost().cpu < 0.1:
            break
    cost = measure()
    ray.shutdown()
    return cost


class _Runs:
    def __init__(self, text: Path, matchers: Matchers) -> None:
        self._text, self._matchers, self._count = text, matchers, 0

    def plain(self) -> _Cost:
        """The loop without shards: read, annotate, write."""
        matcher, _ = self._matchers.get(characters=False)
        began = _Moment()
        with (self._text.parent / "plain.jsonl").open("w", encoding="utf-8") as out:
            annotate_stream(matcher, read_texts(self._text).texts, out, "jsonl", max_words=256)
        return began.cost()

    def parts(self, engine: Engine) -> _Cost:
        """All parts at the rate of the second half of them, in which all workers have started."""
        self._count += 1
        files = with_states([self._text])
        plan = Plan(files, {}, size=files[0].state.size // SHARDS + 1)
        work = ShardAnnotator(self._matchers, max_words=256)
        half, cost, began = SHARDS // 2, _Cost(0, 0), _Moment()
        parts = map_to_files(engine, work, plan, folder_at(self._text.parent / f"out-{self._count}"))
        for done, part in enumerate(parts, start=1):
            assert part.error is None, part.error
            if done == half:
                began = _Moment()
            elif done == len(plan.shards):  # before the workers are ended
                cost = began.cost()
        factor = len(plan.shards) / (len(plan.shards) - half)
        return _Cost(cost.wall * factor, cost.cpu * factor)


class _Moment:
    """The time, and the processor time of each process of the family."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), dict[int, float]()
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            with suppress(psutil.Error):  # one that has ended meanwhile
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system

    def cost(self) -> _Cost:
        """What was needed since then, by the processes that are there now."""
        now = _Moment()
        spent = (seconds - self._cpu.get(process, 0.0) for process, seconds in now._cpu.items())
        return _Cost(now._wall - self._wall, sum(spent))


@contextmanager
def _text(megabytes: float) -> Iterator[tuple[Path, Matchers, int]]:
    with tempfile.TemporaryDirectory() as name:
        generator, text = random.Random(1), Path(name, "text.txt")
        names = write_names(Path(name, "names.tsv"), generator)
        write_text(text, names, generator, int(megabytes * 2**20))
        matchers = Matchers(Dictionary.of([(each, "NAME") for each in names]))
        matchers.get(characters=False)
        yield text, matchers, len(text.read_text(encoding="utf-8").split())


def _row(
    name: str,
    yardstick: str,
    costs: Sequence[dict[str, _Cost]],
    ours: str,
    theirs: str,
    words: int,
    by_clock: bool = True,
) -> dict[str, Any]:
    walls, cpus = ([each[ours][kind] / each[theirs][kind] for each in costs] for kind in (0, 1))
    wall, cpu = statistics.median(walls), statistics.median(cpus)
    low, _, high = statistics.quantiles(walls if by_clock else cpus, method="inclusive")
    seconds = statistics.median(each[ours].wall if by_clock else each[ours].cpu for each in costs)
    return {
        "name": name,
        "phase": "annotate",
        "ratio": round(wall if by_clock else cpu, 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "cpu_ratio": round(cpu, 3),
        "yardstick": yardstick,
        "words_per_second": round(words / seconds),
    }


if __name__ == "__main__":
    for row in compare_engines():
        print(
            f"{row['name']:<28} {row['ratio']:6.2f} ({row['quartiles'][0]:.2f} to {row['quartiles'][1]:.2f}; processor time "
            f"{row['cpu_ratio']:.2f})  {row['yardstick']:<18} "
            f"{row['words_per_second']:10,} words/s"
        )
