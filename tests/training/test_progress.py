import io
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from lacuner.training import progress
from lacuner.training.loop import Observer
from lacuner.training.progress import ConsoleObserver, has_bars, shown_progress

RECORD: dict[str, Any] = {"epoch": 1, "loss": 0.5, "words_per_second": 1000}


def one_epoch(observer: Observer) -> None:
    observer.stage_started("")
    observer.epoch_started(1, 1, 10)
    observer.batch_done(4)
    observer.batch_done(6)
    observer.epoch_ended(RECORD)


def test_a_terminal_has_a_bar_and_keeps_a_line_for_each_epoch() -> None:
    shown = io.StringIO()
    one_epoch(ConsoleObserver(Console(file=shown, force_terminal=True, width=100, highlight=False)))
    text = shown.getvalue()
    assert "words/s" in text
    assert "━" in text
    assert "epoch  1/1  loss 0.5000" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is hidden, and comes back


def test_plain_output_has_a_line_for_each_epoch_and_no_bar() -> None:
    shown = io.StringIO()
    one_epoch(ConsoleObserver(Console(file=shown, soft_wrap=True, highlight=False)))
    assert shown.getvalue() == "epoch  1/1  loss 0.5000  1,000 words/s\n"


def test_an_interruption_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=shown, force_terminal=True, width=100, highlight=False)
    )

    def interrupted() -> None:
        with shown_progress(None, "f1") as observer:
            observer.epoch_started(1, 1, 10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert shown.getvalue().count("\x1b[?25l") == shown.getvalue().count("\x1b[?25h") == 1


@pytest.mark.parametrize(
    ("wanted", "terminal", "seen"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False), (False, False, False)],
)
def test_training_is_shown_to_whoever_is_there_to_see_it(monkeypatch, wanted, terminal, seen) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=shown, force_terminal=terminal, width=100, highlight=False)
    )
    with shown_progress(wanted, "f1") as observer:
        one_epoch(observer)
    assert ("loss 0.5000" in shown.getvalue()) == seen


@pytest.mark.parametrize("widgets", [False, True])
def test_a_notebook_has_a_bar_if_it_can_show_one(monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: ModuleType(name) if widgets else None)
    assert has_bars(Console(force_jupyter=True)) == widgets
    assert not has_bars(Console(file=io.StringIO()))


def test_a_script_whose_output_nobody_watches_prints_nothing() -> None:
    script = """
        from lacuner.training.progress import shown_progress
        with shown_progress(None, "f1") as observer:
            observer.epoch_started(1, 1, 10)
            observer.epoch_ended({"epoch": 1, "loss": 0.5, "words_per_second": 1000})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
