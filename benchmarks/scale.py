"""Large inputs: the same bytes as one process after many kills, memory that does not grow, and what a line costs.

Text is generated, one line of about a kilobyte at a time. It is annotated by one process, by two workers of this machine, and
by Ray with two CPUs. At random moments the driver, a worker, or Ray's head is killed with SIGKILL, and the command is started
again; at the end the merged output must be that of one process, byte by byte. The peak memory of every process is compared with
that of a small run. Then the time for inputs of growing size is measured, and what it means for a terabyte.

    python benchmarks/scale.py [--gigabytes N] [--kills N] [--lines N …] [--model FOLDER] [--engines local ray] [--figure FILE]
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

NAMES = 10_000
WORDS = 165  # of about six letters: a line of a kilobyte
SMALL = 10 * 2**20
SHARDS = 200
LIMIT = 1.5
TABLE = (10**9, 10**10, 10**11, 10**12)


def write_names(path: Path, generator: random.Random) -> list[str]:
    names = sorted({f"{_word(generator).title()} {_word(generator).title()}" for _ in range(NAMES)})
    path.write_text("".join(f"{name}\t{'PER' if number % 2 else 'LOC'}\n" for number, name in enumerate(names)))
    return names


def write_text(path: Path, names: Sequence[str], generator: random.Random, size: int = 0, lines: int = 0) -> int:
    """Lines until there are so many bytes, or so many of them; returns how many."""
    vocabulary = [_word(generator) for _ in range(20_000)]
    count = written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size or count < lines:
            words = generator.choices(vocabulary, k=WORDS)
            for _ in range(3):
                words[generator.randrange(WORDS)] = generator.choice(names)
            written += file.write(f"{' '.join(words)} .\n")
            count += 1
    return count


def _word(generator: random.Random) -> str:
    return "".join(generator.choices("abcdefghijklmnoprstuvw", k=generator.randint(3, 9)))


def command(text: Path, names: Path, out: str, *others: object) -> list[str]:
    given = ["annotate", text, "--dictionary", names, "--out", out, *others]
    return [sys.executable, "-m", "lacuner", *map(str, given)]


class Family:
    """A command and all its descendants, with the largest resident memory of each kind of process."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.peak = 0

    def members(self) -> Iterator[Any]:
        import psutil

        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            yield from [root, *root.children(recursive=True)]

    def watch(self, seconds: float) -> bool:
        """Look at its memory for a while; whether it is still running."""
        import psutil

        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            for member in self.members():
                with suppress(psutil.Error):
                    if "python" in member.name() or "ray::" in member.name():
                        self.peak = max(self.peak, member.memory_info().rss - _shared(member.pid))
            time.sleep(min(0.2, seconds))
        return self.process.poll() is None

    def kill_one(self, generator: random.Random) -> str:
        """Kill the driver, a worker, or, of Ray, a part of its head."""
        import psutil

        driver, *others = list(self.members()) or [None]
        workers = [each for each in others if _is_worker(each)]
        head = [each for each in others if each.name() in ("raylet", "gcs_server")]
        what, victim = generator.choice(
            [("driver", driver), *[("worker", each) for each in workers], *[(each.name(), each) for each in head]]
        )
        with suppress(psutil.Error, AttributeError):
            victim.send_signal(signal.SIGKILL)
        return str(what)

    def end(self) -> None:
        import psutil

        members = list(self.members())
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        psutil.wait_procs(members, timeout=30)


def _is_worker(process: Any) -> bool:
    import psutil

    try:
        name = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return name.startswith("ray::_Worker") or (" -m lacuner" in name and "ray" not in process.name())


def _shared(process: int) -> int:
    """Bytes that a process shares with others: files, and Ray's store of objects."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        shared = (int(line.split()[1]) for line in lines if line.startswith(("RssFile", "RssShmem")))
        return 1024 * sum(shared)
    return 0


def measure_peak(arguments: Sequence[str]) -> int:
    """Peak memory of the largest process of a command that is not disturbed."""
    family = Family(arguments)
    while family.watch(1.0):
        pass
    _, log = family.process.communicate()
    if family.process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {log}")
    return family.peak


def survive_kills(
    arguments: Sequence[str], out: Path, shards: int, kills: int, generator: random.Random
) -> tuple[list[str], int]:
    """Start a command again after each kill, and let it finish in the end: what was killed, and the peak memory.

    Kills are spread over the work: each comes when a random number of further shards is done.
    """
    killed: list[str] = []
    peak = 0
    while len(killed) < kills:
        family = Family(arguments)
        target = (len(killed) + generator.random()) / (kills + 1) * shards
        while len(list(out.glob("part-*"))) < target and family.watch(0.05):
            pass
        family.watch(generator.uniform(0, 0.3))  # in the middle of a shard
        if family.process.poll() is not None:
            raise SystemExit(f"it ended before kill {len(killed) + 1}: {family.process.communicate()[1]}")
        killed.append(family.kill_one(generator))
        family.watch(generator.uniform(0, 3))
        family.end()
        peak = max(peak, family.peak)
    return killed, max(peak, measure_peak(arguments))


def check_equality(
    folder: Path, gigabytes: float, kills: int, engines: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    generator = random.Random(seed)
    names_file, small, large = folder / "names.tsv", folder / "small.txt", folder / "large.txt"
    names = write_names(names_file, generator)
    write_text(small, names, generator, min(SMALL, int(gigabytes * 2**30)))
    lines = write_text(large, names, generator, int(gigabytes * 2**30))
    subprocess.run(
        command(large, names_file, str(folder / "one.jsonl"), "--workers", 1), check=True, capture_output=True
    )
    size = min(16.0, gigabytes * 1024 / SHARDS)
    rows = []
    for engine in engines:
        options = [
            "--workers",
            2,
            "--engine",
            engine,
            "--shard-size",
            min(size, 16),
            "--merge",
            folder / f"{engine}.jsonl",
        ]
        before = measure_peak(command(small, names_file, f"{folder / engine}-small/", *options))
        out = folder / engine
        killed, peak = survive_kills(command(large, names_file, f"{out}/", *options), out, SHARDS, kills, generator)
        same = filecmp.cmp(folder / "one.jsonl", folder / f"{engine}.jsonl", shallow=False)
        row = {"engine": engine, "bytes": large.stat().st_size, "lines": lines, "kills": killed, "same": same}
        rows.append(row | {"peak": peak, "peak_small": before, "memory_ratio": round(peak / max(before, 1), 3)})
        print(
            f"{engine}: {lines:,} lines, {len(killed)} kills ({', '.join(sorted(set(killed)))}), "
            f"{'the same bytes' if same else 'OTHER BYTES'}, memory {peak / 2**20:.0f} MiB, {peak / max(before, 1):.2f} × that "
            f"of {small.stat().st_size / 2**20:.0f} MiB of text",
            flush=True,
        )
        shutil.rmtree(out)
    return rows


def measure_growth(folder: Path, counts: Sequence[int], model: str | None, seed: int) -> list[dict[str, Any]]:
    """Seconds of CPU for inputs of growing size, start included and taken off."""
    generator = random.Random(seed)
    names_file = folder / "names.tsv"
    names = write_names(names_file, generator)
    empty = folder / "empty.txt"
    empty.write_text("Nothing .\n")
    rows = []
    for count in counts:
        text = folder / "growth.txt"
        write_text(text, names, generator, lines=count)
        verbs = {"annotate": command(text, names_file, str(folder / "x.jsonl"), "--workers", 1)}
        if model is not None:
            out = folder / "y.jsonl"
            verbs["predict"] = [sys.executable, "-m", "lacuner", "predict", model, str(text), "--out", str(out)]
        for verb, arguments in verbs.items():
            idle = _cpu_seconds([str(empty) if each == str(text) else each for each in arguments])
            seconds = max(_cpu_seconds(arguments) - idle, 1e-9)
            row = {"verb": verb, "lines": count, "bytes": text.stat().st_size, "cpu_seconds": seconds}
            rows.append(row | {"microseconds_per_line": 1e6 * seconds / count})
            print(
                f"{verb}: {count:,} lines, {seconds:,.1f} s of CPU, {1e6 * seconds / count:,.0f} µs a line", flush=True
            )
    return rows


def _cpu_seconds(arguments: Sequence[str]) -> float:
    before = os.times()
    subprocess.run(arguments, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def cost_table(rows: Sequence[dict[str, Any]]) -> str:
    """Core hours for a million lines, and up to a terabyte, at the rate of the largest input: arithmetic, not a measurement."""
    best = {row["verb"]: row for row in rows}  # the last one of each verb is the largest
    verbs = list(best)
    lines = ["Arithmetic from the rate of one core for the largest input above; nothing else was measured.", ""]
    lines.append(f"{'input':>10}  {'lines':>16}  " + "  ".join(f"{verb + ', core hours':>22}" for verb in verbs))
    length = best[verbs[0]]["bytes"] / best[verbs[0]]["lines"]
    for name, count in [("", 10**6), *((f"{size / 10**9:,.0f} GB", size / length) for size in TABLE)]:
        hours = (count * best[verb]["cpu_seconds"] / best[verb]["lines"] / 3600 for verb in verbs)
        lines.append(f"{name:>10}  {count:16,.0f}  " + "  ".join(f"{each:22,.2f}" for each in hours))
    return "\n".join(lines)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for verb in dict.fromkeys(row["verb"] for row in rows):
        points = [(row["lines"], row["cpu_seconds"]) for row in rows if row["verb"] == verb]
        axes.plot(*zip(*points, strict=True), marker="o", label=verb)
        first = points[0][1] / points[0][0]
        straight = zip(*((lines, lines * first) for lines, _ in points), strict=True)
        axes.plot(*straight, linestyle=":", color="gray", label=f"as much a line as for {points[0][0]:,}")
    axes.set(xscale="log", yscale="log", xlabel="lines of about a kilobyte", ylabel="seconds of CPU, without the start")
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="text for the kills; 0: none")
    parser.add_argument("--kills", type=int, default=20, help="of each engine")
    parser.add_argument("--engines", nargs="+", default=["local", "ray"], help="local and ray by default")
    parser.add_argument(
        "--lines", type=int, nargs="*", default=[10**4, 10**5, 10**6], help="sizes for the cost of a line"
    )
    parser.add_argument("--model", default=None, help="folder of a model, to measure predict, too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="for texts and results, several times --gigabytes")
    parser.add_argument("--figure", type=Path, default=None, help="where to draw the cost of a line")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        if arguments.gigabytes > 0:
            result["kills"] = check_equality(
                Path(name), arguments.gigabytes, arguments.kills, arguments.engines, arguments.seed
            )
        if arguments.lines:
            result["growth"] = measure_growth(Path(name), arguments.lines, arguments.model, arguments.seed)
            result["table"] = cost_table(result["growth"])
            print(f"\n{result['table']}")
            if arguments.figure is not None:
                draw(result["growth"], arguments.figure)
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "scale.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    wrong = [row for row in result.get("kills", ()) if not row["same"] or row["memory_ratio"] > LIMIT]
    if wrong:
        raise SystemExit(f"failed: {', '.join(row['engine'] for row in wrong)}")


if __name__ == "__main__":
    main()
