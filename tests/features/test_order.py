import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner.features.order import backwards, rearrange

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(LENGTHS, st.integers(0, 3))
def test_each_sentence_is_read_from_its_own_last_word_to_its_first(lengths: list[int], surplus: int) -> None:
    places = max(lengths) + surplus
    expected = [[*range(length - 1, -1, -1), *range(length, places)] for length in lengths]
    assert backwards(torch.tensor(lengths), places).tolist() == expected


@given(LENGTHS, st.integers(0, 3), st.integers(0, 99))
def test_read_backwards_twice_everything_is_where_it_was(lengths: list[int], surplus: int, seed: int) -> None:
    places = max(lengths) + surplus
    words = torch.rand(len(lengths), places, 2, generator=torch.Generator().manual_seed(seed))
    order = backwards(torch.tensor(lengths), places)
    turned = rearrange(words, order)
    for row, length in enumerate(lengths):
        for place in range(places):
            source = length - 1 - place if place < length else place
            assert turned[row, place].equal(words[row, source])
    assert rearrange(turned, order).equal(words)
