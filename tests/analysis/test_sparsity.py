import math
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.analysis.sparsity import fraction_of_sparse_sentences, sparsity_by_length

sentences = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=40)


@given(sentences)
def test_rows_are_means_and_variances_of_each_length(pairs):
    rows = sparsity_by_length(pairs)
    assert [row.length for row in rows] == sorted({n for n, _ in pairs if n})
    for row in rows:
        counts = [entities for n, entities in pairs if n == row.length]
        assert row.sentences == len(counts)
        assert row.mean == pytest.approx(fmean(counts))
        assert row.variance == pytest.approx(pvariance(counts))
        assert row.sparse == sum(count <= math.sqrt(row.length) for count in counts)
        low, high = row.bar
        assert high - low == pytest.approx(1.6 * row.variance)
        assert (low + high) / 2 == pytest.approx(row.mean)


@given(sentences)
def test_the_share_is_that_of_all_sentences(pairs):
    filled = [(n, count) for n, count in pairs if n]
    expected = fmean(count <= math.sqrt(n) for n, count in filled) if filled else 0
    assert fraction_of_sparse_sentences(sparsity_by_length(pairs)) == pytest.approx(expected)


def test_exactly_the_square_root_is_sparse():
    (row,) = sparsity_by_length([(9, 3)])
    assert row.sparse == 1
