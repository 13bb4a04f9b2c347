"""Observers for tests."""

from dataclasses import dataclass, field

from lacuner.training.loop import Observer


@dataclass
class Log(Observer):
    """Remembers which models were trained, and can kill training when an epoch of one of them has ended."""

    kill: tuple[str, int] | None = None
    stages: list[str] = field(default_factory=list)
    epochs: list[tuple[str, int]] = field(default_factory=list)

    def stage_started(self, title):
        self.stages.append(title)
        if self.kill == (title, 0):
            raise KeyboardInterrupt

    def epoch_started(self, epoch, epochs, words):
        self.epochs.append((self.stages[-1], epoch))

    def epoch_ended(self, record):
        if self.kill == self.epochs[-1]:
            raise KeyboardInterrupt


class StopAfter(Observer):
    """Interrupts training when an epoch has ended."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def epoch_ended(self, record):
        if record["epoch"] == self.epoch:
            raise KeyboardInterrupt
