"""Training seen from the terminal."""

import time
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from lacuner.cli.console import errors, say
from lacuner.training.trainer import Observer

_INTERVAL = 10.0  # seconds between plain lines where there is no terminal


class TerminalObserver(Observer):
    """A bar with rate and remaining time, and a line for each epoch; plain lines where there is no terminal.

    Args:
        title: put before each line, to tell one training from another.
    """

    def __init__(self, title: str = "") -> None:
        self._title = f"{title}  " if title else ""
        self._best = -1.0
        self._epoch = self._epochs = self._words = self._done = 0
        self._began = self._shown = time.monotonic()
        self._first_epoch = 0
        self._bar: Progress | None = None

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        self._epoch, self._epochs, self._words, self._done = epoch, epochs, words, 0
        self._epoch_began = time.monotonic()
        if not self._first_epoch:
            self._first_epoch, self._began = epoch, self._epoch_began
        if errors.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"),
                console=errors, transient=True,
            )  # fmt: skip
            self._bar.start()
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
            say(f"{self._title}epoch {self._epoch}/{self._epochs}  {share:4.0%}  {rate}")

    def close(self) -> None:
        """Take the bar away, however training ended."""
        if self._bar is not None:
            self._bar.stop()

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.close()
        self._shown = time.monotonic()
        text = f"{self._title}epoch {record['epoch']:>2}/{self._epochs}  loss {record['loss']:.4f}"
        if "dev" in record:
            dev = record["dev"]
            values = (100 * dev[name] for name in ("precision", "recall", "f1"))
            text += "  dev P {:.2f} R {:.2f} F1 {:.2f}".format(*values)
            text += "  best so far" if dev["f1"] > self._best else ""
            self._best = max(self._best, dev["f1"])
        say(f"{text}  {record['words_per_second']:,} words/s")

    def _remaining(self, now: float) -> str:
        epochs_done = self._epoch - self._first_epoch + self._done / self._words
        seconds = (now - self._began) / epochs_done * (self._epochs - self._epoch + 1 - self._done / self._words)
        return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
