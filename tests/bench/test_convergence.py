import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.bench.convergence import gain_in_tail, is_converged, tail_length

LEVEL = [0.2, 0.5, 0.7, 0.78, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]


def converged(history: list[float], planned: int | None) -> bool:
    return is_converged({"epochs": history, "planned_epochs": planned})


def test_a_model_that_gets_better_until_its_epochs_are_over_has_not_converged() -> None:
    rising = [number / 12 for number in range(1, 11)]
    assert not converged(rising, 10)
    assert not converged([*LEVEL[:8], 0.79, 0.82], 10)


def test_a_gain_that_small_dev_data_cannot_show_is_no_sign() -> None:
    """475 entities: the standard error of an F1 of 0.56 is 2.3 points."""
    record = {"epochs": [0.3, 0.5, 0.54, 0.54, 0.558], "planned_epochs": 5}
    assert not is_converged(record)
    assert not is_converged(record | {"dev_support": 9591})
    assert is_converged(record | {"dev_support": 475})
    assert not is_converged(record | {"dev_support": 475, "epochs": [0.3, 0.5, 0.53, 0.53, 0.558]})


def test_the_last_epochs_may_be_a_little_better() -> None:
    """The learning rate falls to zero."""
    assert converged([*LEVEL[:8], 0.805, 0.809], 10)


def test_a_model_that_was_best_before_has_converged_however_much_it_moves_at_the_end() -> None:
    assert converged([*LEVEL[:7], 0.9, 0.7, 0.88], 10)


def test_training_that_was_stopped_early_had_stopped_getting_better() -> None:
    rising = [number / 12 for number in range(1, 11)]
    assert converged(rising, 11)
    assert gain_in_tail(rising, 11) is None


@pytest.mark.parametrize(("planned", "tail"), [(1, 1), (2, 1), (5, 1), (6, 2), (10, 2), (15, 3), (30, 6)])
def test_the_tail_is_a_fifth_and_at_least_one_epoch(planned: int, tail: int) -> None:
    assert tail_length(planned) == tail


@pytest.mark.parametrize(
    "record", [{}, {"epochs": [0.1, 0.9]}, {"planned_epochs": 2}, {"epochs": [], "planned_epochs": 2}]
)
def test_nothing_is_said_about_results_that_do_not_tell(record: dict[str, object]) -> None:
    assert is_converged(record)


def test_one_epoch_cannot_be_compared_with_those_before_it() -> None:
    assert converged([0.9], 1)


@pytest.mark.parametrize("planned", [None, 3, 15])
def test_a_model_that_never_finds_anything_has_not_converged(planned: int | None) -> None:
    """Its dev F1 is level, also where patience has stopped it; but it has not begun to learn."""
    assert not converged([0.0, 0.0, 0.0], planned)
    assert converged([0.0, 0.3, 0.3], planned)


@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=30))
def test_a_model_that_never_gets_better_has_converged(values: list[float]) -> None:
    assert converged(sorted(values, reverse=True), len(values))
