"""Every method on corpora with gaps, several seeds: the figures of docs/results/methods.md.

    python benchmarks/methods.py [--runs full uniform "uniform negatives.ratio=0.7" …] [--data ec wikigold …] [--seeds 1 2 3]
                                 [--out docs/results/methods.jsonl] [--no-test] [--workers 2]
                                 [--table [--gap]] [--update PAGE]

A run is a method and settings to change. Needs the corpora below LACUNER_DATA. What is in the output file already is not run
again. Small on purpose (the first 4,000 sentences of CoNLL-03, a third of NEWS): each of the runs takes a minute or two on one
core. Epochs and thresholds are chosen on dev data; ``--no-test`` leaves the test data alone while one is still searching.
"""

import argparse
import json
import multiprocessing
import os
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lacuner import Corpus, Recognizer
from lacuner.bench.results import spread
from lacuner.methods.registry import registry
from lacuner.training.settings import parse_assignments
from lacuner.version import __version__

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
DATA = Path(os.environ.get("LACUNER_DATA", ROOT.parent / "shared" / "data"))
CHINESE = {"encoder.vectors": str(DATA / "ec" / "char_vectors_100d.txt")}
BERT = {"encoder": str(DATA.parent / "encoders" / "bge-small-zh"), "training.batch_tokens": 256}


@dataclass(frozen=True)
class Task:
    """What to train on, how long, and what to choose the epoch by."""

    folder: str
    train: Callable[[Path, int], Corpus]
    epochs: int
    trusted: Callable[[Path], Corpus] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    dev_sentences: int | None = None
    test_sentences: int | None = None


def read(
    folder: Path, seed: int, file: str, hidden: float = 0.0, sentences: int | None = None, complete: bool = False
) -> Corpus:
    corpus = first(Corpus.read(folder / file), sentences)
    corpus = corpus.as_complete() if complete else corpus
    return corpus.mask(hidden, seed) if hidden else corpus


def first(corpus: Corpus, sentences: int | None) -> Corpus:
    return corpus if sentences is None else Corpus(tuple(corpus)[:sentences], corpus.report)


def mixture(folder: Path, seed: int) -> Corpus:
    """A third of NEWS: the human and the distant part in their natural proportion, as one corpus."""
    return first(Corpus.read(folder / "train.human.conll"), 1000) + first(
        Corpus.read(folder / "train.distant.conll"), 1240
    )


def trusted(folder: Path, sentences: int | None = None) -> Corpus:
    return first(Corpus.read(folder / "train.human.conll"), sentences)


def conll(**how: Any) -> Task:
    file = "train.conll" if how.pop("distant", False) else "train.gold.conll"
    return Task("conll03", partial(read, file=file, sentences=4000, **how), epochs=6, dev_sentences=1000)


def wikigold(file: str) -> Task:
    return Task("wikigold", partial(read, file=file), epochs=12)


def masked(folder: str, hidden: float, epochs: int) -> Task:
    """A Chinese corpus with some of its labels hidden."""
    settings = CHINESE | {"training.batch_tokens": 512}
    return Task(folder, partial(read, file="train.gold.conll", hidden=hidden), epochs, settings=settings)


def ec(
    file: str,
    part: Callable[[Path], Corpus] | None = None,
    complete: bool = False,
    settings: Any = CHINESE,
    epochs: int = 12,
) -> Task:
    return Task("ec", partial(read, file=file, complete=complete), epochs, part, settings)


def news(train: Callable[[Path, int], Corpus], part: Callable[[Path], Corpus] | None = None, epochs: int = 6) -> Task:
    return Task("news", train, epochs, part, CHINESE, dev_sentences=500, test_sentences=1500)


TASKS = {
    "conll03": conll(distant=True),
    "conll03-0.5": conll(hidden=0.5),
    "conll03-0.7": conll(hidden=0.7),
    "conll03-0.8": conll(hidden=0.8),
    "conll03-0.9": conll(hidden=0.9),
    "conll03-gold": conll(),
    "wikigold": wikigold("train.conll"),
    "wikigold-gold": wikigold("train.gold.conll"),
    "ec": ec("train.conll"),
    "ec-human": ec("train.human.conll", complete=True, epochs=24),  # a third of the data: read it twice as often
    "ec-trusted": ec("train.distant.conll", trusted),
    "ec-bert-human": ec("train.human.conll", complete=True, settings=BERT, epochs=12),
    "ec-bert-trusted": ec("train.distant.conll", trusted, settings=BERT, epochs=6),
    "news": news(mixture),
    "news-human": news(partial(read, file="train.human.conll", sentences=1000, complete=True), epochs=12),
    "news-trusted": news(partial(read, file="train.distant.conll", sentences=1240), partial(trusted, sentences=1000)),
}
TASKS |= {f"weibo-{hidden}": masked("weibo", hidden, epochs=15) for hidden in (0.1, 0.3, 0.5, 0.7)}
TASKS |= {f"resume-{hidden}": masked("resume", hidden, epochs=8) for hidden in (0.1, 0.3, 0.5, 0.7)}
GAPS = ("conll03", "conll03-0.5", "conll03-0.7", "conll03-0.8", "conll03-0.9", "wikigold", "ec", "news")
"""Tasks without trusted data."""


def work(cell: tuple[str, str, int, bool]) -> dict[str, Any]:
    name, run, seed, test = cell
    torch.set_num_threads(1)
    task = TASKS[name]
    folder = DATA / task.folder
    method, *assignments = run.split()
    settings: dict[str, Any] = {"training.epochs": task.epochs, "training.patience": "none"}
    settings |= dict(task.settings) | parse_assignments(assignments)
    began = time.perf_counter()
    model = Recognizer.train(
        task.train(folder, seed),
        first(Corpus.read(folder / "dev.conll"), task.dev_sentences),
        method=method,
        seed=seed,
        settings=settings,
        trusted=None if task.trusted is None else task.trusted(folder),
    )
    seconds = time.perf_counter() - began
    record = model.record
    assert record.dev is not None
    result = {"data": name, "run": run, "seed": seed, "version": __version__, "best_epoch": record.best_epoch}
    result |= {"threshold": model.model.threshold}
    result |= {"dev": _short(record.dev), "seconds": round(seconds, 1)}
    result["epochs"] = [round(epoch["dev"]["f1"], 4) for epoch in record.history]
    if test:
        result["test"] = _short(
            model.evaluate(first(Corpus.read(folder / "test.conll"), task.test_sentences)).as_dict()
        )
    return result


def _short(scores: dict[str, Any]) -> dict[str, float]:
    return {name: round(scores[name], 5) for name in ("precision", "recall", "f1")}


def load(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


def missing(cells: list[tuple[str, str, int, bool]], out: Path) -> Iterator[tuple[str, str, int, bool]]:
    done = {(result["data"], result["run"], result["seed"], "test" in result) for result in load(out)}
    for cell in cells:
        if cell not in done and (*cell[:3], True) not in done:
            yield cell


def table(results: list[dict[str, Any]], runs: list[str], data: list[str], part: str = "test") -> str:
    """F1 in percent, mean ± standard deviation over seeds, as Markdown; one row a run."""
    scores: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if part in result:
            scores.setdefault((result["run"], result["data"]), []).append(100 * result[part]["f1"])
    columns = [*data, *(["mean"] if len(data) > 1 else [])]
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' --: |' * len(columns)}"]
    for run in runs:
        cells = [scores.get((run, name), []) for name in data]
        means = [statistics.mean(cell) for cell in cells if cell]
        mean = f"{statistics.mean(means):.1f}" if len(means) == len(data) else ""
        lines.append(f"| `{run}` | {' | '.join([*map(spread, cells), mean][: len(columns)])} |")
    return "\n".join(lines)


def gaps(results: list[dict[str, Any]], runs: list[str], data: list[str]) -> str:
    """The share of the gap that is closed, ``(F1 - F1_full) / (F1_gold - F1_full)`` of the means, as Markdown."""

    def mean(run: str, name: str) -> float | None:
        found = [result["test"]["f1"] for result in results if (result["run"], result["data"]) == (run, name)]
        return statistics.mean(found) if found else None

    lines = [f"| | {' | '.join(data)} |", f"| --- |{' --: |' * len(data)}"]
    for run in runs:
        cells = []
        for name in data:
            f1, naive, gold = mean(run, name), mean("full", name), mean("full", TASKS[name].folder + "-gold")
            known = f1 is not None and naive is not None and gold is not None
            cells.append(f"{(f1 - naive) / (gold - naive):.0%}" if known else "")  # type: ignore[operator]
        lines.append(f"| `{run}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", default=sorted(registry().methods))
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=RESULTS / "methods.jsonl")
    parser.add_argument("--no-test", action="store_true", help="leave the test data alone")
    parser.add_argument("--table", action="store_true", help="train nothing, show what there is")
    parser.add_argument("--gap", action="store_true", help="with --table: the share of the gap that is closed")
    parser.add_argument("--update", type=Path, help="train nothing, renew the tables of this page")
    parser.add_argument("--workers", type=int, default=2)
    return parser


COMMENT = re.compile(r"^<!-- python benchmarks/methods.py (.*) -->\n\n*(?:\|.*\n)*\n*", re.MULTILINE)


def renewed(page: str) -> str:
    """A page with its tables made anew: each stands below a comment with the command that makes it."""

    def renew(found: re.Match[str]) -> str:
        return f"{found[0].splitlines()[0]}\n\n{show(options().parse_args(shlex.split(found[1])))}\n\n"

    return COMMENT.sub(renew, page)


def show(arguments: argparse.Namespace) -> str:
    results = load(ROOT / arguments.out)
    if arguments.gap:
        return gaps(results, arguments.runs, arguments.data)
    return table(results, arguments.runs, arguments.data, "dev" if arguments.no_test else "test")


def main() -> None:
    parser = options()
    arguments = parser.parse_args()
    if arguments.update:
        arguments.update.write_text(renewed(arguments.update.read_text(encoding="utf-8")), encoding="utf-8")
        return
    if not arguments.table:
        if not DATA.is_dir():
            parser.error(f"there is no folder {DATA}; LACUNER_DATA says where the corpora are")
        test = not arguments.no_test
        cells = [
            (data, run, seed, test) for seed in arguments.seeds for run in arguments.runs for data in arguments.data
        ]
        train(list(missing(cells, arguments.out)), arguments.out, arguments.workers)
    print(show(arguments))


def train(cells: list[tuple[str, str, int, bool]], out: Path, workers: int) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # two trainings on a core each are faster than one on two
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool, out.open("a", encoding="utf-8") as file:
        for result in pool.imap_unordered(work, cells):
            file.write(json.dumps(result) + "\n")
            file.flush()
            shown = 100 * result.get("test", result["dev"])["f1"]
            print(
                f"{result['data']:<14} {result['run']:<40} {result['seed']}  {shown:6.2f}  {result['seconds']:.0f} s",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    main()
