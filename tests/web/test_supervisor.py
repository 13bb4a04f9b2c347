"""Processes that answer on one socket; here, they only write down what happens to them."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from lacuner.errors import LacunerError
from lacuner.web import supervisor
from lacuner.web.supervisor import end_with, supervise


def work(folder: Path, index: int, parent: int, ready: Event) -> None:
    """Answers, unless the folder says that it cannot; each signal is a file."""
    here = folder / f"{index}-{os.getpid()}"
    signal.signal(signal.SIGTERM, lambda *_: here.with_suffix(".stop").touch())
    signal.signal(signal.SIGHUP, lambda *_: here.with_suffix(".reload").touch())
    end_with(parent)
    here.with_suffix(".begun").touch()
    while (folder / "loading").exists():
        time.sleep(0.01)
    if (folder / "broken").exists():
        return
    ready.set()
    here.with_suffix(".ready").touch()
    while not here.with_suffix(".stop").exists():
        time.sleep(0.01)
    if (folder / "stubborn").exists():
        time.sleep(60)


def wait_until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


class Story:
    """Something that is done to a group of processes, in a thread; the group itself needs the main thread, for signals."""

    def __init__(self, folder: Path, what: Callable[["Story"], object], workers: int = 2, grace: float = 5) -> None:
        self.folder, self.said = folder, []
        self.started, self.ended = threading.Event(), threading.Event()
        self.failures: list[BaseException] = []

        def tell() -> None:
            try:
                what(self)
            except BaseException as error:
                self.failures.append(error)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        before = signal.getsignal(signal.SIGTERM)
        thread = threading.Thread(target=tell)
        thread.start()
        try:
            supervise(partial(work, folder), workers, self.started.set, self.said.append, grace)
        finally:
            self.ended.set()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a group that ends by itself ends before the story
            thread.join()
            signal.signal(signal.SIGTERM, before)
        for failure in self.failures:
            raise failure

    def files(self, suffix: str) -> set[str]:
        return {path.stem for path in self.folder.glob(f"*.{suffix}")}

    def pids(self) -> dict[int, int]:
        """Process of each number; the last one that has begun to answer."""
        found = sorted(self.folder.glob("*.ready"), key=lambda path: path.stat().st_mtime_ns)
        return {int(path.stem.partition("-")[0]): int(path.stem.partition("-")[2]) for path in found}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(supervisor, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(supervisor, "_RETRY_FIRST", 0.3)
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.2)
    return


def kill(story: Story, index: int) -> None:
    os.kill(story.pids()[index], signal.SIGKILL)


def test_all_are_started_told_to_load_again_and_stopped(tmp_path: Path) -> None:
    def what(story: Story) -> None:
        assert story.started.wait(30)
        assert len(story.files("ready")) == 2
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: story.files("reload") == story.files("ready"))

    story = Story(tmp_path, what)
    assert story.files("stop") == story.files("ready")
    assert story.said == []
    assert not [pid for pid in story.pids().values() if Path(f"/proc/{pid}").exists()]


def test_one_that_dies_is_replaced(tmp_path: Path) -> None:
    def what(story: Story) -> None:
        assert story.started.wait(30)
        kill(story, 1)
        wait_until(lambda: len(story.files("ready")) == 3)

    assert Story(tmp_path, what).said == ["warning: process 2 of 2 has died and is being replaced."]


def test_a_group_that_cannot_begin_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(LacunerError, match="a process ended before it could answer"):
        Story(tmp_path, lambda story: story.ended.wait(30))


def test_one_that_cannot_be_replaced_is_tried_again_later_and_the_other_goes_on(tmp_path: Path) -> None:
    def what(story: Story) -> None:
        assert story.started.wait(30)
        healthy = story.pids()[1]
        (tmp_path / "broken").touch()
        kill(story, 0)
        wait_until(lambda: len(story.said) == 3)  # it died; two replacements ended
        assert Path(f"/proc/{healthy}").exists()
        assert f"1-{healthy}" not in story.files("stop")
        assert len(story.files("begun")) == 4
        (tmp_path / "broken").unlink()
        wait_until(lambda: len(story.files("ready")) == 3)

    said = Story(tmp_path, what).said
    why = "warning: process 1 of 2 ended before it could answer; the others continue. Next try in"
    assert said[1:3] == [f"{why} 0.3 s.", f"{why} 0.6 s."]


def test_one_that_still_loads_is_told_to_load_again_once_it_answers(tmp_path: Path) -> None:
    def what(story: Story) -> None:
        assert story.started.wait(30)
        (tmp_path / "loading").touch()
        kill(story, 0)
        wait_until(lambda: len(story.files("begun")) == 3)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: len(story.files("reload")) == 1)
        (tmp_path / "loading").unlink()
        wait_until(lambda: len(story.files("reload")) == 2)

    story = Story(tmp_path, what)
    assert story.files("reload") == {f"{index}-{pid}" for index, pid in story.pids().items()}


def test_one_that_does_not_stop_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    (tmp_path / "stubborn").touch()
    ended = []

    def what(story: Story) -> None:
        assert story.started.wait(30)
        ended.append(time.monotonic())

    Story(tmp_path, what, grace=0.1)
    assert time.monotonic() - ended[0] < 20
