import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.features.batches import plan_batches

LENGTHS = st.lists(st.integers(0, 60), max_size=80)
SHUFFLES = st.none() | st.tuples(st.integers(0, 2**32), st.integers(0, 100))


def varied_lengths(count: int) -> list[int]:
    chance = random.Random(1)
    return [chance.randint(1, 100) for _ in range(count)]


def padded(plan: list[list[int]], lengths: list[int]) -> int:
    return sum(len(batch) * max(lengths[index] for index in batch) for batch in plan)


@given(LENGTHS, st.integers(1, 100), SHUFFLES)
def test_a_padded_batch_keeps_to_the_budget_unless_one_sentence_alone_exceeds_it(
    lengths: list[int], budget: int, shuffle: tuple[int, int] | None
) -> None:
    for batch in plan_batches(lengths, budget, shuffle):
        longest = max(lengths[index] for index in batch)
        assert len(batch) * longest <= budget or len(batch) == 1


@given(LENGTHS, st.integers(1, 100), SHUFFLES)
def test_every_sentence_is_in_exactly_one_batch(
    lengths: list[int], budget: int, shuffle: tuple[int, int] | None
) -> None:
    plan = plan_batches(lengths, budget, shuffle)
    assert sorted(index for batch in plan for index in batch) == list(range(len(lengths)))


def test_the_same_seed_and_epoch_give_the_same_plan() -> None:
    lengths = varied_lengths(500)
    assert plan_batches(lengths, 400, (3, 7)) == plan_batches(lengths, 400, (3, 7))


@pytest.mark.parametrize("other", [(3, 8), (4, 7)])
def test_another_seed_or_epoch_gives_another_plan(other: tuple[int, int]) -> None:
    lengths = varied_lengths(500)
    assert plan_batches(lengths, 400, (3, 7)) != plan_batches(lengths, 400, other)


def test_another_epoch_brings_sentences_into_new_company() -> None:
    lengths = varied_lengths(20_000)
    one, other = ({frozenset(batch) for batch in plan_batches(lengths, 400, (3, epoch))} for epoch in (0, 1))
    assert len(one & other) < 0.5 * len(one)


@pytest.mark.parametrize("shuffle", [None, (1, 0)])
def test_sentences_of_similar_length_are_together(shuffle: tuple[int, int] | None) -> None:
    lengths = varied_lengths(3_000)
    order = list(range(len(lengths)))
    random.Random(2).shuffle(order)
    by_chance = [order[begin : begin + 10] for begin in range(0, len(order), 10)]
    assert padded(by_chance, lengths) > 1.5 * sum(lengths)
    assert padded(plan_batches(lengths, 500, shuffle), lengths) < 1.1 * sum(lengths)


def test_without_shuffling_batches_go_from_short_to_long() -> None:
    assert plan_batches([5, 1, 3, 2, 9], 6) == [[1, 3], [2], [0], [4]]


def test_a_shuffled_plan_does_not_go_from_short_to_long() -> None:
    lengths = varied_lengths(2_000)
    longest = [max(lengths[index] for index in batch) for batch in plan_batches(lengths, 400, (1, 0))]
    assert longest != sorted(longest)


@pytest.mark.parametrize("shuffle", [None, (1, 0)])
def test_no_sentences_make_no_batches(shuffle: tuple[int, int] | None) -> None:
    assert plan_batches([], 100, shuffle) == []
