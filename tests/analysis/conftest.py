"""The toy corpus with gaps, which several analyses are tested on."""

import pytest

from lacuner import Corpus
from lacuner.analysis.hidden import SpanSet, hidden_against_gold


@pytest.fixture
def masked(toy: Corpus) -> Corpus:
    return toy.mask(0.5, seed=1)


@pytest.fixture
def hidden(toy: Corpus, masked: Corpus) -> list[SpanSet]:
    return hidden_against_gold(masked, toy, "gold")
