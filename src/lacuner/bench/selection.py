"""Selection of the runs of a recipe to execute; the report includes all finished ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lacuner.bench.runs import Run
from lacuner.errors import ConfigError


@dataclass(frozen=True)
class Selection:
    """A subset of a recipe.

    Attributes:
        datasets: names of datasets, or of single columns such as ``conll03 0.5``, possibly comma-separated; empty: all.
        methods: as named in the recipe, possibly comma-separated; empty: all.
        seeds: empty: all.
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def of(self, runs: Sequence[Run]) -> list[Run]:
        """The selected runs, in order; a name without runs is an error."""
        datasets = _known_names("dataset", self.datasets, (name for run in runs for name in (run.data, run.column)))
        methods = _known_names("method", self.methods, (run.method for run in runs))
        _check("seed", self.seeds, (run.seed for run in runs))
        wanted = Selection(datasets, methods, self.seeds)
        chosen = [run for run in runs if wanted._has(run)]
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
    """Parse seeds from the command line.

    >>> parse_seeds("1, 2,5")
    (1, 2, 5)
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ConfigError(f"--seeds {text}: write numbers with commas between them, such as 1,2") from None


def _known_names(kind: str, wanted: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Split lists such as ``full,crf`` into names, which may contain commas themselves."""
    there = dict.fromkeys(known)
    names = [name for text in wanted for name in ([text] if text in there else map(str.strip, text.split(",")))]
    _check(kind, names, there)
    return tuple(names)


def _check(kind: str, wanted: Iterable[str | int], known: Iterable[str | int]) -> None:
    there = dict.fromkeys(known)
    for name in wanted:
        if name not in there:
            raise ConfigError(f"--{kind}s: no run has the {kind} {name}; there are: {', '.join(map(str, there))}")
