"""What a person at a terminal sees."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no terminals on this system")

HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"


def interrupted_at_a_bar(arguments: list[str], folder: Path) -> bytes:
    """What ``lacuner`` writes to a terminal until it ends, with Ctrl-C when a progress bar is shown."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.execv(sys.executable, [sys.executable, "-m", "lacuner", *arguments])
    written, interrupted = b"", False
    with contextlib.suppress(OSError):  # Linux's way to say that the other side is closed
        while read := os.read(terminal, 4096):
            written += read
            if HIDE in written and not interrupted:
                interrupted = True
                time.sleep(0.1)
                os.write(terminal, b"\x03")
    os.waitpid(process, 0)
    os.close(terminal)
    assert interrupted, written.decode()
    return written


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--epochs", "30"],
        ["audit", "train.conll", "--out", "audit", "--epochs", "100"],
        ["train", "train.conll", "--out", "model", "--method", "full", "--epochs", "100"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_ctrl_c_gives_the_cursor_back(files: Path, arguments: list[str]) -> None:
    written = interrupted_at_a_bar(arguments, files)
    assert written.rindex(SHOW) > written.rindex(HIDE)
    assert b"Traceback" not in written
