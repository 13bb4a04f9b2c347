"""Training seen from the terminal."""

from rich.progress import Progress, ProgressColumn

from lacuner.cli.console import errors, start_bar
from lacuner.training.progress import ConsoleObserver


class TerminalObserver(ConsoleObserver):
    """Shows training on standard error; a command that ends in any way stops its bar.

    Args:
        title: put before each line, to tell one training run from another.
        metric: what the best epoch is chosen by, as in ``training.metric``.
    """

    def __init__(self, title: str = "", metric: str = "f1") -> None:
        super().__init__(errors, title, metric)

    def start_bar(self, *columns: ProgressColumn) -> Progress:
        return start_bar(*columns)
