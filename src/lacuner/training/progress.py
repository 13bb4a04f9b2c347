"""Progress display of training: a bar with rate and remaining time, and a line for each epoch."""

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from lacuner.training.loop import Observer

_INTERVAL = 10.0  # seconds between plain lines where there is no bar


@contextmanager
def shown_progress(wanted: bool | None, metric: str) -> Iterator[Observer]:
    """Yield an observer that displays training progress.

    Args:
        wanted: True always displays it, as plain lines where no bar can be shown; False never does; None, the default, only
            in a terminal or notebook, which keeps the logs of scripts and servers clean.
        metric: what the best epoch is selected by, as in ``training.metric``.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if wanted is False or (wanted is None and not (console.is_terminal or console.is_jupyter)):
        yield Observer()
        return
    observer = ConsoleObserver(console, metric=metric)
    try:
        yield observer
    finally:
        observer.stop()


class ConsoleObserver(Observer):
    """A bar with rate and remaining time, and a line for each epoch; plain lines where no bar can be shown.

    Args:
        console: where to display.
        title: prefix of each line, to tell training runs apart.
        metric: what the best epoch is selected by, as in ``training.metric``.
    """

    def __init__(self, console: Console, title: str = "", metric: str = "f1") -> None:
        self._console = console
        self._metric = metric
        self._name = title
        self._title = f"{title}  " if title else ""
        self._best = -1.0
        self._epoch = self._epochs = self._words = self._done = 0
        self._began = self._shown = time.monotonic()
        self._first_epoch = 0
        self._bar: Progress | None = None

    def stage_started(self, title: str) -> None:
        self._title = "  ".join(part for part in (self._name, title) if part)
        self._title += "  " if self._title else ""
        self._best, self._first_epoch = -1.0, 0

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        self._epoch, self._epochs, self._words, self._done = epoch, epochs, words, 0
        self._epoch_began = time.monotonic()
        if not self._first_epoch:
            self._first_epoch, self._began = epoch, self._epoch_began
        if has_bars(self._console):
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"))
            self._bar = self.start_bar(*columns)
            self._task = self._bar.add_task(f"{self._title}epoch {epoch}/{epochs}", total=words, rate="")

    def batch_done(self, words: int) -> None:
        self._done += words
        now = time.monotonic()
        rate = f"{self._done / (now - self._epoch_began):,.0f} words/s, {self._remaining(now)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=rate)
        elif now - self._shown > _INTERVAL:
            self._shown = now
            share = self._done / self._words
            self._say(f"{self._title}epoch {self._epoch}/{self._epochs}  {share:4.0%}  {rate}")

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.stop()
        self._shown = time.monotonic()
        text = f"{self._title}epoch {record['epoch']:>2}/{self._epochs}  loss {record['loss']:.4f}"
        if "dev" in record:
            quality = record["dev"]["pu_estimate" if self._metric == "pu" else "f1"]
            text += f"  {describe_dev(record['dev'], self._metric)}"
            text += "  best so far" if quality > self._best else ""
            self._best = max(self._best, quality)
        self._say(f"{text}  {record['words_per_second']:,} words/s")

    def start_bar(self, *columns: ProgressColumn) -> Progress:
        """Create a bar and show it."""
        bar = Progress(*columns, console=self._console, transient=True)
        bar.start()
        return bar

    def stop(self) -> None:
        """Remove the bar, however training has ended, so that the terminal gets its cursor back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def _remaining(self, now: float) -> str:
        epochs_done = self._epoch - self._first_epoch + self._done / self._words
        seconds = (now - self._began) / epochs_done * (self._epochs - self._epoch + 1 - self._done / self._words)
        return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def has_bars(console: Console) -> bool:
    """Whether a bar can be shown: in a terminal, or in a notebook with the package ipywidgets."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


def describe_dev(dev: dict[str, Any], metric: str) -> str:
    """Format scores on dev data; for incomplete dev data without precision and F1, which would mislead."""
    if metric == "pu":
        return f"dev R {100 * dev['recall']:.2f} PU estimate {100 * dev['pu_estimate']:.2f}"
    return f"dev P {100 * dev['precision']:.2f} R {100 * dev['recall']:.2f} F1 {100 * dev['f1']:.2f}"
