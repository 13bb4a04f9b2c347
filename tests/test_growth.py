"""The counting itself: what is quadratic must be seen."""

import pytest

from growth import assert_linear, count_steps


def test_steps_are_counted_exactly():
    def loop(times):
        return lambda: sum(number * number for number in range(times))

    assert count_steps(loop(200)) - count_steps(loop(100)) == count_steps(loop(300)) - count_steps(loop(200)) > 100


def test_a_small_quadratic_part_is_seen():
    def prepare(size):
        known = tuple(range(size, 2 * size))

        def run():
            for number in range(size):
                [str(number * other) for other in range(100)]
                if number % 10 == 0:
                    any(number == other for other in known)

        return run

    with pytest.raises(AssertionError, match="steps become"):
        assert_linear(prepare, 200)


def test_what_is_linear_passes():
    assert_linear(lambda size: lambda: [str(number) for number in range(size)], 500)
