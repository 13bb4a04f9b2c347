"""What a verb says and how: figures and data on standard output, everything else on standard error."""

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.color import ColorSystem
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

T = TypeVar("T")

errors = Console(stderr=True, highlight=False, soft_wrap=True)
_PATIENCE = 2.0  # seconds before a bar appears
_started: list[Progress] = []
_INTERVAL = 10.0  # seconds between plain lines where there is no terminal


def set_up_logging() -> None:
    """Show what the package logs, without time stamps or source lines."""
    logger = logging.getLogger("lacuner")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if sys.stderr.isatty():
        handler: logging.Handler = RichHandler(
            console=errors, show_time=False, show_path=False, show_level=False, markup=False, highlighter=None
        )
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Plain())
    logger.handlers = [handler]
    for noisy in ("transformers", "accelerate", "httpx"):
        logging.getLogger(noisy).setLevel(logging.ERROR)


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def terminal_colors() -> ColorSystem | None:
    """The colors that standard output has; none if it is no terminal, or if ``NO_COLOR`` says so."""
    console = Console(file=sys.stdout)
    if console.no_color or console.legacy_windows or console.color_system is None:
        return None
    return {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT}.get(
        console.color_system, ColorSystem.TRUECOLOR
    )


def number_of(count: int, noun: str) -> str:
    """A number and what it counts.

    >>> number_of(1, "entity"), number_of(2, "entity"), number_of(1000, "text")
    ('1 entity', '2 entities', '1,000 texts')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def say(text: str) -> None:
    """A line on standard error."""
    errors.print(text, markup=False)


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Pass ``items`` on, and show how many there were once it has taken a while."""
    if errors.is_terminal:
        yield from _track_with_bar(items, what, total)
        return
    began = shown = time.monotonic()
    count = 0
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - shown > _INTERVAL:
            say(f"{count:,} {what}, {count / (now - began):,.0f} a second")
            shown = now
    if shown > began:
        say(f"{count:,} {what} in {time.monotonic() - began:,.0f} seconds")


def _track_with_bar(items: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar, task = None, None
    began = time.monotonic()
    try:
        for item in items:
            if bar is None and time.monotonic() - began > _PATIENCE:
                bar = start_bar(*columns)
                task = bar.add_task(what, total=total)
            yield item
            if bar is not None and task is not None:
                bar.advance(task)
    finally:
        if bar is not None:
            bar.stop()


def start_bar(*columns: ProgressColumn) -> Progress:
    """A progress bar on standard error. A command that ends in any way stops it, so that the cursor comes back."""
    bar = Progress(*columns, console=errors, transient=True)
    _started.append(bar)
    bar.start()
    return bar


def stop_bars() -> None:
    """Stop every bar that is still shown."""
    while _started:
        _started.pop().stop()


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        return f"warning: {message}" if record.levelno >= logging.WARNING else message
