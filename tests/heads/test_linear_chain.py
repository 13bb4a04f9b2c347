"""Everything here is compared with the sum over all tag sequences, one by one."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.heads.linear_chain import expected_count, forward_backward, log_partition, marginals, viterbi

NEVER = float("-inf")


class Batch(NamedTuple):
    """Scores of sentences with different lengths; there is something in the padding, too."""

    emissions: Tensor  # (N, n, T)
    transitions: Tensor  # (T, T)
    lengths: Tensor  # (N,)
    linked: Tensor | None  # (N, n)


def random_batch(lengths: list[int], tags: int, seed: int, forbid: float = 0.0, cut: float = 0.0) -> Batch:
    """Scores in double precision; ``forbid`` of them are forbidden, but one sequence of each sentence is not."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    emissions = 6 * random(len(lengths), max(lengths) + seed % 2, tags) - 3
    transitions = 4 * random(tags, tags) - 2
    way = (tags * random(*emissions.shape[:2])).long()
    keep_emissions, keep_transitions = random(*emissions.shape) >= forbid, random(tags, tags) >= forbid
    keep_emissions.scatter_(2, way[..., None], True)
    keep_transitions[way[:, :-1], way[:, 1:]] = True
    linked = random(*emissions.shape[:2]) >= cut if cut else None
    return Batch(
        emissions.masked_fill(~keep_emissions, NEVER),
        transitions.masked_fill(~keep_transitions, NEVER),
        torch.tensor(lengths),
        linked,
    )


@cache
def all_sequences(tags: int, length: int) -> Tensor:
    """Every sequence of so many tags: ``(M, length)``."""
    return torch.tensor(list(product(range(tags), repeat=length)))


def sequences(batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """All tag sequences ``(M, length)`` of each sentence, and their scores ``(M,)``."""
    for row, length in enumerate(batch.lengths.tolist()):
        tags = all_sequences(len(batch.transitions), length)
        score = torch.zeros(len(tags), dtype=batch.emissions.dtype)
        for position in range(length):
            score = score + batch.emissions[row, position, tags[:, position]]
            if position and (batch.linked is None or batch.linked[row, position]):
                score = score + batch.transitions[tags[:, position - 1], tags[:, position]]
        yield tags, score


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


BATCHES = st.one_of(
    st.tuples(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 5)),
    st.tuples(st.just([6, 1, 5]), st.integers(2, 4)),
    st.just(([6, 3], 5)),
)
SHARES = st.sampled_from([0.0, 0.3, 0.7])


@settings(max_examples=40)
@given(BATCHES, SHARES, SHARES, st.integers(0, 999))
def test_the_partition_sums_over_all_sequences(
    shape: tuple[list[int], int], forbid: float, cut: float, seed: int
) -> None:
    batch = random_batch(*shape, seed, forbid, cut)
    expected = torch.stack([score.logsumexp(0) for _, score in sequences(batch)])
    assert_close(log_partition(*batch), expected)
    assert_close(forward_backward(*batch).total, expected)


@settings(max_examples=40)
@given(BATCHES, SHARES, SHARES, st.integers(0, 999))
def test_a_marginal_is_the_share_of_the_sequences_with_that_tag(
    shape: tuple[list[int], int], forbid: float, cut: float, seed: int
) -> None:
    batch = random_batch(*shape, seed, forbid, cut)
    expected = torch.zeros_like(batch.emissions)
    for row, (tags, score) in enumerate(sequences(batch)):
        shares = score.softmax(0)
        for position in range(tags.shape[1]):
            expected[row, position].index_add_(0, tags[:, position], shares)
    found = marginals(*batch)
    assert_close(found, expected)
    assert_close(found.sum(-1).sum(-1), batch.lengths.double())


@settings(max_examples=12)
@given(BATCHES, SHARES, SHARES, st.integers(0, 999))
def test_sums_up_to_a_word_and_from_it_on_leave_the_other_words_out(
    shape: tuple[list[int], int], forbid: float, cut: float, seed: int
) -> None:
    batch = random_batch(*shape, seed, forbid, cut)
    sums = forward_backward(*batch)
    for row, length in enumerate(batch.lengths.tolist()):
        for position in range(length):
            for table, words, itself in (
                (sums.forward, slice(0, position + 1), -1),
                (sums.backward, slice(position, length), 0),
            ):
                linked = None if batch.linked is None else batch.linked[row : row + 1, words]
                part = batch.emissions[row : row + 1, words]
                ((tags, score),) = sequences(Batch(part, batch.transitions, torch.tensor([part.shape[1]]), linked))
                for tag in range(len(batch.transitions)):
                    expected = score[tags[:, itself] == tag].logsumexp(0)
                    assert_close(table[row, position, tag], expected)


@settings(max_examples=40)
@given(BATCHES, SHARES, st.integers(0, 999))
def test_the_best_sequence_has_the_highest_score_of_all(shape: tuple[list[int], int], forbid: float, seed: int) -> None:
    batch = random_batch(*shape, seed, forbid)
    found = viterbi(*batch[:3])
    assert found.shape == batch.emissions.shape[:2]
    for row, (tags, score) in enumerate(sequences(batch)):
        length = tags.shape[1]
        assert found[row, :length].tolist() == tags[score.argmax()].tolist()
        assert found[row, length:].tolist() == [0] * (found.shape[1] - length)


@settings(max_examples=40)
@given(BATCHES, SHARES, st.integers(0, 999), st.data())
def test_the_expected_count_is_the_mean_over_all_sequences(
    shape: tuple[list[int], int], forbid: float, seed: int, data: st.DataObject
) -> None:
    batch = random_batch(*shape, seed, forbid)
    counted = torch.tensor(data.draw(st.lists(st.booleans(), min_size=shape[1], max_size=shape[1]))).double()
    expected = torch.stack([(score.softmax(0) * counted[tags].sum(1)).sum() for tags, score in sequences(batch)])
    assert_close(expected_count(*batch[:3], counted), expected)


@pytest.mark.parametrize("cut", [0.0, 0.4])
@pytest.mark.parametrize("forbid", [0.0, 0.5])
@pytest.mark.parametrize("lengths", [[1], [4, 1, 3], [2, 6]])
def test_the_gradient_of_the_partition_is_that_of_finite_differences(
    lengths: list[int], forbid: float, cut: float
) -> None:
    batch = random_batch(lengths, 3, 7, forbid, cut)
    emissions, transitions = batch.emissions.requires_grad_(), batch.transitions.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda u, s: log_partition(u, s, batch.lengths, batch.linked), (emissions, transitions)
    )


@pytest.mark.parametrize("forbid", [0.0, 0.5])
@pytest.mark.parametrize("cut", [0.0, 0.4])
def test_the_gradient_of_the_partition_is_that_of_the_sum_itself(forbid: float, cut: float) -> None:
    batch = random_batch([5, 1, 3], 4, 3, forbid, cut)
    emissions, transitions = batch.emissions.requires_grad_(), batch.transitions.requires_grad_()
    weight = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    expected = torch.autograd.grad(
        (torch.stack([score.logsumexp(0) for _, score in sequences(batch)]) * weight).sum(), (emissions, transitions)
    )
    found = torch.autograd.grad((log_partition(*batch) * weight).sum(), (emissions, transitions))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


def test_the_gradient_is_there_for_one_of_the_two_alone() -> None:
    batch = random_batch([3, 2], 3, 0)
    both = torch.autograd.grad(
        log_partition(batch.emissions.requires_grad_(), batch.transitions.requires_grad_(), batch.lengths).sum(),
        (batch.emissions, batch.transitions),
    )
    emissions, transitions = batch.emissions.detach(), batch.transitions.detach()
    (alone,) = torch.autograd.grad(log_partition(batch.emissions, transitions, batch.lengths).sum(), batch.emissions)
    assert_close(alone, both[0])
    (alone,) = torch.autograd.grad(log_partition(emissions, batch.transitions, batch.lengths).sum(), batch.transitions)
    assert_close(alone, both[1])


@pytest.mark.parametrize("forbid", [0.0, 0.5])
def test_the_gradient_of_the_expected_count_is_that_of_finite_differences(forbid: float) -> None:
    batch = random_batch([4, 1, 3], 3, 5, forbid)
    emissions, transitions = batch.emissions.requires_grad_(), batch.transitions.requires_grad_()
    counted = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda u, s: expected_count(u, s, batch.lengths, counted), (emissions, transitions))


@pytest.mark.parametrize("padding", [-40.0, 0.0, 1e4, NEVER])
def test_padding_is_not_looked_at(padding: float) -> None:
    lengths = torch.tensor([1, 4, 2])
    batch = random_batch([1, 4, 2], 3, 2, 0.3)
    outside = (torch.arange(batch.emissions.shape[1]) >= lengths[:, None])[..., None]
    counted = torch.tensor([0.0, 1.0, 0.0]).double()
    results = []
    for scores in (batch.emissions, batch.emissions.masked_fill(outside, padding)):
        emissions, transitions = scores.clone().requires_grad_(), batch.transitions.clone().requires_grad_()
        count = expected_count(emissions, transitions, lengths, counted)
        total = log_partition(emissions, transitions, lengths)
        gradients = torch.autograd.grad((total + count).sum(), (emissions, transitions))
        best = viterbi(emissions, transitions, lengths)
        results.append([total, count, *gradients, best, marginals(emissions, transitions, lengths)])
    for one, other in zip(*results, strict=True):
        assert_close(one, other)


def test_words_between_which_there_is_no_step_are_sentences_of_their_own() -> None:
    batch = random_batch([5], 4, 1)
    linked = torch.tensor([[True, True, False, True, True]])
    parts = [
        log_partition(batch.emissions[:, w], batch.transitions, torch.tensor([n]))
        for w, n in ((slice(2), 2), (slice(2, 5), 3))
    ]
    assert_close(log_partition(batch.emissions[:, :5], batch.transitions, batch.lengths, linked), parts[0] + parts[1])
    first = torch.tensor([[False, True, True, True, True]])
    everything = log_partition(batch.emissions[:, :5], batch.transitions, batch.lengths)
    assert_close(log_partition(batch.emissions[:, :5], batch.transitions, batch.lengths, first), everything)


def all_numbers(emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None) -> list[Tensor]:
    """Everything that can be computed of a batch, and its gradients."""
    emissions, transitions = emissions.clone().requires_grad_(), transitions.clone().requires_grad_()
    total = log_partition(emissions, transitions, lengths, linked)
    count = expected_count(emissions, transitions, lengths, torch.ones(len(transitions)))
    gradients = torch.autograd.grad((total + count).sum(), (emissions, transitions))
    return [total.detach(), count.detach(), *gradients, marginals(emissions, transitions, lengths, linked)]


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("forbid", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("cut", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_ever_not_a_number(scale: float, forbid: float, cut: float, dtype: torch.dtype) -> None:
    """With ``forbid`` at 1, one sequence is left of each sentence."""
    for lengths in ([1], [1, 1], [7, 1, 2], [12]):
        batch = random_batch(lengths, 5, 4, forbid, cut)
        emissions, transitions = (scale * batch.emissions).to(dtype), (scale * batch.transitions).to(dtype)
        found = all_numbers(emissions, transitions, batch.lengths, batch.linked)
        assert all(value.isfinite().all() for value in found)


@pytest.mark.parametrize("forbid", [0.0, 0.5])
@pytest.mark.parametrize("cut", [0.0, 0.5])
def test_sums_as_products_are_the_sums_of_logs(forbid: float, cut: float, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = random_batch([30, 1, 17], 33, 3, forbid, cut)
    as_products = all_numbers(batch.emissions, batch.transitions, batch.lengths, batch.linked)
    assert forward_backward(batch.emissions, batch.transitions, batch.lengths, batch.linked).moderate
    monkeypatch.setattr("lacuner.heads.linear_chain._MODERATE", 0.0)
    assert not forward_backward(batch.emissions, batch.transitions, batch.lengths, batch.linked).moderate
    as_logs = all_numbers(batch.emissions, batch.transitions, batch.lengths, batch.linked)
    for one, other in zip(as_products, as_logs, strict=True):
        assert_close(one, other)


def test_the_only_sequence_that_is_allowed_is_certain() -> None:
    emissions = torch.full((1, 3, 4), NEVER)
    emissions[0, [0, 1, 2], [3, 0, 2]] = torch.tensor([5.0, -1e4, 7.0])
    transitions = torch.full((4, 4), NEVER)
    transitions[3, 0], transitions[0, 2] = 1e4, 0.5
    lengths = torch.tensor([3])
    assert log_partition(emissions, transitions, lengths).tolist() == [12.5]
    assert viterbi(emissions, transitions, lengths).tolist() == [[3, 0, 2]]
    assert marginals(emissions, transitions, lengths)[0].nonzero().tolist() == [[0, 3], [1, 0], [2, 2]]
    counted = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert expected_count(emissions, transitions, lengths, counted).tolist() == [2.0]


def test_scores_that_are_forbidden_are_never_better_than_bad_ones() -> None:
    """However bad what is allowed, and however good what is forbidden would be otherwise."""
    emissions = torch.tensor([[[-1e4, 1e4], [-1e4, 1e4], [-1e4, 1e4]]]).double()
    transitions = torch.tensor([[0.0, NEVER], [NEVER, NEVER]]).double()
    lengths = torch.tensor([3])
    assert expected_count(emissions, transitions, lengths, torch.tensor([1.0, 0.0])).tolist() == [3.0]
    assert log_partition(emissions, transitions, lengths).tolist() == [-3e4]
    assert viterbi(emissions, transitions, lengths).tolist() == [[0, 0, 0]]


def bounded_batch(spread: float, greatest: float) -> Batch:
    """Two words with two tags: emissions that differ by ``spread``, and a transition of ``-greatest`` that has to be taken."""
    emissions = torch.tensor([[[0.0, -spread], [0.0, NEVER]]]).double()
    transitions = torch.tensor([[-greatest, 0.0], [0.0, 0.0]]).double()
    return Batch(emissions, transitions, torch.tensor([2]), None)


@pytest.mark.parametrize("limited", ["emissions", "transitions"])
@pytest.mark.parametrize(
    ("range_of_scores", "moderate"), [(290.0, True), (299.0, True), (301.0, False), (320.0, False)]
)
def test_exponentials_are_added_as_long_as_a_double_holds_them(
    limited: str, range_of_scores: float, moderate: bool
) -> None:
    batch = bounded_batch(*((range_of_scores, 0.0) if limited == "emissions" else (0.0, range_of_scores)))
    assert forward_backward(*batch).moderate is moderate


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [250.0, 299.0, 301.0, 600.0, 720.0, 760.0, 1500.0, 5000.0])
@pytest.mark.parametrize("limited", ["emissions", "transitions", "both"])
def test_scores_of_any_size_are_summed_as_one_by_one(limited: str, size: float, sign: int) -> None:
    """The exponential of 710 is more than a double holds, that of -746 is nothing."""
    batch = random_batch([4, 2], 3, 5)
    emissions, transitions = batch.emissions.clone(), batch.transitions.clone()
    if limited != "transitions":
        emissions[:, ::2, 0] += sign * size
    if limited != "emissions":
        transitions[1, 2] += sign * size
        transitions[2, 1] -= sign * size
    large = Batch(emissions.requires_grad_(), transitions.requires_grad_(), batch.lengths, None)
    expected = torch.stack([score.logsumexp(0) for _, score in sequences(large)])
    found = log_partition(*large)
    assert_close(found, expected)
    slow, fast = (torch.autograd.grad(total.sum(), (emissions, transitions)) for total in (expected, found))
    for one, other in zip(fast, slow, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(("first", "step"), [(299.0, 299.0), (250.0, 299.0), (299.0, 100.0)])
def test_a_transition_that_only_a_bad_tag_can_take_is_counted(first: float, step: float) -> None:
    """The better tag of the first word leads nowhere, so what follows is far more than is left of the sum."""
    emissions = torch.tensor([[[0.0, first], [0.0, NEVER]]]).double()
    transitions = torch.tensor([[-step, NEVER], [NEVER, NEVER]]).double().requires_grad_()
    lengths = torch.tensor([2])
    assert forward_backward(emissions, transitions.detach(), lengths).moderate
    total = log_partition(emissions, transitions, lengths)
    assert_close(total.detach(), torch.tensor([-step]).double())
    (counts,) = torch.autograd.grad(total.sum(), transitions)
    assert counts.tolist() == [[pytest.approx(1.0), 0.0], [0.0, 0.0]]


def test_a_tag_to_which_no_transition_leads_is_never_taken_however_good_it_is() -> None:
    emissions = torch.tensor([[[0.0, 299.0, NEVER], [0.0, NEVER, 299.0]]]).double()
    transitions = torch.full((3, 3), NEVER).double()
    transitions[0, 0] = -299.0
    transitions.requires_grad_()
    lengths = torch.tensor([2])
    assert forward_backward(emissions, transitions.detach(), lengths).moderate
    (counts,) = torch.autograd.grad(log_partition(emissions, transitions, lengths).sum(), transitions)
    assert counts.flatten().tolist() == [pytest.approx(1.0), *[0.0] * 8]


@pytest.mark.parametrize("score", [-5000.0, -800.0, -301.0, 301.0, 800.0, 5000.0])
def test_the_only_transition_that_is_allowed_is_taken_however_bad_it_is(score: float) -> None:
    emissions = torch.tensor([[[0.0, NEVER], [1.0, NEVER], [2.0, NEVER]]]).double()
    transitions = torch.tensor([[score, NEVER], [NEVER, NEVER]]).double()
    assert log_partition(emissions, transitions, torch.tensor([3])).tolist() == [2 * score + 3.0]


@pytest.mark.parametrize("shift", [-1e6, -500.0, 500.0, 1e6])
def test_what_is_added_to_all_tags_of_a_word_is_added_to_the_sum(shift: float) -> None:
    batch = random_batch([5, 3], 4, 6, forbid=0.3)
    shifted = batch._replace(emissions=batch.emissions + shift)
    assert forward_backward(*shifted).moderate
    assert_close(log_partition(*shifted), log_partition(*batch) + shift * batch.lengths)
