"""A bench seen from the terminal: a live table, or plain lines where there is no terminal."""

import time
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lacuner.bench.results import Results, Title, spread, test_f1
from lacuner.bench.runner import Outcome, RunObserver
from lacuner.bench.runs import Run
from lacuner.cli.console import errors, say

_REFRESH = 2.0  # a second
_WIDEST = "12.3 ± 45.6"
"""The widest figure."""
_GAP = 2
"""Blanks between columns."""


class BenchProgress(RunObserver):
    """Shows the active runs, their progress, and the table so far."""

    def __init__(self, title: Title) -> None:
        self._title = title
        self._cells: Sequence[Run] = ()
        self._total = 0
        self._results: dict[str, dict[str, Any]] = {}
        self._shown: tuple[int, Results] | None = None  # how many are done, and their table
        self._running: dict[str, tuple[Run, str]] = {}
        self._failed = 0
        self._seconds: list[float] = []
        self._workers = 1
        self._live: Live | None = None
        self._began = time.monotonic()

    @property
    def count(self) -> str:
        """How many runs are done, of how many."""
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{len(self._results)}/{self._total}{failed}"

    def __enter__(self) -> "BenchProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begun(self, runs: Sequence[Run], results: dict[str, dict[str, Any]]) -> None:
        self._cells, self._results, self._total = runs, dict(results), len({run.key for run in runs})
        say(f"{self._total} runs, {len(results)} of them already done.")
        if errors.is_terminal and len(results) < self._total:
            self._live = Live(console=errors, get_renderable=self._picture, refresh_per_second=_REFRESH, transient=True)
            self._live.start()

    def started(self, run: Run) -> None:
        self._running[run.key] = run, "starts"
        self._workers = max(self._workers, len(self._running))

    def progress(self, run: Run, text: str) -> None:
        self._running[run.key] = run, text

    def finished(self, run: Run, result: dict[str, Any]) -> None:
        self._running.pop(run.key, None)
        self._results[run.key] = result
        self._seconds.append(result["seconds"])
        f1 = test_f1(result)
        score = f"F1 {f1:.1f}, " if f1 is not None else ""
        self._say(f"{self.count}  {run}: {score}{result['seconds']:,.0f} s; {self._remaining()}")

    def failed(self, run: Run, reason: str) -> None:
        self._running.pop(run.key, None)
        self._failed += 1
        self._say(f"{self.count}  {run}: failed: {reason}")

    def _say(self, text: str) -> None:
        if self._live is None:
            say(text)

    def _remaining(self) -> str:
        left = self._total - len(self._results) - self._failed
        if not self._seconds or not left:
            return f"{left} runs left"
        seconds = mean(self._seconds) * left / self._workers
        shown = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f"about {shown} left"

    def _picture(self) -> Group:
        """Drawn by a thread of its own, while runs start and finish."""
        done = dict(self._results)
        if self._shown is None or self._shown[0] != len(done):
            self._shown = len(done), Results.of(self._title, Outcome(done).records(self._cells))
        lines = [Text(f"  {run}: {text}", style="dim") for run, text in list(self._running.values())]
        state = Text(f"{self.count} runs, {self._remaining()}")
        table = _tables(self._shown[1], errors.width)
        return Group(Text(self._title.recipe.title, style="bold"), state, *lines, *table)


def _tables(results: Results, width: int) -> Iterator[Padding]:
    """F1 of every row and column so far; columns that do not fit in the width go below."""
    names = max(map(len, results.rows), default=0)
    widest = max(map(len, (_WIDEST, *results.columns))) + _GAP
    count = max(1, (width - names) // widest)
    for start in range(0, len(results.columns), count):
        columns = results.columns[start : start + count]
        table = Table("", box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for column in columns:
            table.add_column(Text(column), justify="right")
        for row in results.rows:
            table.add_row(Text(row), *(spread(results.values(row, column, test_f1)) for column in columns))
        yield Padding(table, (1, 0, 0, 0))
