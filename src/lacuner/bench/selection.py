"""Which runs of a recipe are executed now; the report is about all of them that are done."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lacuner.bench.runs import Run
from lacuner.errors import ConfigError


@dataclass(frozen=True)
class Selection:
    """A part of a recipe.

    Attributes:
        datasets: names of datasets, or of single columns such as ``conll03 0.5``; empty: all.
        methods: as the recipe calls them; empty: all.
        seeds: empty: all.
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def of(self, runs: Sequence[Run]) -> list[Run]:
        """The runs that belong to it, in their order; a name that no run has is refused."""
        _check("dataset", self.datasets, (name for run in runs for name in (run.data, run.column)))
        _check("method", self.methods, (run.method for run in runs))
        _check("seed", self.seeds, (run.seed for run in runs))
        chosen = [run for run in runs if self._has(run)]
        if not chosen:
            raise ConfigError("no run of the recipe fits --datasets, --methods and --seeds together — leave one out")
        return chosen

    def _has(self, run: Run) -> bool:
        of_column = run.data in self.datasets or (run.column in self.datasets and not run.complete)
        return (
            (not self.datasets or of_column)
            and (not self.methods or run.method in self.methods)
            and (not self.seeds or run.seed in self.seeds)
        )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds as the command line takes them.

    >>> parse_seeds("1, 2,5")
    (1, 2, 5)
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ConfigError(f"--seeds {text}: write numbers with commas between them, such as 1,2") from None


def _check(kind: str, wanted: Iterable[str | int], known: Iterable[str | int]) -> None:
    there = dict.fromkeys(known)
    for name in wanted:
        if name not in there:
            raise ConfigError(f"--{kind}s: no run has the {kind} {name}; there are: {', '.join(map(str, there))}")
