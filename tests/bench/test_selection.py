from collections.abc import Sequence
from itertools import product

import pytest

from lacuner.bench.runs import Run
from lacuner.bench.selection import Selection, parse_seeds
from lacuner.errors import ConfigError


def a_run(data: str, hidden: float, method: str, seed: int, complete: bool = False) -> Run:
    return Run(data, hidden, complete, method, "recurrent", seed, {}, {})


RUNS = [
    *(a_run(*one) for one in product(("a", "b"), (0.0, 0.5), ("full", "two-step, plain"), (1, 2))),
    a_run("a", 0.0, "full", 1, complete=True),
]


def names(runs: Sequence[Run]) -> list[str]:
    return [str(run) for run in runs]


def test_without_a_wish_all_runs_are_chosen() -> None:
    assert Selection().of(RUNS) == RUNS


def test_runs_are_chosen_by_dataset_method_and_seed() -> None:
    chosen = Selection(("b",), ("two-step, plain",), (2,)).of(RUNS)
    assert names(chosen) == ["b, two-step, plain, recurrent, seed 2", "b 0.5, two-step, plain, recurrent, seed 2"]


def test_names_may_stand_with_commas_between_them() -> None:
    runs = [*RUNS, a_run("a", 0.0, "crf", 1)]
    assert Selection(("a,b",), ("full, crf",), (1,)).of(runs) == [
        run for run in runs if run.method in ("full", "crf") and run.seed == 1
    ]


def test_a_dataset_has_its_run_on_all_labels_and_a_column_has_not() -> None:
    assert [run.complete for run in Selection(("a",), ("full",), (1,)).of(RUNS)] == [False, False, True]
    assert names(Selection(("a 0.5",), ("full",), (1,)).of(RUNS)) == ["a 0.5, full, recurrent, seed 1"]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(("c",)), r"--datasets: no run has the dataset c; there are: a, a 0\.5, b, b 0\.5"),
        (
            Selection(methods=("two-step",)),
            r"--methods: no run has the method two-step; there are: full, two-step, plain",
        ),
        (Selection(("a,c",)), r"--datasets: no run has the dataset c"),
        (Selection(seeds=(3,)), r"--seeds: no run has the seed 3; there are: 1, 2"),
    ],
)
def test_a_name_that_no_run_has_is_refused(selection: Selection, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        selection.of(RUNS)


def test_wishes_that_no_run_fits_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no run of the recipe fits .* together — leave one out"):
        Selection(("b",), seeds=(9,)).of([*RUNS, a_run("a", 0.0, "full", 9)])


@pytest.mark.parametrize("text", ["", "1;2", "1,", "one"])
def test_seeds_are_numbers_with_commas(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--seeds .*: write numbers with commas between them, such as 1,2"):
        parse_seeds(text)
